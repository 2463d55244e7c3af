"""The `stages` section of a configuration."""

from collections.abc import Mapping
from typing import Any

from pdefit.app.instantiate import build, make
from pdefit.app.sections import is_number
from pdefit.errors import PdefitError, unknown
from pdefit.inverse.formulation import Segments
from pdefit.inverse.optimize.base import AbstractOptimizer
from pdefit.inverse.optimize.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.reweight import Reweight
from pdefit.inverse.stage import Stage

# in place of a solver, or of an optimizer: whatever suits
AUTO = {"auto": True}
_STAGE = ("optimizer", "max_iterations", "window", "reweight")


def read_stages(node: Any) -> list[Stage]:
    """The stages in the order they are written; null leaves one out that another experiment named."""
    if not isinstance(node, Mapping) or all(s is None for s in node.values()):
        raise PdefitError("stages expects at least one stage, e.g. stages=levenberg_marquardt")
    return [_stage(name, s) for name, s in node.items() if s is not None]


def left_open(node: Any) -> bool:
    """Whether the one stage that there is has no optimizer yet."""
    stages = [s for s in node.values() if s is not None]
    return len(stages) == 1 and stages[0]["optimizer"] == AUTO


def _stage(name: str, node: Any) -> Stage:
    path = f"stages.{name}"
    if not isinstance(node, Mapping) or "optimizer" not in node:
        raise PdefitError(f"{path} expects an optimizer and its limits, e.g. stages=levenberg_marquardt")
    for key in node:
        if key not in _STAGE:
            raise unknown(f"key of {path}", str(key), _STAGE)
    window, reweight, limit = node.get("window"), node.get("reweight"), node.get("max_iterations", 100)
    undecided = node["optimizer"] == AUTO
    if undecided and limit is None:
        limit = 100
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise PdefitError(f"{path}.max_iterations expects a whole number >= 1, but got '{limit}'")
    if window is not None and not is_number(window):
        raise PdefitError(f"{path}.window expects a length of time, but got '{window}'")
    return Stage(
        optimizer=LevenbergMarquardt()
        if undecided
        else make(node["optimizer"], f"{path}.optimizer", AbstractOptimizer),
        max_iterations=limit,
        formulation=None if window is None else build(Segments, {"length": window}, path),
        reweight=None if reweight is None else _reweight(reweight, f"{path}.reweight"),
    )


def _reweight(node: Any, path: str) -> Reweight:
    if not isinstance(node, Mapping):
        raise PdefitError(f"{path} expects a mapping, e.g. {{axes: [0]}}, but got {node!r}")
    return build(Reweight, dict(node), path)
