"""Formulas in the place of the learned terms of a run, as `pdefit discover`."""

from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_text
from pdefit._util.errors import PdefitError
from pdefit.analysis.discovery.discover import CLOSE, Discovery, discover
from pdefit.cli.config.command_line import options_among
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.recorded import at_best, open_run
from pdefit.inverse.objective.functional import Functional
from pdefit.output.store.tables import write_rows
from pdefit.systems.terms.expression import FUNCTIONS
from pdefit.systems.terms.unknown import parameter_of

_DEFAULTS = {"degree": "3", "functions": "none", "most": "6"}


def run_discover(arguments: list[str], console: Console) -> None:
    """Find formulas in the place of the learned terms of a run, and write terms.csv and formulas.yaml."""
    options, rest = options_among(arguments, _DEFAULTS)
    job, saved = open_run(rest, "discover", console)
    if saved is None:
        raise PdefitError(f"'{job.directory}' has no estimate yet; pdefit resume it first")
    exp = build_experiment(job.settings)
    objective, theta = at_best(exp, saved)
    if not isinstance(objective, Functional):
        raise PdefitError("discover works on a fit of one recording; fit the recordings one by one")
    functions = [] if options["functions"] == "none" else options["functions"].strip("[]").split(",")
    if strange := [f for f in functions if f not in FUNCTIONS]:
        raise PdefitError(f"functions expects some of {', '.join(FUNCTIONS)}, but got {', '.join(strange)}")
    found = discover(
        objective,
        theta,
        degree=_whole(options, "degree"),
        functions=functions,
        most=_whole(options, "most"),
        sigma_stated=exp.sigma_stated,
    )
    write_rows(job.directory / "terms.csv", _rows(found))
    write_text(job.directory / "formulas.yaml", yaml.safe_dump({"system": _settings(found)}, sort_keys=False))
    _print(found, console)
    console.print(
        f"written to {escape(str(job.directory / 'terms.csv'))}, and as settings for another fit to formulas.yaml",
        highlight=False,
    )


def _whole(options: dict[str, str], key: str) -> int:
    if not options[key].isdigit() or not 0 < int(options[key]) < 20:
        raise PdefitError(f"{key} expects a whole number from 1 to 19, but got '{options[key]}'")
    return int(options[key])


def _rows(found: Discovery) -> list[dict[str, Any]]:
    """A line for each term of each set of terms."""
    return [
        {
            "rank": rank,
            "of": name,
            "term": str(expression),
            "coefficient": value,
            "standard_error": error,
            "chi2": one.chi2,
            "criterion": one.criterion,
            "latex": expression.latex(),
        }
        for rank, one in enumerate(found.found, 1)
        for name, chosen in one.terms.items()
        for (expression, value), error in zip(chosen, one.errors[name], strict=True)
    ]


def _settings(found: Discovery) -> dict[str, Any]:
    """The best terms as part of the section `system` of a configuration."""
    own, added = {}, {}
    for name, made in found.formulas().items():
        field = name.removeprefix(parameter_of(""))
        (added if field != name else own)[field] = {
            "name": "formula",
            "formula": str(made.expression),
            "inputs": [*made.inputs],
            "constants": {c: float(np.asarray(x)) for c, x in made.constants.items()},
        }
    return own | ({"unknown": added} if added else {})


def _print(found: Discovery, console: Console) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("terms", "chi2", "criterion"):
        table.add_column(name, justify="left" if name == "terms" else "right")
    for one in found.found:
        table.add_row(escape(str(one)), f"{one.chi2:.5g}", f"{one.criterion:.5g}")
    console.print(table)
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
