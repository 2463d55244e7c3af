"""Formulas in the place of the learned terms of a run, as `pdefit discover`."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from omegaconf import OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json, write_text
from pdefit._util.errors import PdefitError
from pdefit.analysis.discovery.discover import CLOSE, Discovery, discover
from pdefit.analysis.discovery.library import TermLibrary
from pdefit.cli.config.command_line import options_among
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.recorded import at_best, open_run
from pdefit.inverse.objective.functional import Functional
from pdefit.output.pictures.discovery import draw_discovery
from pdefit.output.pictures.report import write_report
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.tables import number, write_rows
from pdefit.systems.terms.unknown import parameter_of

_DEFAULTS = {"degree": "3", "functions": "none", "formulas": "none", "most": "6", "draws": "0"}


def run_discover(arguments: list[str], console: Console) -> None:
    """Find formulas in the place of the learned terms of a run, and write terms.csv, a figure and formulas.yaml."""
    options, rest = options_among(arguments, _DEFAULTS)
    job, saved = open_run(rest, "discover", console)
    if saved is None:
        raise PdefitError(f"'{job.directory}' has no estimate yet; pdefit resume it first")
    exp = build_experiment(job.settings)
    objective, theta = at_best(exp, saved)
    if not isinstance(objective, Functional):
        raise PdefitError("discover works on a fit of one recording; fit the recordings one by one")
    library = TermLibrary(
        _whole(options, "degree"), _listed(options["functions"]), _listed(options["formulas"]), _whole(options, "most")
    )
    found = discover(
        objective,
        theta,
        library,
        sigma_stated=exp.sigma_stated,
        draws=_whole(options, "draws", least=0, most=1000),
        seed=job.settings.seed,
        later=exp.source.record if exp.forecasts else None,
    )
    write_rows(job.directory / "terms.csv", _rows(found))
    write_text(job.directory / "formulas.yaml", _experiment(job.directory, found))
    write_json(job.directory / "discovery.json", _content(found))
    draw_discovery(job.directory / "figures" / "discovery.png", job.directory / "discovery.json")
    if RunFiles(job.directory).has("report.html"):
        write_report(job.directory)
    _print(found, console)
    console.print(
        f"written to {escape(str(job.directory / 'terms.csv'))} and figures/discovery.png, and as an experiment to "
        f"formulas.yaml, for pdefit fit",
        highlight=False,
    )


def _whole(options: dict[str, str], key: str, least: int = 1, most: int = 19) -> int:
    if not options[key].isdigit() or not least <= int(options[key]) <= most:
        raise PdefitError(f"{key} expects a whole number from {least} to {most}, but got '{options[key]}'")
    return int(options[key])


def _listed(text: str) -> list[str]:
    return [] if text == "none" else [word.strip() for word in text.strip("[]").split(",") if word.strip()]


def _rows(found: Discovery) -> list[dict[str, Any]]:
    """A line for each term of each set of terms."""
    return [
        {
            "rank": rank,
            "of": name,
            "term": str(one.expression),
            "coefficient": one.coefficient,
            "standard_error": one.error,
            "constant": one.constant,
            "constant_error": one.constant_error,
            "terms": len(these.forms),
            "chi2": these.chi2,
            "criterion": these.criterion,
            "held_out_chi2_per_value": these.held_out,
            "part_of_draws": found.frequency(name, one.expression),
            "latex": one.expression.latex(),
        }
        for rank, these in enumerate(found.found, 1)
        for name, own in these.terms.items()
        for one in own
    ]


def _content(found: Discovery) -> dict[str, Any]:
    """The content of discovery.json, for report and figure: an entry for each set of terms, that taken first."""
    sets = [
        {
            "formula": str(one),
            "terms": len(one.forms),
            "chi2": number(one.chi2),
            "criterion": number(one.criterion),
            "held_out": number(one.held_out),
        }
        for one in found.found
    ]
    told = {"values": found.values, "close": CLOSE, "rivals": len(found.rivals), "misses": found.misses}
    return told | {"sets": sets, "dropped": found.dropped}


def _experiment(directory: Path, found: Discovery) -> str:
    """The experiment of a run with the best terms in the place of what was learned, and their constants as controls."""
    whole = OmegaConf.to_container(OmegaConf.load(directory / ".hydra" / "config.yaml"))
    assert isinstance(whole, dict)
    system, controls = whole["system"], whole["controls"]
    for name, made in found.formulas().items():
        field = name.removeprefix(parameter_of(""))
        (system if field == name else system["unknown"])[field] = {
            "name": "formula",
            "formula": str(made.expression),
            "inputs": [*made.inputs],
            "constants": {c: float(np.asarray(x)) for c, x in made.constants.items()},
        }
        controls.pop(name, None)
        if made.constants:
            controls[name] = {}
    # the constants are near their estimate
    whole["stages"] = {"main": {"optimizer": {"name": "levenberg_marquardt"}, "max_iterations": 60}}
    return "# Formulas in the place of learned terms, with their constants to fit.\n" + yaml.safe_dump(
        whole, sort_keys=False
    )


def _print(found: Discovery, console: Console) -> None:
    table = Table(box=None, header_style="bold")
    ahead = found.best.held_out is not None
    for name in ("terms", "chi2", "criterion", *(["held out"] if ahead else [])):
        table.add_column(name, justify="left" if name == "terms" else "right")
    for one in found.found:
        held = [f"{one.held_out:.4g}"] if one.held_out is not None else []
        table.add_row(escape(str(one)), f"{one.chi2:.5g}", f"{one.criterion:.5g}", *held)
    console.print(table)
    for name, own in found.best.terms.items() if found.draws else ():
        often = ", ".join(f"{one.expression} in {found.frequency(name, one.expression):.0%}" for one in own)
        console.print(
            escape(f"{name}, of {len(found.draws)} draws of the noise about the best: {often or 'nothing'}"),
            highlight=False,
        )
    if found.dropped:
        told = f"sets or candidates that blow up and were dropped: {len(found.dropped)} (see discovery.json), such as "
        console.print(escape(told + "; ".join(found.dropped[:3])), highlight=False)
    if found.rivals:
        console.print(
            f"the data do not tell the first {len(found.rivals) + 1} apart: their criteria differ by less than {CLOSE:g}",
            highlight=False,
        )
    if found.misses:
        console.print(
            f"none of these sets explains the data: chi2 {found.best.chi2:.4g} of {found.values} values; take a higher degree, "
            f"functions=[sin], or more terms (most)",
            highlight=False,
        )
