"""Experiments built from settings: all that a fit works on."""

import dataclasses

import jax
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.trees import cast
from pdefit.analysis.goodness.holdout import withhold
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment._control_units import check_control_units
from pdefit.cli.experiment._from_data import from_data
from pdefit.cli.experiment._from_twin import from_twin
from pdefit.cli.experiment._together import recordings_of, together
from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.experiment.frame_times import fitted_frames, frames_kept_out
from pdefit.cli.experiment.open_settings import choose_method, chosen_stages
from pdefit.cli.experiment.trial import try_observe, try_step
from pdefit.cli.experiment.truth import check_stated
from pdefit.data.observations import Observations
from pdefit.inverse.fit.stability import longer_than_frames, refuse_unstable
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.fit.stop import Holdout, Noise
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.spread import spread
from pdefit.inverse.objective.variants import with_dt


def build_experiment(settings: Settings) -> Experiment:
    """The experiment that settings describe. Raises `PdefitError` where its parts do not fit each other."""
    exp = _on_one_device(settings)
    if not settings.device:
        return exp
    devices = jax.devices()
    return dataclasses.replace(exp, functional=spread(exp.functional, [devices[n] for n in settings.device]))


def _on_one_device(settings: Settings) -> Experiment:
    each = recordings_of(settings)
    if not each:
        return _single(settings)
    made = dict[str, Experiment]()
    for name, one in each.items():
        try:
            made[name] = _single(one)
        except PdefitError as error:
            raise PdefitError(f"Recording {name}: {error}") from None
    return together(settings, made)


def _single(settings: Settings) -> Experiment:
    """The experiment of one recording."""
    if settings.data is not None:
        source = from_data(settings, settings.data)
    elif settings.twin is not None:
        source = from_twin(settings, settings.twin)
    else:
        raise PdefitError("A fit expects observations: set data.path to a file, or twin=independent to make them")
    problem, record = cast(source.problem, settings.dtype), source.record
    fitted = fitted_frames(settings.times, record.ts)
    stages, formulation = list(settings.stages.stages), settings.formulation
    held = frames_kept_out(settings, record.ts[:fitted])
    window = withhold(record.at(slice(0, fitted)), held)
    method = source.method or choose_method(settings, problem, float(record.ts[fitted - 1] - record.ts[0]))
    try_step(problem.system, problem.y0, method.solver, "solver", problem.args)
    try_observe(problem.observe.placed(record.positions_at(0)), record.ts[0], problem.y0, problem.args)
    check_control_units(settings.controls, problem)
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
    refuse_unstable(functional)
    functional = settings.driver.resolve_for(functional if source.dt is None else with_dt(functional, source.dt))
    truth = problem if source.truth is None else cast(source.truth, settings.dtype)
    if source.truth is not None:
        check_stated(source.true_paths, functional.controls.items, truth)
    reasons = [method.reason]
    if settings.stages.open:
        stages, reason = chosen_stages(functional, settings.stages, bool(held.size))
        reasons.append(reason)
    ranges = source.noiseless or any(name in source.unstated for name in functional.observed)
    return Experiment(
        functional=functional,
        stages=[_with_rule(s, record.at(slice(0, fitted)), held, ranges) for s in stages],
        choices=(*source.assumed, *filter(None, reasons)),
        remarks=source.remarks + longer_than_frames(functional),
        source=source,
        fitted=fitted,
        truth=truth if source.true_paths else None,
        held=held,
        driver=settings.driver,
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
