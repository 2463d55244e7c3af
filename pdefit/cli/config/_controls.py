"""The section `controls` of a configuration."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from pdefit._util.errors import PdefitError, nearest, unknown
from pdefit._util.expected import Count, Pair, Positive, Read, is_measure
from pdefit.cli.config._reader import read_section
from pdefit.cli.config._registry import lookup
from pdefit.cli.config._types import argument_hints, fits
from pdefit.inverse.controls.declare import Control, Smoothing
from pdefit.inverse.controls.guesses import AbstractGuess, FromData, Value
from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.transforms import AbstractTransform, Identity

_NUMBERS = ("a name alone", "one number", "two numbers")
_GUESS = "a number, a list, data or {perturb: [LOW, HIGH]}"


def _number(node: Any, path: str) -> float:
    if not is_measure(node):
        raise PdefitError(f"{path} expects a number, but got {node!r}")
    return float(node)


def _numbers(node: Any, path: str) -> Any:
    return [_numbers(x, path) for x in node] if isinstance(node, list) else _number(node, path)


def _called(base: type, node: Any, path: str) -> Any:
    """An object from its name alone, or from its name and its numbers: `log`, `{logit: [0, 1]}`."""
    node = {node: []} if isinstance(node, str) else node
    if not isinstance(node, Mapping) or len(node) != 1:
        raise PdefitError(f"{path} expects a name or one `name: numbers`, but got {node!r}")
    ((name, given),) = node.items()
    target, numbers = lookup(str(name), base, path), given if isinstance(given, list | tuple) else [given]
    hints = argument_hints(target)
    # Python may give an object where a configuration has no number
    parameters = [p for p in inspect.signature(target).parameters.values() if fits(hints.get(p.name, Any), 0.0)]
    if not sum(p.default is p.empty for p in parameters) <= len(numbers) <= len(parameters):
        wanted = ", ".join(p.name for p in parameters) or "it takes no numbers"
        raise PdefitError(f"{path}.{name} expects {_NUMBERS[len(parameters)]} ({wanted}), but got {given!r}")
    try:
        return target(*(_number(x, path) for x in numbers))
    except ValueError as error:
        raise PdefitError(f"{path}: {error}") from None


def _transform(node: Any, path: str) -> AbstractTransform:
    return _called(AbstractTransform, node, path)


def _prior(node: Any, path: str) -> AbstractPrior:
    return _called(AbstractPrior, node, path)


def _guess(node: Any, path: str) -> AbstractGuess:
    if node == "data":
        return FromData()
    if isinstance(node, Mapping):
        wrong = [str(word) for word in node if word != "perturb"]
        if wrong and nearest(wrong[0], ["perturb"]):
            raise unknown(f"kind of guess ({path})", wrong[0], ["perturb"])
        if wrong or not node:
            raise PdefitError(f"{path} expects {_GUESS}, but got {node!r}")
        return _called(AbstractGuess, node, path)
    try:
        return Value(np.asarray(_numbers(node, path)) if isinstance(node, list) else _number(node, path))
    except ValueError:
        raise PdefitError(f"{path} expects lists of equal length, but got {node!r}") from None


@dataclasses.dataclass(frozen=True)
class ControlSettings:
    """The keys of one control, as in `Control`.

    **Arguments:**

    - `transform`: the map to search space: identity, log, log10, logit, softplus or scale.
    - `guess`: the starting point: a number or list, `{perturb: [low, high]}`, or data. perturb is the value of the
      system (in a twin, the true value) times a random factor; data takes observed values. The default is the value of
      the problem, whose fields may come from a file (`data.system`, `initial.path`).
    - `bounds`: `[smallest, largest]` value.
    - `within`: the largest distance of the value from its guess.
    - `prior`: independent knowledge: `{normal: [mean, deviation]}`, `{log_normal: [median, deviation of the
      logarithm]}`, or measured.
    - `unit`: the unit, which must agree with the unit that the system declares.
    - `scale`: the size of a typical change, in search space.
    - `smoothing`: the smoothness of the unknown field. A number counts grid cells. `length` is in the unit of the grid,
      `amplitude` is the standard deviation of a prior around the guess (auto: chosen by the data), and `order` sets the
      decay of fine modes. `mean` holds, by axis, a factor of the mean along it; with `time`, a field that depends on
      time is smoothed in time, too.
    - `modes`: the number of smooth modes that represent the unknown field; the data choose how smooth it is.
    - `basis`: the kind of these modes, waves or polynomials.
    - `scope`: shared (one for all recordings) or experiment (one for each recording).
    - `estimate`: false keeps the guess.
    """

    transform: Annotated[AbstractTransform, Read(_transform, "a name, or its numbers, too, e.g. {logit: [0, 1]}")] = (
        Identity()
    )
    guess: Annotated[AbstractGuess | None, Read(_guess, _GUESS)] = None
    bounds: Pair | None = None
    within: Positive | None = None
    prior: Annotated[
        AbstractPrior | None, Read(_prior, "measured, or a name and its numbers, e.g. {normal: [1, 0.5]}")
    ] = None
    unit: str | None = None
    scale: Positive = 1.0
    smoothing: Positive | Smoothing | None = None
    modes: Count | None = None
    basis: Literal["waves", "polynomials"] = "waves"
    scope: Literal["shared", "experiment"] = "shared"
    estimate: bool = True


# a node of the nested mapping `controls` is a control if it holds one of these keys, so no array may have such a name
CONTROL_KEYS = tuple(field.name for field in dataclasses.fields(ControlSettings))


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
            out[name] = Control(**vars(read_section(ControlSettings, value, inner)))
        else:
            out[name] = read_controls(value, inner)
    return out
