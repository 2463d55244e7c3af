"""The section `controls` of a configuration."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._reader import read_section
from pdefit.cli.config._types import Count, Pair, Positive, Read, is_measure
from pdefit.inverse.controls.declare import Control
from pdefit.inverse.controls.guesses import AbstractGuess, FromData, Perturb, Value
from pdefit.inverse.controls.priors import AbstractPrior, LogNormal, Measured, Normal
from pdefit.inverse.controls.sobolev import Smoothing
from pdefit.inverse.controls.transforms import AbstractTransform, Identity, Log, Log10, Logit, Scale, Softplus

_TRANSFORMS = {"identity": Identity, "log": Log, "log10": Log10, "logit": Logit, "softplus": Softplus, "scale": Scale}
_PRIORS = {"normal": Normal, "log_normal": LogNormal}
_NUMBERS = ("a name alone", "one number", "two numbers")


def _single(node: Any, path: str) -> tuple[str, Any]:
    """Key and value of a mapping with one entry, e.g. {logit: [0, 1]}."""
    if not isinstance(node, Mapping) or len(node) != 1:
        raise PdefitError(f"{path} expects a name or one `name: numbers`, but got {node!r}")
    return next(iter(node.items()))


def _number(node: Any, path: str) -> float:
    if not is_measure(node):
        raise PdefitError(f"{path} expects a number, but got {node!r}")
    return float(node)


def _numbers(node: Any, path: str) -> Any:
    return [_numbers(x, path) for x in node] if isinstance(node, list) else _number(node, path)


def _called(target: Callable[..., Any], node: Any, path: str) -> Any:
    """Object of a class that takes numbers."""
    numbers = node if isinstance(node, list | tuple) else [node]
    parameters = inspect.signature(target).parameters.values()
    least = sum(p.default is p.empty for p in parameters)
    if not least <= len(numbers) <= len(parameters):
        names = ", ".join(p.name for p in parameters)
        raise PdefitError(
            f"{path} expects {_NUMBERS[len(parameters)]} ({names or 'it takes no numbers'}), but got {node!r}"
        )
    try:
        return target(*(_number(x, path) for x in numbers))
    except ValueError as error:
        raise PdefitError(f"{path}: {error}") from None


def _transform(node: Any, path: str) -> AbstractTransform:
    name, arguments = (node, []) if isinstance(node, str) else _single(node, path)
    if name not in _TRANSFORMS:
        raise unknown(f"transform ({path})", str(name), _TRANSFORMS)
    return _called(_TRANSFORMS[name], arguments, path)


def _guess(node: Any, path: str) -> AbstractGuess:
    if node == "data":
        return FromData()
    if isinstance(node, Mapping):
        kind, arguments = _single(node, path)
        if kind != "perturb":
            raise unknown(f"kind of guess ({path})", str(kind), ("perturb", "data"))
        return _called(Perturb, arguments, path)
    if isinstance(node, list):
        try:
            return Value(np.asarray(_numbers(node, path)))
        except ValueError:
            raise PdefitError(f"{path} expects lists of equal length, but got {node!r}") from None
    return Value(_number(node, path))


def _prior(node: Any, path: str) -> AbstractPrior:
    if node == "measured":
        return Measured()
    kind, arguments = _single(node, path)
    if kind not in _PRIORS:
        raise unknown(f"prior ({path})", str(kind), (*_PRIORS, "measured"))
    return _called(_PRIORS[kind], arguments, path)


@dataclasses.dataclass(frozen=True)
class _Control:
    """The keys of one control, as of `Control`."""

    transform: Annotated[AbstractTransform, Read(_transform)] = Identity()
    guess: Annotated[AbstractGuess | None, Read(_guess)] = None
    bounds: Pair | None = None
    prior: Annotated[AbstractPrior | None, Read(_prior)] = None
    unit: str | None = None
    scale: Positive = 1.0
    smoothing: Positive | Smoothing | None = None
    modes: Count | None = None
    scope: Literal["shared", "experiment"] = "shared"
    estimate: bool = True


# a node of the nested mapping `controls` is a control if it holds one of these keys, so no array may have such a name
CONTROL_KEYS = tuple(field.name for field in dataclasses.fields(_Control))


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
            out[name] = Control(**vars(read_section(_Control, value, inner)))
        else:
            out[name] = read_controls(value, inner)
    return out
