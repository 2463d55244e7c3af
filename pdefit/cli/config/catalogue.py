"""Names in a configuration: installed experiments, shipped choices, and section names."""

import functools
import importlib.metadata
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from pdefit._util.errors import PdefitError
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
    """Seconds and memory of the first run of the whole command on two cores, for experiments that state them."""
    found: dict[str, str] = {}
    for _, folder in configurations():
        for name, comments in _comments(folder / "experiment"):
            for stated in (text for text in comments if text.startswith(_COST)):
                found[name] = stated.removeprefix(_COST).strip()
    return found


def choices(group: str) -> dict[str, str]:
    """Shipped configurations of a group (`solver`, `adjoint`, `driver` ...) with their descriptions or names."""
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
    """The installed version of pdefit."""
    return importlib.metadata.version("pdefit")


# deeper nesting is a mistake, or an attempt to exhaust the stack
_DEEPEST = 40


def section_names() -> set[str]:
    """Names of the keys and sections at the top of a configuration."""
    known = shipped("config.yaml")
    groups = [str(name) for choice in known.pop("defaults") if isinstance(choice, Mapping) for name in choice]
    return {*known, *(g for g in groups if g != "experiment" and " " not in g)} - {"hydra"}


@functools.cache
def _read(name: str) -> str:
    return (resources.files("pdefit_conf") / name).read_text(encoding="utf-8")


def shipped(name: str) -> dict[str, Any]:
    """A configuration that is part of pdefit, with its interpolations unresolved."""
    content = OmegaConf.to_container(OmegaConf.create(_read(name)))
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items()}


def check_names(node: Any, path: str = "", depth: int = 0) -> None:
    """Refuse keys that are not text, at any depth: YAML reads `on` as true and `null` as None."""
    if depth > _DEEPEST:
        raise PdefitError(f"'{path.split('.')[0]}' is nested deeper than {_DEEPEST} times; no experiment is")
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not isinstance(key, str) or not key or not key.isprintable():
                raise PdefitError(
                    f"The key {key!r} in {path or 'the configuration'} is no name; quote it, or correct it"
                )
            check_names(value, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            check_names(value, f"{path}.{i}", depth + 1)
