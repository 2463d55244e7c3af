"""The section `stages` of a configuration."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.expected import Count, Read, Share, Time
from pdefit.cli.config._reader import build, described, make_or_auto, read_section
from pdefit.cli.config.catalogue import shipped
from pdefit.inverse.fit.stages import Reweight, Stage
from pdefit.inverse.fit.stop import AbstractStop, Holdout, Noise
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.shooting.formulation import AbstractFormulation, Segments, Single

_STOP = "noise, holdout, {noise: FACTOR} or {holdout: PATIENCE}"
_STOPS = {"noise": (Noise, "factor"), "holdout": (Holdout, "patience")}


@dataclasses.dataclass(frozen=True)
class Stages:
    """Stages of a fit, in their order.

    **Arguments:**

    - `stages`: the stages.
    - `open`: whether there is one stage without a chosen optimizer.
    - `limit`: the number of evaluations of that stage, if given.
    """

    stages: tuple[Stage, ...]
    open: bool = False
    limit: int | None = None


def _optimizer(node: Any, path: str) -> AbstractOptimizer | None:
    """An optimizer; None if it is still to be chosen."""
    return make_or_auto(node, path, AbstractOptimizer)


def _stop(node: Any, path: str) -> AbstractStop:
    """The stopping rule of a stage: its name, or its name with its number."""
    given = {node: None} if isinstance(node, str) else node
    if not isinstance(given, Mapping) or len(given) != 1 or not {*given} <= {*_STOPS}:
        raise PdefitError(f"{path} expects {_STOP}, but got {node!r}")
    ((name, value),) = given.items()
    rule, argument = _STOPS[name]
    return build(rule, {} if value is None else {argument: value}, path)


@dataclasses.dataclass(frozen=True)
class StageSettings:
    """One stage of a configuration.

    **Arguments:**

    - `optimizer`: the method, such as `{name: lbfgs}`; `auto` leaves it open.
    - `max_iterations`: the largest number of evaluations of the functional.
    - `window`: the length of windows that start from the data, in the system's time unit; `whole` is one trajectory
      over the whole record. By default the previous stage decides.
    - `every`: n uses every n-th window.
    - `until`: the last fitted time, in the system's time unit.
    - `held`: true keeps a free initial state at its guess.
    - `nudge`: the fraction, up to 1, by which the observed fields are moved towards the data after each frame.
    - `reweight`: repeats the stage with sigma from its residuals. `axes` have one sigma for each index, `rounds` is the
      largest number of repetitions, and `tolerance` the relative change of sigma that ends them.
    - `stop`: `noise`, or `{noise: FACTOR}`, ends the stage as soon as the mean squared residual is at most FACTOR (1)
      sigma^2. `holdout`, or `{holdout: PATIENCE}`, ends it at the best score of the frames kept out by `holdout`,
      PATIENCE (10) better points later.
    """

    optimizer: Annotated[
        AbstractOptimizer | None, Read(_optimizer, "auto, or the name of an optimizer and its arguments")
    ]
    max_iterations: Count = 100
    window: Time | Literal["whole"] | None = None
    every: Count | None = None
    until: Time | None = None
    held: bool = False
    nudge: Share = 0.0
    reweight: Reweight | None = None
    stop: Annotated[AbstractStop | None, Read(_stop, _STOP)] = None

    def __post_init__(self) -> None:
        windows = self.window not in (None, "whole")
        if not windows and self.every is not None:
            raise ValueError("every says which windows are run, so it expects the length of a window, too")
        if self.window is not None and self.until is not None:
            raise ValueError("there are a window and an until; keep one, or make two stages of it")
        if windows and self.held:
            raise ValueError("there is a window, which holds states anyway; remove held")
        if windows and self.nudge:
            raise ValueError("there are a window and a nudge, which both keep to the data; remove one")

    def stage(self, path: str) -> Stage:
        """The stage of a fit."""
        windows: AbstractFormulation | None = None
        if isinstance(self.window, float):
            windows = build(Segments, {"length": self.window, "every": self.every or 1}, path)
        elif self.window or self.until is not None or self.held or self.nudge:
            windows = Single(until=self.until, held=self.held, nudge=self.nudge)
        optimizer = self.optimizer or LevenbergMarquardt()
        return Stage(optimizer, self.max_iterations, windows, self.reweight, self.stop)


def read_stages(node: Any, path: str = "stages") -> Stages:
    """Stages in the order in which they are written.

    A null stage is left out; so an experiment drops a stage of the experiment that it extends. Stages that an
    experiment names replace the default stage, which has no chosen optimizer.
    """
    if not isinstance(node, Mapping) or all(s is None for s in node.values()):
        raise PdefitError(f"{path} expects at least one stage, e.g. stages=levenberg_marquardt, but got {node!r}")
    default = shipped("stages/auto.yaml")["main"]
    for name, stage in node.items():
        if stage is not None and not isinstance(stage, Mapping):
            expected = f"{described(StageSettings)}, e.g. {{optimizer: lbfgs}}"
            raise PdefitError(f"{path}.{name} expects {expected}, but got {stage!r}")
        if stage is not None and "optimizer" not in stage:
            error = unknown(f"stage ({path})", str(name), {*node} - {name})
            raise PdefitError(f"{error} A new one expects an optimizer: {path}.{name}.optimizer={{name: lbfgs}}")
    named = {name: s for name, s in node.items() if s not in (None, default)}
    given = {n: read_section(StageSettings, s, f"{path}.{n}") for n, s in (named or node).items() if s is not None}
    stages = {name: one.stage(f"{path}.{name}") for name, one in given.items()}
    last = list(stages)[-1]
    if (formulation := stages[last].formulation) is not None and formulation.partial:
        raise PdefitError(
            f"{path}.{last} is the last stage and would fit a part of the record only, or one that is drawn to "
            f"the data; add one without every, until and nudge"
        )
    if formulation is not None and formulation.holds_state:
        raise PdefitError(
            f"{path}.{last} is the last stage and would leave the initial state at its guess; remove held"
        )
    if len(stages) == 1 and given[last].optimizer is None:
        return Stages(tuple(stages.values()), True, node[last].get("max_iterations"))
    return Stages(tuple(stages.values()))
