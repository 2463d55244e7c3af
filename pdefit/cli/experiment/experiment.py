"""From a composed configuration to the objects of a run: what `fit` and `simulate` share."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.block_mean import block_mean
from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import cast
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed
from pdefit.analysis.goodness.holdout import held_frames, withhold
from pdefit.cli.config.controls import read_controls
from pdefit.cli.config.instantiate import build, make
from pdefit.cli.config.sections import is_number, whole_number
from pdefit.cli.config.stages import left_open, read_stages
from pdefit.cli.experiment.automatic_sigma import split_sigma
from pdefit.cli.experiment.choices import AUTO, chosen_stages, solver_and_steps
from pdefit.cli.experiment.control_units import check_control_units
from pdefit.cli.experiment.frame_times import frame_times, last_fitted
from pdefit.cli.experiment.initial_state import initial_state
from pdefit.cli.experiment.observed_data import observed_data
from pdefit.cli.experiment.prepared import Prepared
from pdefit.cli.experiment.trial import check_memory, try_observe, try_step
from pdefit.cli.experiment.truth import check_stated, problem_at
from pdefit.data.noise import NoiseEstimate, estimate_noise
from pdefit.data.observations import Observations
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays
from pdefit.integrate.loop.batch import AbstractBatch
from pdefit.integrate.loop.stable_step import choose_steps, stability_limit
from pdefit.inverse.controls.regularizers import AbstractRegularizer
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted, Traced
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_dt
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.problem.twin import Twin
from pdefit.inverse.shooting.formulation import AbstractFormulation
from pdefit.systems.system import AbstractSystem, parameters

Config = Mapping[str, Any]

_DATA = ("path", "variables", "sigma", "time", "coordinates", "system", "truth")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything a fit needs.

    `record` all observations, those kept for the forecast included; `functional` on the first `fitted` of them; `truth`
    the problem with true values where they are known, and `true_paths` the controls they are known for; `true_states` the
    film without noise (leading axis time) of a twin; `noise` what was found where the user left sigma to the data, and
    `unstated` the variables of which nobody said how noisy they are; `noiseless` whether the data are a twin's without
    noise; `held` indices of frames kept out of the fit; `driver` who evaluates; `choices` what nobody chose, and why it was
    chosen so; `remarks` what looks odd about the data; `prepared` what preparing the initial state took.
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


def experiment(cfg: Config) -> Experiment:
    """Build the experiment a configuration describes."""
    if cfg["data"] is None and cfg["twin"] is None:
        raise PdefitError("A fit expects observations: set data.path to a file, or twin=independent to make them")
    for key in ("start", "stop", "fit_until"):
        if cfg["times"][key] is not None and not is_number(cfg["times"][key]):
            raise PdefitError(f"times.{key} expects a number, but got '{cfg['times'][key]}'")
    if cfg["data"] is None and cfg["twin"]["variant"] == "self" and cfg["dt"] is None:
        # "with the same step": the one the fit would choose, which depends on its guesses
        first = _assemble(cfg)
        dt, chosen = first.functional.dt, None
        if first.functional.steps is None:
            # the truth may ask for smaller steps than the guess
            truth = first.truth or first.functional.problem
            dt = chosen = min(dt, choose_steps([(truth.system, truth.y0)], None, first.functional.asked_solver)[1])
        # of adaptive steps, which keep their tolerance, the twin takes the smallest
        # the second time a prepared state is in the cache
        again = _assemble({**cfg, "twin": {**cfg["twin"], "dt": dt}}, chosen)
        return dataclasses.replace(again, prepared=first.prepared)
    return _assemble(cfg)


def _assemble(cfg: Config, dt: float | None = None) -> Experiment:
    """The experiment; `dt` is the step that the fit chooses, where that is known already."""
    made = _from_data(cfg) if cfg["data"] is not None else _from_twin(cfg)
    problem, record = cast(made.problem, cfg["dtype"]), made.record
    stop = last_fitted(cfg)
    fitted = record.ts.size if stop is None else int(np.searchsorted(record.ts, stop, side="right"))
    if fitted < 2:
        raise PdefitError(
            f"times.fit_until = {stop} leaves {fitted} frames to fit; the record starts at {record.ts[0]:g}"
        )
    stages = read_stages(cfg["stages"])
    formulation = make(cfg["formulation"], "formulation", AbstractFormulation)
    if formulation.partial:
        raise PdefitError(
            "formulation leaves out a part of the record; every and until belong to stages (times.fit_until)"
        )
    used = [formulation, *(s.formulation for s in stages if s.formulation is not None)]
    held = held_frames(record.ts[:fitted], cfg["holdout"] or 0, used)
    window = withhold(record.at(slice(0, fitted)), held)
    span = float(record.ts[fitted - 1] - record.ts[0])
    solver, steps, why = solver_and_steps(cfg, problem.system, problem.y0, span, problem.args)
    try_step(problem.system, problem.y0, solver, "solver", problem.args)
    try_observe(problem.observe, problem.y0)
    regularizers = tuple(make(r, f"regularizers.{n}", AbstractRegularizer) for n, r in cfg["regularizers"].items())
    controls = read_controls(cfg["controls"])
    check_control_units(controls, problem.system)
    adjoint, driver = make(cfg["adjoint"], "adjoint", AbstractAdjoint), make(cfg["driver"], "driver", AbstractDriver)
    chooses = isinstance(driver, Hosted) or (isinstance(driver, Traced) and driver.memory is not None)
    if chooses and not isinstance(adjoint, Checkpointed):
        raise PdefitError(
            f"driver={cfg['driver']['name']} chooses how many checkpoints there are, so it expects adjoint=checkpointed; "
            f"{type(adjoint).__name__} runs with driver=traced driver.memory=null"
        )
    functional = Functional(
        problem,
        cast(window, cfg["dtype"]),
        controls,
        solver=solver,
        dt=cfg["dt"],
        steps=steps,
        adjoint=adjoint,
        batch=make(cfg["batch"], "batch", AbstractBatch),
        formulation=formulation,
        regularizers=regularizers,
        smooth_tangents=bool(cfg["smooth_tangents"]),
        key=jax.random.key(cfg["seed"]),
    )
    functional = driver.resolve_for(functional if dt is None else with_dt(functional, dt))
    truth = problem if made.truth is None else cast(made.truth, cfg["dtype"])
    if made.truth is not None:
        check_stated(made.true_paths, functional.controls.items, truth)
    if left_open(cfg["stages"]):
        stages, reason = chosen_stages(functional, stages[0], cfg["stages"], bool(held.size))
        why += (reason,)
    return Experiment(
        functional=functional,
        stages=stages,
        choices=made.assumed + why,
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
        driver=driver,
        prepared=made.prepared,
    )


@dataclasses.dataclass(frozen=True)
class _Made:
    problem: Problem
    record: Observations
    true_paths: tuple[str, ...]
    true_states: PyTree | None
    variant: str
    noise: dict[str, NoiseEstimate] = dataclasses.field(default_factory=dict)
    unstated: tuple[str, ...] = ()
    prepared: Prepared | None = None
    assumed: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    truth: Problem | None = None
    noiseless: bool = False


def _from_data(cfg: Config) -> _Made:
    """Observations from a file."""
    data, times = cfg["data"], cfg["times"]
    if times["forecast"] is not None:
        raise PdefitError("times.forecast says which frames a twin makes; of data from a file set times.fit_until")
    for key in data:
        if key not in _DATA:
            raise unknown("key of data", str(key), _DATA)
    if not isinstance(data.get("variables", {}), Mapping):
        raise PdefitError(
            f"data.variables expects field: variable, e.g. {{u: intensity}}, but got {data['variables']!r}"
        )
    _check_texts(data)
    for key in ("path", "variables"):
        if not data.get(key):
            raise PdefitError(
                f"data.{key} is missing; data expects a path and variables, e.g. variables: {{u: intensity}}"
            )
    from_file = data.get("system") or {}
    path = locate(str(data["path"]))
    system = make_system({**cfg["system"], **{k: v.tolist() for k, v in read_arrays(path, from_file).items()}})
    stated, automatic, unstated = split_sigma(data.get("sigma"), data["variables"])
    observe = _observe(cfg)
    observations, assumed, remarks = observed_data(cfg, path, system, observe, stated)
    # what is kept for the forecast must not be looked at
    last = np.inf if times["fit_until"] is None else times["fit_until"]
    noise = {name: estimate_noise(observations.between(-np.inf, last), name) for name in automatic}
    observations = observations.with_sigma({name: found.sigma for name, found in noise.items()})
    y0, prepared = initial_state(cfg, system, observations)
    problem = Problem(system, y0, observe, args=make_args(cfg))
    truth = data.get("truth") or ()
    known = problem_at(problem, truth) if isinstance(truth, Mapping) else None
    return _Made(
        problem, observations, tuple(truth), None, "real data", noise, unstated, prepared, assumed, remarks, known
    )


def _check_texts(data: Config) -> None:
    """Names of variables, and of the file, are text."""
    if not isinstance(data.get("system") or {}, Mapping):
        raise PdefitError(f"data.system expects argument: variable, e.g. {{gm: gm}}, but got {data['system']!r}")
    truth = data.get("truth") or []
    if not isinstance(truth, list | Mapping):
        raise PdefitError(f"data.truth expects controls with their true values, e.g. {{D: 1.0}}, but got {truth!r}")
    named = {f"data.{key}": data.get(key) for key in ("path", "time")}
    for section in ("variables", "system"):
        named |= {f"data.{section}.{name}": text for name, text in (data.get(section) or {}).items()}
    named |= {f"data.truth.{i}": text for i, text in enumerate([] if isinstance(truth, Mapping) else truth)}
    for key, text in named.items():
        if not isinstance(text, str) and not (key in ("data.path", "data.time") and text is None):
            raise PdefitError(f"{key} expects text, but got '{text}'")


def _from_twin(cfg: Config) -> _Made:
    """Observations made by a truth of their own."""
    settings = dict(cfg["twin"])
    variant, changes, refine = settings.pop("variant"), settings.pop("system"), settings.pop("refine")
    whole_number(settings["seed"], "twin.seed")
    if not isinstance(variant, str):
        raise PdefitError(f"twin.variant expects text, but got '{variant}'")
    if settings["dt"] is not None and not (is_number(settings["dt"]) and settings["dt"] > 0):
        raise PdefitError(f"twin.dt expects a positive time step, but got '{settings['dt']}'")
    if not is_number(settings["noise"]):
        raise PdefitError(f"twin.noise expects a number, but got '{settings['noise']}'")
    settings |= {"dt": None if settings["dt"] is None else float(settings["dt"]), "noise": float(settings["noise"])}
    system = make_system(cfg["system"])
    truth = make_system(_refined(_merged(cfg["system"], changes), refine))
    observe, args, ts = _observe(cfg), make_args(cfg), frame_times(cfg)
    fine, prepared = initial_state(cfg, truth, None)
    if settings["solver"] == AUTO:
        given = {"solver": AUTO, "steps": None, "dt": settings["dt"] or cfg["dt"] or 0.0}
        settings["solver"], _, _ = solver_and_steps(given, truth, fine, float(ts[-1] - ts[0]), args)
    else:
        settings["solver"] = make(settings["solver"], "twin.solver", diffrax.AbstractSolver)
    if settings["dt"] is None and cfg["dt"] is not None:
        limit = stability_limit(truth, fine, settings["solver"])
        settings["dt"] = cfg["dt"] / 2 if limit is None else min(cfg["dt"] / 2, 0.8 * limit)
    twin = build(Twin, {"system": truth, "refine": refine, **settings}, "twin")
    try_step(truth, fine, twin.solver, "twin.solver", args)
    check_memory(ts.size, fine)
    try_observe(lambda y: observe(twin.averaged(y)), fine)
    record, states = twin.record(fine, ts, observe, args)
    y0 = jax.tree.map(lambda x: jnp.asarray(x[0]), states)
    paths = tuple(f.split(".")[0] for f in cfg["controls"])
    problem = Problem(_with_truth(system, truth, paths), y0, observe, args=args)
    return _Made(problem, record, paths, states, f"twin ({variant})", prepared=prepared, noiseless=twin.noise == 0)


def _with_truth(system: AbstractSystem, truth: AbstractSystem, paths: tuple[str, ...]) -> AbstractSystem:
    """The model's system at the true values of its controls (the guesses replace them later)."""
    names = {f.name for f in dataclasses.fields(system)}
    true = {p: _averaged(getattr(truth, p), getattr(system, p)) for p in paths if p in names}
    return dataclasses.replace(system, **true)


def _averaged(fine: Any, coarse: Any) -> Any:
    """A parameter that is a field on a refined grid, averaged to the shape it has on the model's; others as they are."""
    if not eqx.is_array(fine) or not eqx.is_array(coarse) or fine.shape == coarse.shape or fine.ndim != coarse.ndim:
        return fine
    if any(f % c for f, c in zip(fine.shape, coarse.shape, strict=True)):
        return fine
    return block_mean(fine, [f // c for f, c in zip(fine.shape, coarse.shape, strict=True)])


def make_system(node: Config) -> AbstractSystem:
    """The system of a configuration."""
    if not isinstance(node, Mapping) or not {"name", "_target_"} & {*node}:
        raise PdefitError("An experiment expects a system; choose one with system=... (pdefit list systems)")
    system = make(node, "system", AbstractSystem)
    for name, info in parameters(system).items():
        value = getattr(system, name)
        if info.positive and eqx.is_array(value) and bool(np.any(np.asarray(value) < 0)):
            raise PdefitError(f"system.{name} must be positive, but is {np.asarray(value).min():g}")
    return system


def make_args(cfg: Config) -> Any:
    """The exogenous inputs of the equations, or None."""
    return None if cfg["args"] is None else make(cfg["args"], "args", eqx.Module)


def _observe(cfg: Config) -> AbstractObservationOperator:
    return make(cfg["observe"], "observe", AbstractObservationOperator)


def _merged(node: Config, changes: Config) -> dict[str, Any]:
    """A mapping with some of its entries changed, at any depth."""
    out = dict(node)
    for key, value in changes.items():
        nested = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if nested else value
    return out


def _refined(system: Config, factor: int) -> Config:
    """The system's configuration with `factor` times as many cells along every axis."""
    if factor == 1:
        return system
    grid = system.get("grid")
    if not isinstance(factor, int) or factor < 1 or not isinstance(grid, Mapping) or "shape" not in grid:
        raise PdefitError(
            f"twin.refine = {factor} expects a whole number and a system with grid.shape; set twin.refine=1"
        )
    return _merged(system, {"grid": {"shape": [n * factor for n in grid["shape"]]}})
