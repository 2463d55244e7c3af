"""Fields of the state recovered from a record through the observation operator, and the observed positions."""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.inverse.problem.instrument import AbstractObservationOperator, Compose
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.coordinates import FieldCoords

# Newton steps at most, and the error that is left of a value in units of round-off
_STEPS, _ROUND_OFF = 20, 64


def observed_fields(problem: Problem, observations: Observations) -> Observations:
    """The record with values of the fields themselves, for variables with the name and shape of a field.

    An operator may scale a field, by a gain or by the bleaching of a dye. If it states the inverse (`inverted`), that
    is used. Otherwise it is inverted at the time of every frame, if each value depends on one value of the field.
    Impossible values become missing. For other operators, such as averages, the record is unchanged.

    **Arguments:**

    - `problem`: the problem with its instrument and inputs. Other fields have the values of `y0`.
    - `observations`: a few frames of the record.
    """
    if (before := problem.observe.inverted(observations)) is not None:
        return before
    observed = problem.observed(observations)
    for name, field in named_fields(problem.y0).items():
        # a record may hold more than the operator observes
        data = observations.values.get(name) if name in observed else None
        elsewhere = name in observations.positions or problem.observe.relocates
        if data is not None and data.shape[1:] == np.shape(field) and not elsewhere:
            values, mask = _inverted(problem, name, observations)
            observations = eqx.tree_at(lambda o, n=name: (o.values[n], o.mask[n]), observations, (values, mask))
    return observations


def _inverted(problem: Problem, name: str, observations: Observations) -> tuple[Array, Array]:
    """Values of a field, and the mask of known ones."""
    fields, tree = named_fields(problem.y0), jax.tree.structure(problem.y0)
    data, mask, ts = observations.values[name], observations.mask[name], observations.ts

    def observed_field(t: Array, u: Array) -> Array:
        state = jax.tree.unflatten(tree, [u if n == name else x for n, x in fields.items()])
        return problem.instrument(t, state, problem.args)[name]

    start = jnp.broadcast_to(fields[name], data.shape)
    times = jnp.asarray(ts, start.dtype)

    def slope(u: Array, direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda u: jax.vmap(observed_field)(times, u), (u,), (direction,))

    if bool(jnp.all(jnp.where(mask, jax.vmap(observed_field)(times, data.astype(start.dtype)) == data, True))):
        return data, mask
    signs = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], data.shape), start.dtype)
    values, (observed, steepness) = start, slope(start, jnp.ones_like(start))
    if not bool(jnp.allclose(slope(start, signs)[1], signs * steepness)):
        return data, mask
    small = _ROUND_OFF * jnp.finfo(start.dtype).eps * jnp.max(jnp.abs(data))
    for _ in range(_STEPS):
        off = jnp.where(mask, data - observed, 0.0)
        if bool(jnp.all(jnp.abs(off) <= small)):
            break
        values = values + off / steepness
        observed, steepness = slope(values, jnp.ones_like(values))
    known = mask & (jnp.abs(data - observed) <= small)
    return jnp.where(known, values, start), known


def observed_positions(
    observe: AbstractObservationOperator, t: Array | float, y: PyTree, args: PyTree, coords: Mapping[str, FieldCoords]
) -> dict[str, FieldCoords]:
    """Positions of the points that an operator observes, for every variable and axis for which they can be found.

    Some operators state positions (`moved`). Otherwise a point of the output lies at the weighted mean position of the
    cells on which it depends: the Jacobian-vector product of the operator with the coordinates of the fields, divided by
    its product with ones. So selected points keep their positions, and blocks lie at their centres. An operator that
    only blurs keeps the points, although its weights lean inward at the edges.

    **Arguments:**

    - `observe`: the operator.
    - `t`, `y`, `args`: a time, a state at which the operator can be differentiated, and the inputs.
    - `coords`: the coordinates of every field of the state.
    """
    if isinstance(observe, Compose):
        for operator in observe.operators:
            coords, y = observed_positions(operator, t, y, args, coords), operator(jax.device_put(t), y, args)
        return dict(coords)

    def observation(y: PyTree) -> dict[str, Array]:
        return named_fields(observe(jax.device_put(t), y, args))

    if observe.scattered:
        seen = jax.eval_shape(observation, y)
        return {name: FieldCoords(dims=(*("",) * (x.ndim - 1), "point"), coords={}) for name, x in seen.items()}
    if (stated := observe.moved(coords)) is not None:
        return stated
    numbers = {d: np.asarray(c, float) for w in coords.values() for d, c in w.coords.items() if c.dtype.kind == "f"}
    length_units = {d: unit for w in coords.values() for d, unit in w.coord_units.items()}
    positions: dict[str, dict[int, str]] = {}
    where: dict[str, dict[str, np.ndarray]] = {}
    for dim, points in numbers.items():
        # the weights of a mean need not be known, nor add up to one: applied to coordinates the operator gives their
        # weighted sum, applied to ones the sum of the weights, and a factor such as a unit drops out of the quotient.
        # Coordinates run from 0 to 1, so that single precision is enough where the origin is far away
        origin, span = points[0], float(np.ptp(points)) or 1.0
        unit = (points - origin) / span
        total, moments = (_pushed(observation, y, coords, dim, p) for p in (np.ones_like(unit), unit))
        for name, weights in total.items():
            with np.errstate(divide="ignore", invalid="ignore"):
                placed = _along_one_axis(np.asarray(moments[name] / weights), coords.get(name), dim)
            if placed is not None:
                axis, at = placed
                is_blurred = at.size == unit.size and not np.allclose(np.sort(at), np.sort(unit), atol=1e-5)
                positions.setdefault(name, {})[axis] = dim
                where.setdefault(name, {})[dim] = points if is_blurred else origin + span * at
    shapes = {name: np.ndim(x) for name, x in jax.eval_shape(observation, y).items()}
    return {
        name: FieldCoords(
            dims=tuple(positions.get(name, {}).get(axis, "") for axis in range(ndim)),
            coords=where.get(name, {}),
            coord_units={d: length_units.get(d, "1") for d in where.get(name, {})},
        )
        for name, ndim in shapes.items()
    }


def positions_of(
    observe: AbstractObservationOperator, t: float, y: PyTree, args: PyTree, coords: Mapping[str, FieldCoords]
) -> dict[str, FieldCoords]:
    """`observed_positions`; empty for an operator of a plugin that has no derivative here.

    **Arguments:** as in `observed_positions`.
    """
    try:
        return observed_positions(observe, t, y, args, coords)
    # an instrument of a plugin may raise any exception at this state
    except Exception:
        return {}


def _pushed(
    observation: Callable[[PyTree], dict[str, Array]],
    y: PyTree,
    coords: Mapping[str, FieldCoords],
    dim: str,
    points: np.ndarray,
) -> dict[str, np.ndarray]:
    """Derivative of an observation applied to fields whose tangents are the `points` along one axis.

    Fields without that axis have zero tangents.
    """

    def tangent(name: str, like: Array) -> Array:
        dims = coords[name].dims if name in coords else ()
        if dim not in dims:
            return jnp.zeros_like(like)
        shape = [-1 if d == dim else 1 for d in dims]
        return jax.device_put(np.broadcast_to(points.reshape(shape).astype(like.dtype), like.shape))

    moved = [tangent(name, x) for name, x in named_fields(y).items()]
    _, pushed = jax.jvp(observation, (y,), (jax.tree.unflatten(jax.tree.structure(y), moved),))
    return {name: np.asarray(x) for name, x in pushed.items()}


def _along_one_axis(at: np.ndarray, before: FieldCoords | None, dim: str) -> tuple[int, np.ndarray] | None:
    """The only axis along which positions change, and the positions along it; None if there is no such axis."""
    if at.ndim == 0 or not np.all(np.isfinite(at)):
        return None
    small = 1e-9 * max(float(np.ptp(at)), np.finfo(float).tiny)
    changing = [axis for axis in range(at.ndim) if np.max(np.ptp(at, axis=axis)) > small]
    if not changing and before is not None and len(before.dims) == at.ndim and dim in before.dims:
        changing = [before.dims.index(dim)] if at.shape[before.dims.index(dim)] == 1 else []
    if len(changing) != 1:
        return None
    return changing[0], np.moveaxis(at, changing[0], 0).reshape(at.shape[changing[0]], -1)[:, 0]
