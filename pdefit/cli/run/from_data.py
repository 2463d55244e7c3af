"""Observations from a file, checked against the observed variables of the model, and the fitted problem."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError, with_space
from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import DataSettings
from pdefit.cli.run.initial_state import following, initial_state
from pdefit.cli.run.known import with_known
from pdefit.cli.run.positions import check_positions
from pdefit.cli.run.source import Source, fitted_window, problem_at
from pdefit.cli.run.trial import try_observe
from pdefit.data.noise import estimate_noise
from pdefit.data.observations import Observations
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import read_all
from pdefit.data.readers.odd_values import about_ends
from pdefit.data.readers.source import DataSource, Wanted
from pdefit.data.units import unit_in_system
from pdefit.inverse.problem.instrument import AbstractObservationOperator, Compose, check_observed
from pdefit.inverse.problem.logarithm import Logarithm
from pdefit.inverse.problem.observed_fields import positions_of
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.problem.twin import add_noise
from pdefit.inverse.shooting.nodes import node_states
from pdefit.systems.capabilities import AbstractDataState, AbstractDriven
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.system import AbstractSystem, parameters


def from_data(settings: Settings, data: DataSettings) -> Source:
    """Observations from a file, and their problem."""
    system, places, odd = with_known(settings.system, data)
    observations, assumed, remarks, observe = observed_data(settings, data, system)
    assumed, remarks = (*filter(None, [places]), *assumed), (*odd, *remarks)
    seen = observe.on(system).located(observations)
    for name, mask in seen.mask.items():
        if lost := int((np.asarray(observations.mask[name]) & ~np.asarray(mask)).sum()):
            remarks = (*remarks, f"{lost} values of {name} are saturated and count as missing")
    observations = dataclasses.replace(observations, values=seen.values, mask=seen.mask)
    if data.noise:
        noisy = add_noise(observations, data.noise, jax.random.key(settings.seed))
        observations = noisy.with_sigma(
            {name: np.hypot(observations.sigma[name], noisy.sigma[name]) for name in data.stated}
        )
        remarks = (
            *remarks,
            f"each variable has noise of {data.noise:.3g} times its range added (seed {settings.seed})",
        )
    # noise is estimated without the frames that are kept for the forecast
    last = np.inf if settings.times.fit_until is None else settings.times.fit_until
    automatic = [name for name in data.automatic if np.any(observations.mask[name])]
    noise = {name: estimate_noise(observations.between(-np.inf, last), name) for name in automatic}
    observations = observations.with_sigma({name: found.sigma for name, found in noise.items()})
    observations, observe, lost = _as_compared(observations, data, observe)
    remarks = (*remarks, *lost)
    if isinstance(system, AbstractDriven):
        fitted, held, _ = fitted_window(settings, observations)
        frames = np.setdiff1d(np.arange(observations.first_frame, fitted), held)
        system, observations, taken = system.driven_by(observations, frames)
        remarks = (*remarks, *taken)
    located = observe.on(system).located(observations)
    args = settings.args

    def first_frame() -> PyTree:
        if isinstance(system, AbstractDataState):
            return system.init_from_data((observe.inverted(located) or located).from_first_frame)
        if first := located.first_frame:
            remedy = f"set times.start={located.ts[first]:g}, or make the state a control"
            raise PdefitError(
                f"initial=data expects values at t = {located.ts[0]:g}, where trajectories begin; {remedy}"
            )
        problem = Problem(system, system.init(jax.random.key(settings.seed)), observe, args=args)
        return jax.tree.map(lambda x: x[0], node_states(problem, located, np.zeros(1, int)))

    y0, prepared, moved = initial_state(settings.initial, settings.seed, system, first_frame, args)
    problem, still = following(settings, Problem(system, y0, observe, args=args, events=settings.events))
    return Source(
        problem,
        observations,
        tuple(data.truth),
        None,
        "real data",
        noise=noise,
        unstated=data.unstated,
        sigma_exact=data.certain,
        prepared=prepared,
        assumed=(*assumed, *_beginning(settings, problem, observations), *about_events(problem, observations)),
        remarks=(*remarks, *moved, *still),
        truth=None if data.true_values is None else problem_at(problem, data.true_values),
    )


def _beginning(settings: Settings, problem: Problem, record: Observations) -> tuple[str, ...]:
    """Remark on the initial time, if it is before the first frame, or is neither stated nor 0."""
    first, ts = record.first_frame, record.ts
    begin, seen = (f"{t:g}{with_space(problem.system.time_unit)}" for t in (ts[0], ts[first]))
    if first:
        told = f"start: the trajectory begins at t = {begin}, before the first frame at {seen}"
        return (f"{told}; states that come from data are those of that frame",)
    if settings.times.start is not None or settings.initial == "data" or ts[0] == 0 or "y0" in settings.controls:
        return ()
    return (f"start: the trajectory begins at the first frame, t = {begin}; set times.start for another time",)


def about_events(problem: Problem, record: Observations) -> tuple[str, ...]:
    """Remark on the number and the times of events; empty without events.

    **Arguments:** `problem`: the problem; `record`: its observations.
    """
    if (events := problem.events) is None:
        return ()
    begin, end = (f"{t:g}{with_space(problem.system.time_unit)}" for t in (events.time.min(), events.time.max()))
    late = int(np.sum(events.time >= record.ts[-1]))
    after = f", {late} not before the last frame" if late else ""
    return (
        f"events: {events.time.size} of {', '.join(events.fields)}, from t = {begin} to {end}{after}; steps end there",
    )


def _as_compared(
    observations: Observations, data: DataSettings, observe: AbstractObservationOperator
) -> tuple[Observations, AbstractObservationOperator, tuple[str, ...]]:
    """The record with noise that follows the prediction, and with logarithms if they are compared.

    **Returns:** the record, the instrument that takes logarithms, and messages about values without a logarithm.
    """
    values, mask = dict(observations.values), dict(observations.mask)
    sigma, told = dict[str, Any](), list[str]()
    for name, variance in data.variances.items():
        sigma[name] = variance.at_data(np.asarray(values[name]), np.asarray(mask[name]))
    for name, deviation in data.logarithmic.items():
        seen, x = np.asarray(mask[name]), np.asarray(values[name])
        positive = seen & (x > 0)
        if lost := int((seen & ~positive).sum()):
            told.append(f"{lost} values of {name} are not above zero and have no logarithm; they count as missing")
        if seen.any() and not positive.any():
            raise PdefitError(f"data.sigma.{name} = log_normal expects values above zero, but there are none")
        values[name], mask[name] = jax.device_put(np.log(np.where(positive, x, 1.0))), jax.device_put(positive)
        sigma[name] = 1.0 if deviation is None else deviation
    if data.logarithmic:
        observe = Compose((observe, Logarithm(tuple(data.logarithmic))))
        observations = eqx.tree_at(lambda o: (o.values, o.mask), observations, (values, mask))
    sigma = {name: x for name, x in sigma.items() if np.any(np.asarray(mask[name]))}
    return observations.with_sigma(sigma), observe, tuple(told)


_DIMS = ("x", "y", "z")


def observed_data(
    settings: Settings, data: DataSource, system: AbstractSystem
) -> tuple[Observations, tuple[str, ...], tuple[str, ...], AbstractObservationOperator]:
    """Observations of the source `data`, between `times.start` and `times.stop`.

    Also returned are messages about positions missing in the file, messages about suspicious data, and the operator,
    which gets the positions of the file if it has none.

    **Arguments:**

    - `settings`, `data`: the settings of the experiment, and of the file.
    - `system`: the system, with the units and positions of its observed fields.
    """
    times, observe = settings.times, settings.observe
    coords = system.coords()
    # an operator may state units of what it observes
    stated = (observe if observe.lacks_points else observe.on(system)).moved(coords) or {}
    fields = {**stated, **coords}
    wanted = Wanted(
        {field: where.unit for field, where in fields.items()},
        system.time_unit,
        -np.inf if times.start is None else times.start,
        np.inf if times.stop is None else times.stop,
        [*dict.fromkeys(dim for where in coords.values() for dim in where.dims)],
    )
    # each of many recordings, or members, has a text here
    with Frames(data, wanted, optional=settings.recordings == "") as frames:
        units = {dim: unit for where in coords.values() for dim, unit in where.coord_units.items()}
        if observe.lacks_points and not observe.scattered:
            observe = observe.along(_axes(frames, coords, data, units))
        elif observe.lacks_points:
            # the file holds the coordinates of the points that it was measured at
            lengths = {dim.removesuffix("_face"): unit for dim, unit in units.items()}
            observations, remarks = read_all(frames, frames.positions([*lengths], data.coordinates, lengths))
            return observations, _units(frames, data, fields, system), tuple(remarks), observe
        y, assumed = _some_state(system, settings.seed), None
        if y is not None:
            seeing = observe.on(system).with_system(system)
            t, args = frames.ts[0], settings.args
            shapes = try_observe(seeing, t, y, args)
            check_observed(shapes, frames.shapes, f"the data in '{frames.name}'")
            assumed = check_positions(frames, positions_of(seeing, t, y, args, coords), data.coordinates)
        observations, remarks = read_all(frames)
        periodic = getattr(getattr(system, "grid", None), "periodic", ())
        for field, values in observations.values.items():
            shown = np.where(observations.mask[field], values, np.nan)
            ends = zip(range(1, shown.ndim), _DIMS, periodic, strict=False)
            found = [about_ends(frames.variables[field], shown, i, dim) for i, dim, wraps in ends if wraps]
            remarks += [remark for remark in found if remark]
        told = (*_units(frames, data, fields, system), *filter(None, [assumed]))
    return observations, told, tuple(remarks), observe


def _units(
    frames: Frames, data: DataSource, fields: Mapping[str, FieldCoords], system: AbstractSystem
) -> tuple[str, ...]:
    """Remark on the units of values, sigma and times; empty for a model without units.

    If the system has no unit of length or time, the file's unit is taken, so no other one may be declared.
    """
    time = data.times
    dims = {dim for where in fields.values() for dim in where.dims}
    length = next((u for dim in sorted(dims) if (u := frames.unused.get(data.coordinates.get(dim) or dim))), "1")
    for name, info in parameters(system).items():
        about = f"The units of '{frames.name}' are taken where the system has none; {name}"
        unit_in_system(info.unit, length, frames.unused.get(time, system.time_unit), about)
    units = {field: fields[field].unit for field in frames.variables if field in fields} | {time: system.time_unit}
    told = ", ".join(f"{name} in {unit}" for name, unit in units.items() if unit != "1")
    return (f"units: {told}, as are numbers of data.sigma and times",) if told else ()


def _axes(
    frames: Frames, coords: Mapping[str, FieldCoords], data: DataSource, units: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Positions along the axes of the fields, as stated in the file."""
    found: dict[str, np.ndarray] = {}
    for field in frames.shapes.keys() & coords.keys():
        dims = coords[field].dims
        for axis, dim in enumerate(dims, 1):
            where = frames.coordinate(field, axis, dims, data.coordinates, units.get(dim, "1"))
            if where is None:
                raise PdefitError(
                    f"'{frames.name}' states no positions along {dim}, at which {field} is observed; name the variable with "
                    f"data.coordinates={{{dim}: NAME}}, or give them to observe"
                )
            found[dim] = where.values
    return found


def _some_state(system: AbstractSystem, seed: int) -> PyTree | None:
    """A random state with the shapes of the system; None if the system has no state without data.

    It is random because derivatives may vanish at special values, such as zero.
    """
    try:
        shapes = eqx.filter_eval_shape(lambda: system.init(jax.random.key(seed)))
    # a plugin may raise any exception; the error is reported where the initial state is made
    except Exception:
        return None
    random = np.random.default_rng(0)
    return jax.tree.map(lambda x: jax.device_put(random.uniform(0.3, 0.7, x.shape).astype(x.dtype)), shapes)
