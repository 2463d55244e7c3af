"""Experiments built from settings, for one recording or many."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit._util.trees import cast
from pdefit.cli.config.read import check_name
from pdefit.cli.config.settings import Settings
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.from_data import from_data
from pdefit.cli.run.from_twin import from_twin
from pdefit.cli.run.known import shapes_from_file
from pdefit.cli.run.open_settings import choose_method, chosen_stages
from pdefit.cli.run.source import Source, check_stated, fitted_window
from pdefit.cli.run.trial import check_control_units, try_observe, try_step
from pdefit.cli.run.unstated import with_estimated_sigma
from pdefit.cli.runtime import processes
from pdefit.data.observations import Observations
from pdefit.data.readers.open_source import shared
from pdefit.data.readers.recordings import split_recordings
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.fit.drivers import Hosted
from pdefit.inverse.fit.refused_combinations import Choices, refuse
from pdefit.inverse.fit.reweight import ByPrediction
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.fit.stop import Holdout, Noise
from pdefit.inverse.fit.unstable_steps import longer_than_frames, refuse_unstable, stable_step, suits
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.passed_inputs import passed_inputs
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.objective.spread import over_cores, over_processes, spread
from pdefit.inverse.objective.variants import stepped, with_dt
from pdefit.inverse.optimizers.arrow_gauss_newton import ArrowGaussNewton
from pdefit.inverse.problem.observed_fields import observed_fields
from pdefit.systems.terms.unknown import sized_by_data, unknown_terms


def build_experiment(settings: Settings) -> Experiment:
    """The experiment that settings describe. Raises `PdefitError` if its parts do not fit each other."""
    exp = dataclasses.replace(_on_one_device(settings), derive=settings.derive)
    devices = jax.local_devices()
    if processes.joined():
        # refused before anything is computed
        over_processes(exp.functional, settings.cores)
    if settings.device:
        return dataclasses.replace(exp, functional=spread(exp.functional, [devices[n] for n in settings.device]))
    if isinstance(exp.driver, Hosted):
        return exp
    return dataclasses.replace(exp, functional=over_cores(exp.functional, settings.shared_by))


def _on_one_device(settings: Settings) -> Experiment:
    each = settings_of_each(settings, settings.recordings)
    if not each:
        return with_estimated_sigma(build_single(settings, source_of(settings)))
    sources, made, name = dict[str, Source](), dict[str, Experiment](), ""
    with one_file(settings, settings.recordings):
        try:
            # all data are refused before anything is compiled
            for name, one in each.items():
                sources[name] = source_of(one)
            for name, one in each.items():
                made[name] = build_single(one, sources[name])
        except PdefitError as error:
            raise PdefitError(f"Recording {name}: {error}") from None
    return with_estimated_sigma(together(settings, made))


def build_single(settings: Settings, source: Source) -> Experiment:
    """The experiment of one recording.

    **Arguments:** `settings`, `source`: the settings, and the observations from `source_of`.
    """
    problem, record = cast(source.problem, settings.dtype), source.record
    fitted, held, window = fitted_window(settings, record)
    if unknown_terms(problem.system):
        seen = observed_fields(problem, record.at(slice(0, fitted)))
        problem = dataclasses.replace(problem, system=sized_by_data(problem.system, seen))
    stages, formulation = list(settings.stages.stages), settings.formulation
    method = source.method or choose_method(settings, problem, float(record.ts[fitted - 1] - record.ts[0]))
    try:
        try_step(problem.system, problem.y0, method.solver, "solver", problem.args)
    except PdefitError as error:
        raise PdefitError(str(error).rstrip(".") + shapes_from_file(settings.data, problem.system)) from None
    try_observe(problem.instrument.placed(record.positions_at(0)), record.ts[0], problem.y0, problem.args)
    check_control_units(settings.controls, problem)
    refuse(dataclasses.replace(settings.choices(), system=type(problem.system), solver=method.solver))
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
    refuse(Choices.of(functional, stages, driver=settings.driver, begins_before=record.first_frame > 0))
    for stage in stages:
        # refused before anything is compiled
        if stage.formulation is not None:
            stage.formulation.layout(record.ts[:fitted], np.inf)
        if isinstance(stage.optimizer, ArrowGaussNewton):
            stage.optimizer.on(functional)
    ranges = source.noiseless or any(name in source.unstated for name in functional.observed)
    return Experiment(
        functional=functional,
        stages=_with_variances([_with_rule(s, record.at(slice(0, fitted)), held, ranges) for s in stages], settings),
        choices=(*source.assumed, *filter(None, reasons)),
        remarks=source.remarks + longer_than_frames(functional) + passed_inputs(functional, functional.theta0),
        source=source,
        fitted=fitted,
        truth=truth if source.true_paths else None,
        held=held,
        driver=settings.driver,
        max_iterations=settings.max_iterations,
        starts=settings.starts,
        seed=settings.seed,
    )


def source_of(settings: Settings) -> Source:
    """The observations that settings name, with all facts about them."""
    if settings.data is not None:
        return from_data(settings, settings.data)
    if settings.twin is not None:
        return from_twin(settings, settings.twin)
    raise PdefitError("A fit expects observations: set data.path to a file, or twin=independent to make them")


def _with_rule(stage: Stage, window: Observations, held: np.ndarray, ranges: bool) -> Stage:
    """A stage whose stopping rule has the data. A rule that the data do not allow is refused.

    **Arguments:** `ranges`: whether sigma is the range of some data, and not their noise.
    """
    if isinstance(stage.stop, Noise) and ranges:
        raise PdefitError("stop: noise expects sigma to be the noise; set twin.noise or data.sigma, or remove stop")
    if not isinstance(stage.stop, Holdout):
        return stage
    if not held.size:
        raise PdefitError("stop: holdout expects frames that are kept out of the fit; set holdout=0.1, or remove stop")
    return dataclasses.replace(stage, stop=Holdout(window, stage.stop.patience))


def _with_variances(stages: list[Stage], settings: Settings) -> list[Stage]:
    """The stages; the last one weighs residuals by the prediction if the noise follows it."""
    variances = {} if settings.data is None else settings.data.variances
    if not variances:
        return stages
    if any(stage.reweight is not None for stage in stages):
        raise PdefitError(
            "data.sigma follows the prediction, and a stage takes sigma from residuals; remove its reweight"
        )
    return [*stages[:-1], dataclasses.replace(stages[-1], reweight=ByPrediction(variables=variances))]


def settings_of_each(settings: Settings, given: str | Mapping[str, Settings]) -> dict[str, Settings]:
    """Settings of each of many recordings, or members, by name; empty for a single one.

    **Arguments:**

    - `settings`: the common settings.
    - `given`: the entry `recordings` or `members`: settings by name, or the axis of the file along which they lie.
    """
    if not isinstance(given, str):
        return dict(given)
    if not given or settings.data is None:
        return {}
    axis, data = given, settings.data
    found = dict[str, Settings]()
    for number, name in enumerate(split_recordings(data, axis)):
        check_name(name)
        one = dataclasses.replace(data, select={axis: name})
        found[name] = dataclasses.replace(settings, data=one, recordings="", members="", seed=settings.seed + number)
    return found


def one_file(settings: Settings, given: str | Mapping[str, Settings]) -> AbstractContextManager[None]:
    """Context manager in which the common file of many recordings, or members, is opened once.

    **Arguments:** as in `settings_of_each`.
    """
    if settings.data is None or not given or not isinstance(given, str):
        return nullcontext()
    return shared(settings.data)


def together(settings: Settings, made: Mapping[str, Experiment]) -> Experiment:
    """Many recordings as one experiment.

    Shared controls start from their guesses in the first recording.

    **Arguments:**

    - `settings`: the settings of the first recording.
    - `made`: every recording by name.
    """
    first = next(iter(made.values()))
    refuse_unseen([one.source.record.mask for one in made.values()])
    functionals = [_with_shared(one.first, first.first) for one in made.values()]
    functional = Recordings(functionals, batch=settings.batch, gauge=settings.gauge)
    # steps that were left open were chosen at each recording's own guess of what is shared
    if not suits(functional, functional.theta0):
        functional = stepped(functional, stable_step(functional, functional.theta0))
    source = dataclasses.replace(
        first.source,
        noise={n: found for one in made.values() for n, found in one.source.noise.items()},
        unstated=tuple({n for one in made.values() for n in one.source.unstated}),
        noiseless=any(one.source.noiseless for one in made.values()),
    )
    parts = [part for part, _ in functional.parts(functional.theta0)]
    return dataclasses.replace(
        first,
        functional=functional,
        choices=(
            *_named({n: one.source.assumed for n, one in made.items()}),
            *first.choices[len(first.source.assumed) :],
        ),
        stages=[_judged(stage, made) for stage in first.stages],
        remarks=_named({name: one.remarks for name, one in made.items()}) + _apart(made),
        source=source,
        recordings={n: dataclasses.replace(o, functional=f) for (n, o), f in zip(made.items(), parts, strict=True)},
    )


def refuse_unseen(masks: Sequence[Mapping[str, Array]]) -> None:
    """Refuse a variable that no record has a value of.

    **Arguments:** `masks`: the masks of observed values of each recording or member, by variable.
    """
    if lost := [name for name in masks[0] if not any(np.any(np.asarray(mask[name])) for mask in masks)]:
        raise PdefitError(f"No record has a value of {', '.join(lost)}; correct data.variables, or remove it there")


def _with_shared(functional: Functional, first: Functional) -> Functional:
    """A functional whose shared controls start from their guesses in the first recording."""
    theirs = {c.path: c for c in first.controls.items if not c.own}
    if theirs.keys() != {c.path for c in functional.controls.items if not c.own}:
        raise PdefitError("Recordings expects the same shared controls in all")
    problem = functional.problem
    for control in theirs.values():
        problem = eqx.tree_at(control.where, problem, control.where(first.problem))
    controls = Controls(tuple(theirs.get(c.path, c) for c in functional.controls.items))
    return eqx.tree_at(lambda f: (f.problem, f.controls), functional, (problem, controls))


def _judged(stage: Stage, made: Mapping[str, Experiment]) -> Stage:
    """A stage whose stopping rule has the data of all recordings."""
    if not isinstance(stage.stop, Holdout):
        return stage
    records = tuple(one.source.record.at(slice(0, one.fitted)) for one in made.values())
    return dataclasses.replace(stage, stop=Holdout(records, stage.stop.patience))


def _apart(made: Mapping[str, Experiment]) -> tuple[str, ...]:
    """Remark about two recordings without a common time."""
    first = max(made, key=lambda name: float(made[name].source.record.ts[0]))
    last = min(made, key=lambda name: float(made[name].source.record.ts[made[name].fitted - 1]))
    if made[first].source.record.ts[0] <= made[last].source.record.ts[made[last].fitted - 1]:
        return ()
    return (
        f"{first} begins when {last} has ended: what they share at a time, such as a force, is seen by one of them only; "
        f"correct their times (times, time_offset in the file) if they were watched together",
    )


def _named(remarks: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Remarks about all recordings, without duplicates; a remark not shared by all names a recording."""
    each = dict.fromkeys(remark for told in remarks.values() for remark in told)
    owners = {remark: [name for name, told in remarks.items() if remark in told] for remark in each}
    return tuple(
        remark if len(names) == len(remarks) else f"{', '.join(names)}: {remark}" for remark, names in owners.items()
    )
