"""The section `stages` of a configuration."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._instantiate import build, make
from pdefit.cli.config._sections import is_number
from pdefit.inverse.fit.stages import Reweight, Stage
from pdefit.inverse.fit.stop import AbstractStop, Holdout, Noise
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.shooting.formulation import AbstractFormulation, Segments, Single

# stands for a solver or optimizer that is chosen later
AUTO = {"name": "auto"}
_STAGE = ("optimizer", "max_iterations", "window", "every", "until", "held", "reweight", "stop")
_STOPS = {"noise": (Noise, "factor"), "holdout": (Holdout, "patience")}


@dataclasses.dataclass(frozen=True)
class Stages:
    """Stages of a fit, in their order.

    **Arguments:**

    - `stages`: the stages.
    - `open`: whether there is one stage, whose optimizer is still to be chosen.
    - `limit`: evaluations of that stage, where they are given.
    """

    stages: tuple[Stage, ...]
    open: bool = False
    limit: int | None = None


def read_stages(node: Any) -> Stages:
    """Stages in the order in which they are written.

    A stage that is null is left out: so an experiment drops a stage of the experiment that it extends.
    """
    if not isinstance(node, Mapping) or all(s is None for s in node.values()):
        raise PdefitError("stages expects at least one stage, e.g. stages=levenberg_marquardt")
    stages = {name: _stage(name, s) for name, s in node.items() if s is not None}
    last = list(stages)[-1]
    if (formulation := stages[last].formulation) is not None and formulation.partial:
        raise PdefitError(
            f"stages.{last} is the last stage and would fit a part of the record only; add one without every and until"
        )
    if formulation is not None and formulation.holds_state:
        raise PdefitError(
            f"stages.{last} is the last stage and would leave the initial state at its guess; remove held"
        )
    only = node[last] if len(stages) == 1 else None
    if only is not None and only["optimizer"] == AUTO:
        return Stages(tuple(stages.values()), True, only.get("max_iterations"))
    return Stages(tuple(stages.values()))


def _stage(name: str, node: Any) -> Stage:
    path = f"stages.{name}"
    if not isinstance(node, Mapping) or "optimizer" not in node:
        raise PdefitError(f"{path} expects an optimizer and its limits, e.g. stages=levenberg_marquardt")
    for key in node:
        if key not in _STAGE:
            raise unknown(f"key of {path}", str(key), _STAGE)
    reweight, limit = node.get("reweight"), node.get("max_iterations", 100)
    undecided = node["optimizer"] == AUTO
    if undecided and limit is None:
        limit = 100
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise PdefitError(f"{path}.max_iterations expects a whole number >= 1, but got '{limit}'")
    return Stage(
        optimizer=LevenbergMarquardt()
        if undecided
        else make(node["optimizer"], f"{path}.optimizer", AbstractOptimizer),
        max_iterations=limit,
        formulation=_formulation(node, path),
        reweight=None if reweight is None else _reweight(reweight, f"{path}.reweight"),
        stop=_stop(node.get("stop"), f"{path}.stop"),
    )


def _formulation(node: Mapping[str, Any], path: str) -> AbstractFormulation | None:
    """Windows of a stage; None for those that there are.

    These are windows of a length (each, or every n-th of them), the frames up to a time, or all frames from a fixed
    initial state.
    """
    window, every, until = (node.get(key) for key in ("window", "every", "until"))
    held = node.get("held", False)
    if not isinstance(held, bool):
        raise PdefitError(f"{path}.held expects true or false, but got '{held}'")
    for key, value in (("window", window), ("until", until)):
        if value is not None and not is_number(value):
            raise PdefitError(f"{path}.{key} expects a time, but got '{value}'")
    if window is None and every is not None:
        raise PdefitError(f"{path}.every says which windows are run, so it expects a {path}.window, too")
    if window is not None and until is not None:
        raise PdefitError(f"{path} has a window and an until; keep one, or make two stages of it")
    if window is not None and held:
        raise PdefitError(f"{path} has a window, which holds states anyway; remove held")
    if until is not None or held:
        return Single(until=None if until is None else float(until), held=held)
    return None if window is None else build(Segments, {"length": window, "every": 1 if every is None else every}, path)


def _reweight(node: Any, path: str) -> Reweight:
    if not isinstance(node, Mapping):
        raise PdefitError(f"{path} expects a mapping, e.g. {{axes: [0]}}, but got {node!r}")
    return build(Reweight, dict(node), path)


def _stop(node: Any, path: str) -> AbstractStop | None:
    """The rule of a stage: its name, or its name with the number that it takes."""
    if node is None:
        return None
    given = {node: None} if isinstance(node, str) else node
    if not isinstance(given, Mapping) or len(given) != 1 or not {*given} <= {*_STOPS}:
        raise PdefitError(f"{path} expects noise, holdout, {{noise: FACTOR}} or {{holdout: PATIENCE}}, not {node!r}")
    ((name, value),) = given.items()
    rule, argument = _STOPS[name]
    return build(rule, {} if value is None else {argument: value}, path)
