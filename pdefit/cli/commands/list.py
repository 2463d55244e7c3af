"""pdefit list: tables of what there is to choose from."""

from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pdefit._util.errors import unknown
from pdefit.cli.config.catalogue import descriptions, experiments
from pdefit.cli.runtime.plugins import systems
from pdefit.systems.capabilities import AbstractVerifiable
from pdefit.systems.system import parameters

KINDS = ("experiments", "systems", "solvers", "adjoints", "drivers", "stages")


def run_list(kinds: list[str], console: Console) -> None:
    """Print the tables of these kinds, or all."""
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("list", kind, KINDS)
    for kind in kinds or KINDS:
        console.print(_systems() if kind == "systems" else _configurations(kind))


def _configurations(kind: str) -> Table:
    table = Table("name", "what it is", title=kind, title_justify="left", box=None, title_style="bold")
    core = Path(str(resources.files("pdefit_conf")))
    group = kind if kind == "stages" else kind.removesuffix("s")
    rows = experiments() if kind == "experiments" else dict(descriptions(core / group))
    for name, text in rows.items():
        target = _name(core / group / f"{name}.yaml") if kind != "experiments" else ""
        table.add_row(name, text or target)
    return table


def _name(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("name:")), "")


def _systems() -> Table:
    table = Table("name", "parameters (unit)", "what it is", "", title="systems", title_justify="left", box=None)
    table.title_style = "bold"
    for name, cls in sorted(systems().items()):
        declared = ", ".join(f"{n} ({i.unit})" for n, i in parameters(cls).items())
        first_line = (cls.__doc__ or "").strip().splitlines()[0]
        table.add_row(name, declared, first_line, "" if issubclass(cls, AbstractVerifiable) else "unverified")
    return table
