"""The section `controls` of a configuration."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._sections import CONTROL_KEYS
from pdefit.inverse.controls.declare import Control
from pdefit.inverse.controls.guesses import AbstractGuess, FromData, Perturb, Value
from pdefit.inverse.controls.priors import AbstractPrior, LogNormal, Measured, Normal
from pdefit.inverse.controls.sobolev import Smoothing
from pdefit.inverse.controls.transforms import AbstractTransform, Identity, Log, Log10, Logit, Scale, Softplus

_TRANSFORMS = {"identity": Identity, "log": Log, "log10": Log10, "logit": Logit, "softplus": Softplus, "scale": Scale}
_PRIORS = {"normal": Normal, "log_normal": LogNormal}


def read_controls(node: Any, path: str = "controls") -> dict[str, Any]:
    """Nested mapping of `Control`s from the nested mapping of a configuration; `path` is for errors."""
    if not isinstance(node, Mapping):
        raise PdefitError(f"{path} expects a mapping, but got {node!r}")
    out: dict[str, Any] = {}
    for name, value in node.items():
        inner = f"{path}.{name}"
        if isinstance(value, str):
            out[name] = Control(transform=_transform(value, inner))
        elif isinstance(value, Mapping) and any(word in value for word in CONTROL_KEYS):
            out[name] = _control(value, inner)
        else:
            out[name] = read_controls(value, inner)
    return out


def _control(node: Mapping[str, Any], path: str) -> Control:
    for word in node:
        if word not in CONTROL_KEYS:
            raise unknown(f"word in {path}", str(word), CONTROL_KEYS)
    if node.get("scope", "shared") not in ("shared", "experiment"):
        raise PdefitError(f"{path}.scope expects shared or experiment, but got '{node['scope']}'")
    if not isinstance(node.get("estimate", True), bool):
        raise PdefitError(f"{path}.estimate expects true or false, but got '{node['estimate']}'")
    if not isinstance(node.get("unit"), str | None):
        raise PdefitError(f"{path}.unit expects text, but got '{node['unit']}'")
    scale = _number(node.get("scale", 1.0), f"{path}.scale")
    if not 0 < scale < math.inf:
        raise PdefitError(f"{path}.scale expects a positive number, but got {scale:g}")
    return Control(
        transform=_transform(node.get("transform", "identity"), f"{path}.transform"),
        guess=_guess(node.get("guess"), f"{path}.guess"),
        bounds=None if node.get("bounds") is None else _pair(node["bounds"], f"{path}.bounds"),
        prior=_prior(node.get("prior"), f"{path}.prior"),
        unit=node.get("unit"),
        scale=scale,
        smoothing=_smoothing(node.get("smoothing"), f"{path}.smoothing"),
        modes=_modes(node.get("modes"), f"{path}.modes"),
        scope=node.get("scope", "shared"),
        estimate=node.get("estimate", True),
    )


def _smoothing(node: Any, path: str) -> float | Smoothing | None:
    """A length in cells, or a mapping with a length in the unit of the grid."""
    if node is None:
        return None
    if not isinstance(node, Mapping):
        cells = _number(node, path)
        if not 0 < cells < math.inf:
            raise PdefitError(f"{path} expects a positive number, but got {cells:g}")
        return cells
    words = ("length", "amplitude", "order", "mean", "time")
    for word in node:
        if word not in words:
            raise unknown(f"word in {path}", str(word), words)
    mean = node.get("mean") or {}
    if "length" not in node or not isinstance(mean, Mapping):
        raise PdefitError(
            f"{path} expects a length, e.g. {{length: 0.05, amplitude: 0.2, mean: {{x: 5}}}}, but got {node!r}"
        )
    amplitude = node.get("amplitude")
    if amplitude is not None:
        amplitude = _number(amplitude, f"{path}.amplitude")
    order = _number(node.get("order", 1.0), f"{path}.order")
    time = _number(node.get("time", 0.0), f"{path}.time")
    factors = {str(axis): _number(x, f"{path}.mean.{axis}") for axis, x in mean.items()}
    try:
        return Smoothing(_number(node["length"], f"{path}.length"), amplitude, order, factors, time)
    except ValueError as error:
        raise PdefitError(f"{path}: {error}") from None


def _modes(node: Any, path: str) -> int | None:
    if node is not None and (isinstance(node, bool) or not isinstance(node, int) or node < 1):
        raise PdefitError(f"{path} expects a whole number >= 1, but got '{node}'")
    return node


def _transform(node: Any, path: str) -> AbstractTransform:
    name, arguments = (node, []) if isinstance(node, str) else _single(node, path)
    if name not in _TRANSFORMS:
        raise unknown(f"transform ({path})", str(name), _TRANSFORMS)
    numbers = [_number(x, path) for x in (arguments if isinstance(arguments, list | tuple) else [arguments])]
    try:
        return _TRANSFORMS[name](*numbers)
    except (TypeError, ValueError) as error:
        raise PdefitError(f"{path}: {error}") from None


def _guess(node: Any, path: str) -> AbstractGuess | None:
    if node is None:
        return None
    if node == "data":
        return FromData()
    if isinstance(node, Mapping):
        kind, arguments = _single(node, path)
        if kind != "perturb":
            raise unknown(f"kind of guess ({path})", str(kind), ("perturb", "data"))
        low, high = _pair(arguments, path)
        try:
            return Perturb(low, high)
        except ValueError as error:
            raise PdefitError(f"{path}: {error}") from None
    if isinstance(node, list):
        try:
            return Value(np.asarray(_numbers(node, path)))
        except ValueError:
            raise PdefitError(f"{path} expects lists of equal length, but got {node!r}") from None
    return Value(_number(node, path))


def _prior(node: Any, path: str) -> AbstractPrior | None:
    if node is None:
        return None
    if node == "measured":
        return Measured()
    kind, arguments = _single(node, path)
    if kind not in _PRIORS:
        raise unknown(f"prior ({path})", str(kind), (*_PRIORS, "measured"))
    try:
        return _PRIORS[kind](*_pair(arguments, path))
    except ValueError as error:
        raise PdefitError(f"{path}: {error}") from None


def _single(node: Any, path: str) -> tuple[str, Any]:
    """Key and value of a mapping with one entry, e.g. {logit: [0, 1]}."""
    if not isinstance(node, Mapping) or len(node) != 1:
        raise PdefitError(f"{path} expects a name or one `name: numbers`, but got {node!r}")
    return next(iter(node.items()))


def _pair(node: Any, path: str) -> tuple[float, float]:
    if not isinstance(node, list | tuple) or len(node) != 2:
        raise PdefitError(f"{path} expects two numbers, but got {node!r}")
    return _number(node[0], path), _number(node[1], path)


def _numbers(node: Any, path: str) -> Any:
    return [_numbers(x, path) for x in node] if isinstance(node, list) else _number(node, path)


def _number(node: Any, path: str) -> float:
    # YAML reads 1e-3 without a dot as text
    if isinstance(node, bool) or not isinstance(node, int | float | str):
        raise PdefitError(f"{path} expects a number, but got {node!r}")
    try:
        number = float(node)
    except (ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise PdefitError(f"{path} expects a number, but got '{node}'")
    return number
