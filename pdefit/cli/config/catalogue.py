"""Names and descriptions of the experiments and configurations to choose from."""

import importlib.metadata
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from pdefit.cli.runtime.plugins import configurations

# begins the comment of an experiment that states its cost
_COST = "cost:"


def experiments() -> dict[str, str]:
    """All experiments of all plugins, with the first line of their descriptions."""
    found: dict[str, str] = {}
    for _, folder in configurations():
        found |= dict(descriptions(folder / "experiment"))
    return found


def costs() -> dict[str, str]:
    """Seconds and memory of the whole command on two cores the first time, for the experiments that state them."""
    found: dict[str, str] = {}
    for _, folder in configurations():
        for name, comments in _comments(folder / "experiment"):
            for stated in (text for text in comments if text.startswith(_COST)):
                found[name] = stated.removeprefix(_COST).strip()
    return found


def choices(group: str) -> dict[str, str]:
    """Shipped configurations of a group (`solver`, `adjoint`, `driver` ...) with their descriptions, or their names."""
    folder = Path(str(resources.files("pdefit_conf"))) / group
    return {name: text or _stands_for(folder / f"{name}.yaml") for name, text in descriptions(folder)}


def _stands_for(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("name:")), "")


def descriptions(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and first comment of every configuration below a folder."""
    for name, comments in _comments(folder):
        yield name, comments[0] if comments else ""


def _comments(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Name and comments of every configuration below a folder."""
    for file in sorted(folder.rglob("*.yaml")):
        lines = file.read_text(encoding="utf-8").splitlines()
        comments = [x[1:].strip() for x in lines if x.startswith("#") and not x.startswith("# @package")]
        yield str(file.relative_to(folder).with_suffix("")), comments


def version() -> str:
    """Version of the installed package."""
    return importlib.metadata.version("pdefit")
