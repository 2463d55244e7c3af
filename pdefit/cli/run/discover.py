"""Formulas for the learned terms of a run, as `pdefit discover`."""

from pathlib import Path

import numpy as np
import yaml
from omegaconf import OmegaConf
from rich.console import Console
from rich.markup import escape

from pdefit._util.atomic import write_text
from pdefit._util.errors import PdefitError
from pdefit.analysis.discovery.discover import CLOSE, Discovery, discover
from pdefit.analysis.discovery.library import TermLibrary
from pdefit.cli.config.command_line import options_among
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.recorded import at_best, open_fit
from pdefit.cli.run.write import write
from pdefit.cli.runtime.terminal import say, show_table
from pdefit.inverse.objective.functional import Functional
from pdefit.output.pictures.discovery import DISCOVERY
from pdefit.systems.terms.unknown import parameter_of

_DEFAULTS = {"degree": "3", "functions": "none", "formulas": "none", "most": "6", "draws": "0"}


def run_discover(arguments: list[str], console: Console) -> None:
    """Find formulas for the learned terms of a run, and write terms.csv, a figure and formulas.yaml."""
    options, rest = options_among(arguments, _DEFAULTS)
    job, saved = open_fit(rest, "discover", console)
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
    write_text(job.directory / "formulas.yaml", _experiment(job.directory, found))
    _print(found, console)
    files = ("terms.csv", "discovery.json", "figures/discovery.png")
    write(found, job, files, DISCOVERY, more=", and as an experiment to formulas.yaml, for pdefit fit")


def _whole(options: dict[str, str], key: str, least: int = 1, most: int = 19) -> int:
    if not options[key].isdigit() or not least <= int(options[key]) <= most:
        raise PdefitError(f"{key} expects a whole number from {least} to {most}, but got '{options[key]}'")
    return int(options[key])


def _listed(text: str) -> list[str]:
    return [] if text == "none" else [word.strip() for word in text.strip("[]").split(",") if word.strip()]


def _experiment(directory: Path, found: Discovery) -> str:
    """The experiment of a run with the best formulas for its learned terms, and their constants as controls."""
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
    ahead = found.best.held_out is not None
    rows = (
        (escape(str(one)), f"{one.chi2:.5g}", f"{one.criterion:.5g}")
        + ((f"{one.held_out:.4g}",) if one.held_out is not None else ())
        for one in found.found
    )
    show_table(console, ("terms", ">chi2", ">criterion", *([">held out"] if ahead else [])), rows)
    for name, own in found.best.terms.items() if found.draws else ():
        often = ", ".join(f"{one.expression} in {found.frequency(name, one.expression):.0%}" for one in own)
        say(console, f"{name}, of {len(found.draws)} draws of the noise about the best: {often or 'nothing'}")
    if found.dropped:
        told = f"sets or candidates that blow up and were dropped: {len(found.dropped)} (see discovery.json), such as "
        say(console, told + "; ".join(found.dropped[:3]))
    if found.rivals:
        both = f"the first {len(found.rivals) + 1} apart: their criteria differ by less than {CLOSE:g}"
        say(console, f"the data do not tell {both}")
    if found.misses:
        chi2 = f"chi2 {found.best.chi2:.4g} of {found.values} values"
        remedy = "take a higher degree, functions=[sin], or more terms (most)"
        say(console, f"none of these sets explains the data: {chi2}; {remedy}")
