"""pdefit list: tables of the available choices."""

from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pdefit._util.atomic import read_json, write_json
from pdefit._util.cache import cache_folder, sources
from pdefit._util.errors import PdefitError, unknown
from pdefit._util.plugins import packages
from pdefit.cli.config.catalogue import choices, costs, experiments
from pdefit.cli.runtime.plugins import systems

KINDS = ("experiments", "systems", "solvers", "adjoints", "drivers", "stages")


def run_list(kinds: list[str], console: Console) -> None:
    """Print the tables of these kinds, or all; outside a terminal as tab-separated lines."""
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("list", kind, KINDS)
    for kind in kinds or KINDS:
        header, rows = _content(kind)
        if not console.is_terminal:
            # a program or a file wants whole lines
            print("\n".join([kind, *("\t".join(row).rstrip() for row in rows), ""]), file=console.file)
            continue
        table = Table(*header, title=kind, title_justify="left", box=None, title_style="bold")
        if kind == "experiments":
            table.caption, table.caption_justify = "cost: of the whole command on two cores the first time", "left"
        for row in rows:
            table.add_row(*row)
        # names are there to be copied
        table.columns[0].no_wrap, table.columns[0].min_width = True, max(len(row[0]) for row in rows)
        console.print(table, crop=False)


def _content(kind: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """Column names and rows of the table of `pdefit list KIND`."""
    if kind == "systems":
        return ("name", "parameters (unit)", "what it is", ""), _system_rows()
    if kind == "experiments":
        stated = costs()
        return ("name", "what it shows", "cost"), [[n, text, stated.get(n, "")] for n, text in experiments().items()]
    known = choices(kind if kind == "stages" else kind.removesuffix("s"))
    return ("name", "what it is"), [[name, text] for name, text in known.items()]


def _system_rows() -> list[list[str]]:
    """Name, parameters, purpose and state of every system.

    They come from the classes, which need JAX: three seconds. They are cached under a digest of their sources, so only
    the first call after a change takes so long.
    """
    kept = cache_folder("systems") / f"{sources(Path(__file__).parents[2], *packages().values())[:24]}.json"
    with suppress(OSError, PdefitError, KeyError, TypeError):
        rows = read_json(kept)["systems"]
        if all(isinstance(text, str) for row in rows for text in row):
            return rows
    rows = _read_systems()
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, {"systems": rows})
    return rows


def _read_systems() -> list[list[str]]:
    from pdefit.systems.capabilities import AbstractVerifiable
    from pdefit.systems.system import parameters

    rows = []
    for name, cls in sorted(systems().items()):
        declared = ", ".join(f"{n} ({i.unit})" for n, i in parameters(cls).items())
        purpose = (cls.__doc__ or "").strip().partition("\n")[0]
        rows.append([name, declared, purpose, "" if issubclass(cls, AbstractVerifiable) else "unverified"])
    return rows
