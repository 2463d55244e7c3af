"""Names in a configuration: those of its sections, and what may be the name of a key."""

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

from omegaconf import OmegaConf

from pdefit._util.errors import PdefitError

# deeper nesting is a mistake, or an attempt to exhaust the stack
_DEEPEST = 40


def section_names() -> set[str]:
    """Names of the keys and sections that stand at the top of a configuration."""
    known = shipped("config.yaml")
    groups = [str(name) for choice in known.pop("defaults") if isinstance(choice, Mapping) for name in choice]
    return {*known, *(g for g in groups if g != "experiment" and " " not in g)} - {"hydra"}


@functools.cache
def _read(name: str) -> str:
    return (resources.files("pdefit_conf") / name).read_text(encoding="utf-8")


def shipped(name: str) -> dict[str, Any]:
    """Configuration that is part of pdefit, with its interpolations unresolved."""
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
