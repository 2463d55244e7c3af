"""Refusal of incompatible choices by their types, before anything is read, built or compiled."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import diffrax

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed, demand_events, demand_tangents
from pdefit.integrate.solvers.method import embedded_method_of
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted, Traced
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.arrow_gauss_newton import ArrowGaussNewton
from pdefit.inverse.optimizers.collocation import Collocation
from pdefit.inverse.optimizers.gauss_newton_cg import GaussNewtonCG
from pdefit.inverse.problem.instrument import AbstractObservationOperator, ObserveAll
from pdefit.inverse.shooting.formulation import AbstractFormulation, Segments, Single
from pdefit.inverse.shooting.nodes import hides_states
from pdefit.inverse.shooting.trajectories import demand_influence
from pdefit.systems.capabilities import AbstractDataState
from pdefit.systems.system import AbstractSystem

Kind = Literal["recordings", "members", "starts", "starts if needed", "bootstrap", "profile", "processes"]


@dataclasses.dataclass(frozen=True)
class Choices:
    """The choices of a fit, as far as known. Only the types of objects matter, not their values.

    **Arguments:**

    - `kinds`: how the run differs from one fit of one recording by one process.
    - `resampled`: the kind of a bootstrap.
    - `system`: the class of the equations; None if not known yet.
    - `solver`: the solver; None for an automatic choice.
    - `adaptive`: whether steps are adaptive.
    - `open_steps`: whether the size of constant steps is left open.
    - `adjoint`, `driver`, `formulation`, `observe`: the strategies of the fit.
    - `stages`: the stages; empty for an automatic choice.
    - `states`: the kinds of the unknown states, `initial` and `node`.
    - `begins_before`: whether trajectories begin before the first frame.
    - `events`: whether the state has doses or resets.
    """

    kinds: frozenset[Kind] = frozenset()
    resampled: str = ""
    system: type[AbstractSystem] | None = None
    solver: diffrax.AbstractSolver | None = None
    adaptive: bool = False
    open_steps: bool = False
    adjoint: AbstractAdjoint = Checkpointed()
    driver: AbstractDriver = dataclasses.field(default_factory=Traced)
    formulation: AbstractFormulation = Single()
    observe: AbstractObservationOperator = ObserveAll()
    stages: tuple[Stage, ...] = ()
    states: frozenset[str] = frozenset()
    begins_before: bool = False
    events: bool = False

    @staticmethod
    def of(objective: AbstractObjective, stages: Sequence[Stage] = (), *kinds: Kind, **known: Any) -> "Choices":
        """Choices of an objective.

        **Arguments:** `objective`; `stages`, `kinds` and named entries: the choices that it does not hold.
        """
        of_many: tuple[Kind, ...] = () if isinstance(objective, Functional) else ("recordings",)
        return Choices(
            kinds=frozenset({*kinds, *of_many}),
            system=type(objective.problem.system),
            solver=objective.runner.solver,
            adaptive=objective.steps is not None,
            open_steps=objective.steps is None and objective.asked_dt is None,
            adjoint=objective.runner.adjoint,
            formulation=objective.formulation,
            observe=objective.problem.observe,
            stages=tuple(stages),
            states=frozenset(c.kind for c in objective.controls.states.items),
            events=objective.problem.events is not None,
            **known,
        )


def refusal(choices: Choices) -> str:
    """The reason why choices are incompatible, as a sentence; empty if they are compatible.

    **Arguments:** `choices`: their types.
    """
    return next(_refusals(choices), "")


def refuse(choices: Choices) -> None:
    """Raise `PdefitError` if choices are incompatible.

    **Arguments:** `choices`: their types.
    """
    if why := refusal(choices):
        raise PdefitError(why)


def _refusals(c: Choices) -> Iterator[str]:
    yield from _of_one_fit(c)
    yield from _of_windows(c)
    for stage in c.stages if c.kinds & {"members", "starts", "starts if needed"} else ():
        if isinstance(stage.optimizer, ArrowGaussNewton) or _nudge(stage.formulation):
            yield "A nudge works on one fit; take stages=lbfgs or stages=gauss_newton_cg for many"
        if isinstance(stage.optimizer, Collocation):
            yield "Collocation works on one fit; take windows (formulation) as the first stage of many"
    if "members" in c.kinds and any(stage.reweight is not None or stage.stop is not None for stage in c.stages):
        yield (
            "Many fits in one program expect stages without reweight and stop, and noise that does not follow the "
            "prediction (data.sigma); fit them one by one"
        )
    if again := c.kinds & {"bootstrap", "profile"}:
        what = "A bootstrap expects" if "bootstrap" in again else "Profiles expect"
        if "members" in c.kinds:
            yield f"{what} one fit; set members=null, and data.path to one of the files"
        if c.formulation != Single():
            leave = ", or leave uncertainty out" if "bootstrap" in again else ""
            yield f"{what} one trajectory; set formulation=single{leave}"
    if "bootstrap" in c.kinds and (c.resampled == "recordings") != ("recordings" in c.kinds):
        yield "A bootstrap of kind recordings, and no other, is that of a fit of many recordings"


def _of_one_fit(c: Choices) -> Iterator[str]:
    """Reasons against the numerics of a fit, and against its evaluation."""
    if c.adaptive and c.solver is not None:
        yield from _message(embedded_method_of, c.solver)
    products = (Collocation, GaussNewtonCG, ArrowGaussNewton)
    differentiated = any(s.optimizer.tangents or isinstance(s.optimizer, products) for s in c.stages)
    if differentiated or c.kinds & {"bootstrap", "profile", "members"}:
        yield from _message(demand_tangents, c.adjoint)
    if c.adjoint.other_steps and c.open_steps and not isinstance(c.solver, diffrax.AbstractERK | None):
        yield (
            f"{type(c.adjoint).__name__} is a continuous adjoint, whose gradient errs as the steps do, and steps of "
            f"{type(c.solver).__name__} that are left open are long; use adjoint=checkpointed, or set dt, or steps=adaptive"
        )
    if c.events:
        yield from _message(demand_events, c.adjoint)
    if c.events and any(isinstance(stage.optimizer, Collocation) for stage in c.stages):
        yield "Collocation expects a solution without events; use windows (stage.window) in its place"
    hosted = isinstance(c.driver, Hosted)
    if hosted and c.kinds & {"recordings", "members"}:
        yield "Hosted evaluates one recording; use Traced for many, with batch=Loop() if memory is short"
    if "processes" in c.kinds and (hosted or ("starts" in c.kinds and "members" not in c.kinds)):
        yield (
            f"{'driver=hosted' if hosted else 'starts=always'} runs in one task yet; leave it out, or set --ntasks=1"
        )
    if (hosted or isinstance(c.driver, Traced) and c.driver.memory is not None) and not isinstance(
        c.adjoint, Checkpointed
    ):
        yield (
            f"driver={type(c.driver).__name__.lower()} chooses how many checkpoints there are, so it expects "
            f"adjoint=checkpointed; {type(c.adjoint).__name__} runs with driver=traced driver.memory=null"
        )


def _of_windows(c: Choices) -> Iterator[str]:
    """Reasons against windows and nudges whose states neither data nor system provide."""
    cut = [c.formulation, *(s.formulation for s in c.stages)]
    if isinstance(c.formulation, Segments):
        yield from _message(demand_influence, c.states)
        if c.begins_before and not c.states:
            yield (
                "Segments start from the data, but nothing is seen when the first one begins; make the nodes controls, or use "
                "formulation=single"
            )
    elsewhere = c.observe.scattered or c.observe.relocates
    finds = c.system is None or issubclass(c.system, AbstractDataState)
    if elsewhere and (any(map(_nudge, cut)) or (not finds and any(isinstance(x, Segments) for x in cut))):
        yield (
            f"Windows and nudges take states from data on the points of the fields, which {type(c.observe).__name__} does "
            f"not show; use formulation=single, without stages that have a window or a nudge"
        )
    from_data = [x for x in cut if isinstance(x, Segments) and not ("node" in c.states and x == c.formulation)]
    if from_data and not c.observe.shows_states and not finds:
        yield hides_states(c.observe)
    if c.begins_before and c.states and c.stages and isinstance(c.stages[-1].formulation, Segments):
        yield (
            "The last stage has windows, of which the first holds the unknown initial state at its guess, because nothing "
            "is seen when it begins; end with a stage without a window"
        )


def _nudge(formulation: AbstractFormulation | None) -> bool:
    return isinstance(formulation, Single) and formulation.nudge > 0


def _message(demand: Callable, *given: Any) -> Iterator[str]:
    """The message with which a function of types refuses them; empty if it accepts."""
    try:
        demand(*given)
    except PdefitError as error:
        yield str(error)
