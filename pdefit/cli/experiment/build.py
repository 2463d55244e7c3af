"""Experiments built from settings: all that a fit works on."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.html import summarised, table
from pdefit._util.trees import cast
from pdefit.analysis.goodness.holdout import withhold
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment._control_units import check_control_units
from pdefit.cli.experiment._from_data import from_data
from pdefit.cli.experiment._from_twin import from_twin
from pdefit.cli.experiment._prepared import Prepared
from pdefit.cli.experiment.frame_times import fitted_frames, frames_kept_out
from pdefit.cli.experiment.open_settings import choose_method, chosen_stages
from pdefit.cli.experiment.trial import try_observe, try_step
from pdefit.cli.experiment.truth import check_stated, is_known
from pdefit.data.noise import NoiseEstimate
from pdefit.data.observations import Observations
from pdefit.inverse.controls.vector import BoundControl
from pdefit.inverse.fit.drivers import AbstractDriver
from pdefit.inverse.fit.fit import Fit, Progress, fit
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.fit.stop import Holdout, Noise
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_dt
from pdefit.inverse.problem.problem import Problem


@dataclasses.dataclass(frozen=True, repr=False)
class Experiment:
    """All that a fit works on: observations, the objective, and the stages of its minimisation.

    **Arguments:**

    - `functional`: the objective, on the first `fitted` observations of `record`.
    - `stages`: of the fit.
    - `record`: all observations, including those kept for the forecast.
    - `fitted`: the number of times that are fitted.
    - `truth`: the problem at true values; None where none are known.
    - `true_paths`: the controls whose true values are known.
    - `true_states`: states of a twin without noise, with leading axis time; None for measured data.
    - `variant`: kind of data, in words.
    - `noise`: standard deviations that were estimated from the data.
    - `unstated`: fields without a standard deviation.
    - `noiseless`: whether the data are a twin's without noise.
    - `held`: indices of frames kept out of the fit.
    - `driver`: evaluates the functional.
    - `choices`: messages about what was chosen automatically, and why.
    - `remarks`: messages about what looks odd in the data.
    - `prepared`: cost of preparing the initial state.
    - `max_iterations`: bound on the evaluations of all stages together; None for that of the stages.
    """

    functional: Functional
    stages: list[Stage]
    record: Observations
    fitted: int
    truth: Problem | None
    true_paths: tuple[str, ...]
    true_states: PyTree | None
    variant: str
    noise: dict[str, NoiseEstimate]
    unstated: tuple[str, ...]
    noiseless: bool
    held: np.ndarray
    driver: AbstractDriver
    choices: tuple[str, ...]
    remarks: tuple[str, ...]
    prepared: Prepared | None
    max_iterations: int | None

    @property
    def forecasts(self) -> bool:
        """Whether frames are kept for the forecast."""
        return self.fitted < self.record.ts.size

    def fit(self, callback: Callable[[Progress], None] | None = None) -> Fit[Functional]:
        """The minimum of the objective by the stages, as `pdefit fit` finds it, but without a run directory.

        **Arguments:**

        - `callback`: called after every chunk of evaluations; see `pdefit.fit`.
        """
        try:
            return fit(
                self.functional,
                self.stages,
                max_iterations=self.max_iterations,
                callback=callback,
                driver=self.driver,
            )
        finally:
            self.driver.close()

    def _repr_html_(self) -> str:
        """Controls with their guesses and true values, and what they are fitted to, for notebooks."""
        functional = self.functional
        guess = functional.controls.values(functional.theta0)
        rows = [
            (c.path, c.unit, *map(summarised, (guess[c.path], self.true_value(c))))
            for c in functional.controls.items
            if not c.is_node
        ]
        return table(("control", "unit", "guess", "truth"), rows, [self._size(), *self.choices, *self.remarks])

    def __repr__(self) -> str:
        return f"Experiment: {self._size()}"

    def _size(self) -> str:
        functional = self.functional
        return (
            f"{self.variant}, {functional.observed_values} values at {self.fitted} times, "
            f"{functional.controls.size} unknowns"
        )

    def true_value(self, control: BoundControl) -> np.ndarray | None:
        """The true value of a control of the fit, in its unit; None where it is unknown."""
        known = self.truth is not None and is_known(control.path, self.true_paths)
        return np.asarray(control.where(self.truth)) if known and self.truth is not None else None


def build_experiment(settings: Settings) -> Experiment:
    """The experiment that settings describe. Raises `PdefitError` where its parts do not fit each other."""
    if settings.data is not None:
        made = from_data(settings, settings.data)
    elif settings.twin is not None:
        made = from_twin(settings, settings.twin)
    else:
        raise PdefitError("A fit expects observations: set data.path to a file, or twin=independent to make them")
    problem, record = cast(made.problem, settings.dtype), made.record
    fitted = fitted_frames(settings.times, record.ts)
    stages, formulation = list(settings.stages.stages), settings.formulation
    held = frames_kept_out(settings, record.ts[:fitted])
    window = withhold(record.at(slice(0, fitted)), held)
    method = made.method or choose_method(settings, problem, float(record.ts[fitted - 1] - record.ts[0]))
    try_step(problem.system, problem.y0, method.solver, "solver", problem.args)
    try_observe(problem.observe.placed(record.positions_at(0)), problem.y0)
    check_control_units(settings.controls, problem.system)
    functional = Functional(
        problem,
        cast(window, settings.dtype),
        settings.controls,
        solver=method.solver,
        dt=settings.dt,
        steps=method.steps,
        adjoint=settings.adjoint,
        batch=settings.batch,
        formulation=formulation,
        regularizers=settings.regularizers,
        smooth_tangents=settings.smooth_tangents,
        key=jax.random.key(settings.seed),
    )
    functional = settings.driver.resolve_for(functional if made.dt is None else with_dt(functional, made.dt))
    truth = problem if made.truth is None else cast(made.truth, settings.dtype)
    if made.truth is not None:
        check_stated(made.true_paths, functional.controls.items, truth)
    reasons = method.reasons
    if settings.stages.open:
        stages, reason = chosen_stages(functional, settings.stages, bool(held.size))
        reasons += (reason,)
    ranges = made.noiseless or any(name in made.unstated for name in functional.observed)
    return Experiment(
        functional=functional,
        stages=[_with_rule(s, record.at(slice(0, fitted)), held, ranges) for s in stages],
        choices=made.assumed + reasons,
        remarks=made.remarks,
        record=record,
        fitted=fitted,
        truth=truth if made.true_paths else None,
        true_paths=made.true_paths,
        true_states=made.true_states,
        variant=made.variant,
        noise=made.noise,
        unstated=made.unstated,
        noiseless=made.noiseless,
        held=held,
        driver=settings.driver,
        prepared=made.prepared,
        max_iterations=settings.max_iterations,
    )


def _with_rule(stage: Stage, window: Observations, held: np.ndarray, ranges: bool) -> Stage:
    """A stage whose stopping rule knows the data. A rule that they do not allow is refused.

    **Arguments:** `ranges` is whether sigma is the range of some data, and not their noise.
    """
    if isinstance(stage.stop, Noise) and ranges:
        raise PdefitError("stop: noise expects sigma to be the noise; set twin.noise or data.sigma, or remove stop")
    if not isinstance(stage.stop, Holdout):
        return stage
    if not held.size:
        raise PdefitError("stop: holdout expects frames that are kept out of the fit; set holdout=0.1, or remove stop")
    return dataclasses.replace(stage, stop=Holdout(window, stage.stop.patience))
