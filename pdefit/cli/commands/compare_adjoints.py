"""pdefit compare-adjoints: all sensitivity algorithms on the problem of an experiment."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json
from pdefit._util.memory import in_words
from pdefit.analysis.adjoint_study import Comparison, Measured, compare
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.build import build_experiment
from pdefit.cli.runs.planning import device_memory
from pdefit.output.pictures.studies import draw_adjoints
from pdefit.output.store.tables import write_rows


def run_compare_adjoints(settings: Settings, directory: Path, name: str, console: Console) -> None:
    """Compare the algorithms where a fit would start; writes compare.json, compare.csv and a figure.

    **Arguments:**

    - `settings`, `name`: the experiment, and its name for tables and files.
    - `directory`: of the run.
    """
    functional = build_experiment(settings).alone("compare-adjoints")
    with console.status("comparing", spinner="line") as status:
        found = compare(functional, memory=device_memory().left, said=lambda what: status.update(f"comparing: {what}"))
    write_json(directory / "compare.json", found.as_dict())
    write_rows(directory / "compare.csv", found.as_dict()["rows"])
    picture = directory / "figures" / "adjoints.png"
    draw_adjoints(picture, directory / "compare.json")
    _show(found, console)
    console.print(
        f"written to {escape(str(directory / 'compare.json'))}, compare.csv and {picture.relative_to(directory)}"
    )


def _show(found: Comparison, console: Console) -> None:
    table = Table("algorithm", "error", "time", "memory", "states", "remark", box=None, header_style="bold")
    for row in found.rows:
        table.add_row(*map(escape, (row.algorithm, *_numbers(row, found.reference), row.remark)))
    console.print(table)
    scope, best = found.scope, min(found.errors)
    part = "" if scope["observations"] == scope["of"] else ", shortened to keep it quick"
    console.print(
        f"gradient in {scope['unknowns']} unknowns on {scope['observations']} of {scope['of']} observation times{part}; "
        f"float64; error against {found.reference}; memory by the compiler's account",
        highlight=False,
    )
    console.print(
        f"finite differences reach {best:.0e} at a step of {found.steps[found.errors.index(best)]:.0e}, automatic "
        f"differentiation {found.ad_error:.0e}",
        highlight=False,
    )
    console.print(f"[bold]{escape(found.verdict)}[/]", highlight=False)


def _numbers(row: Measured, reference: str) -> list[str]:
    error = "-" if row.error is None else "reference" if row.algorithm == reference else f"{row.error:.0e}"
    error = "0" if row.error == 0 and row.algorithm != reference else error
    seconds = "-" if row.seconds is None else f"{row.seconds:.2g} s"
    return [error, seconds, "-" if row.peak_bytes is None else in_words(row.peak_bytes), str(row.stored_states)]
