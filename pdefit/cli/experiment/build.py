"""From settings to the experiment that a fit works on."""

import dataclasses

import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import cast
from pdefit.analysis.goodness.holdout import held_frames, withhold
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment._control_units import check_control_units
from pdefit.cli.experiment._from_data import from_data
from pdefit.cli.experiment._from_twin import from_twin
from pdefit.cli.experiment._prepared import Prepared
from pdefit.cli.experiment.choices import choose_method, chosen_stages
from pdefit.cli.experiment.frame_times import fitted_frames
from pdefit.cli.experiment.trial import try_observe, try_step
from pdefit.cli.experiment.truth import check_stated
from pdefit.data.noise import NoiseEstimate
from pdefit.data.observations import Observations
from pdefit.inverse.fit.drivers import AbstractDriver
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_dt
from pdefit.inverse.problem.problem import Problem


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything a fit needs.

    **Arguments:** `functional` on the first `fitted` observations of `record`, which holds those kept for the forecast, too;
    `truth` the problem with true values where they are known, and `true_paths` the controls they are known for;
    `true_states` the film without noise (leading axis time) of a twin; `noise` the deviations estimated from the data, and
    `unstated` the variables without any; `noiseless` whether the data are a twin's without noise; `held` indices of frames
    kept out of the fit; `driver` who evaluates; `choices` what nobody chose, and why it was chosen so; `remarks` what looks
    odd about the data; `prepared` what preparing the initial state took.
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

    @property
    def forecasts(self) -> bool:
        """Whether frames are kept for the forecast."""
        return self.fitted < self.record.ts.size


def build_experiment(settings: Settings) -> Experiment:
    """The experiment that settings describe."""
    if settings.data is not None:
        made = from_data(settings, settings.data)
    elif settings.twin is not None:
        made = from_twin(settings, settings.twin)
    else:
        raise PdefitError("A fit expects observations: set data.path to a file, or twin=independent to make them")
    problem, record = cast(made.problem, settings.dtype), made.record
    fitted = fitted_frames(settings.times, record.ts)
    stages, formulation = list(settings.stages.stages), settings.formulation
    used = [formulation, *(s.formulation for s in stages if s.formulation is not None)]
    held = held_frames(record.ts[:fitted], settings.holdout, used)
    window = withhold(record.at(slice(0, fitted)), held)
    method = made.method or choose_method(settings, problem, float(record.ts[fitted - 1] - record.ts[0]))
    try_step(problem.system, problem.y0, method.solver, "solver", problem.args)
    try_observe(problem.observe, problem.y0)
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
    return Experiment(
        functional=functional,
        stages=stages,
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
    )
