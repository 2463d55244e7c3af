"""Structure of a configuration: its sections, and the keys of those that no class stands for."""

import functools
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any

from omegaconf import OmegaConf

from pdefit._util.errors import PdefitError, unknown

_MAPPINGS = (
    "system",
    "times",
    "solver",
    "adjoint",
    "driver",
    "formulation",
    "batch",
    "observe",
    "store",
    "controls",
    "regularizers",
)
# a node of the nested mapping `controls` is a control if it holds one of these keys, so no array may have such a name
CONTROL_KEYS = ("transform", "guess", "bounds", "prior", "unit", "scale", "smoothing", "modes", "scope", "estimate")
_OPTIONAL_MAPPINGS = ("data", "twin", "steps", "reference", "args")
# deeper nesting is a mistake, or an attempt to exhaust the stack
_DEEPEST = 40
# largest 64-bit integer: JAX holds seeds and counts of iterations in one
_LARGEST = 2**63 - 1


def check_sections(cfg: Mapping[Any, Any]) -> None:
    """Refuse configurations that no experiment can mean, before anything is built from them."""
    _check_keys(cfg, "", 0)
    known = shipped("config.yaml")
    groups = [str(name) for choice in known.pop("defaults") if isinstance(choice, Mapping) for name in choice]
    expected = {*known, *(g for g in groups if g != "experiment" and " " not in g)} - {"hydra"}
    _exactly(cfg, expected, "the configuration")
    for name in (*_MAPPINGS, *_OPTIONAL_MAPPINGS):
        if not (isinstance(cfg[name], Mapping) or (cfg[name] is None and name in _OPTIONAL_MAPPINGS)):
            raise PdefitError(f"{name} expects a mapping, but got {cfg[name]!r}")
    _exactly(cfg["times"], known["times"], "times")
    _exactly(cfg["store"], shipped("store/all.yaml"), "store")
    if cfg["twin"] is not None:
        _exactly(cfg["twin"], shipped("twin/independent.yaml"), "twin")
        if not isinstance(cfg["twin"]["system"], Mapping):
            raise PdefitError(f"twin.system expects a mapping, but got {cfg['twin']['system']!r}")


def whole_number(value: Any, key: str) -> None:
    """Refuse a value of a key that is not a count: a fraction, a negative number, text, or more than 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise PdefitError(f"{key} expects a whole number, but got '{value}'")


def is_number(x: Any) -> bool:
    """Whether an entry is one finite number."""
    if isinstance(x, bool) or not isinstance(x, int | float):
        return False
    try:
        return math.isfinite(x)
    except OverflowError:
        return False


@functools.cache
def _read(name: str) -> str:
    return (resources.files("pdefit_conf") / name).read_text(encoding="utf-8")


def shipped(name: str) -> dict[str, Any]:
    """Configuration that is part of pdefit, with its interpolations unresolved."""
    content = OmegaConf.to_container(OmegaConf.create(_read(name)))
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items()}


def _exactly(node: Mapping[Any, Any], expected: Any, where: str) -> None:
    for key in node:
        if key not in expected:
            raise unknown(f"key of {where}", key, expected)
    for key in expected:
        if key not in node:
            raise PdefitError(f"The key '{key}' is missing in {where}; put it back")


def _check_keys(node: Any, path: str, depth: int) -> None:
    """Refuse keys that are not text, at any depth: YAML reads `on` as true and `null` as None."""
    if depth > _DEEPEST:
        raise PdefitError(f"'{path.split('.')[0]}' is nested deeper than {_DEEPEST} times; no experiment is")
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not isinstance(key, str) or not key or not key.isprintable():
                raise PdefitError(
                    f"The key {key!r} in {path or 'the configuration'} is no name; quote it, or correct it"
                )
            _check_keys(value, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            _check_keys(value, f"{path}.{i}", depth + 1)
