"""Fields of the state as a record tells them, through the observation operator."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.inverse.problem.problem import Problem

# Newton steps at most, and the error that is left of a value in units of round-off
_STEPS, _ROUND_OFF = 20, 64


def observed_fields(problem: Problem, observations: Observations) -> Observations:
    """The record with values of the fields themselves, where variables have the name and shape of a field.

    An operator may scale a field, by a gain or by the bleaching of a dye. Where each value depends on one value of the
    field, it is inverted at the time of every frame. A value that it cannot have becomes a missing one. Other operators,
    such as averages, leave the record as it is.

    **Arguments:**

    - `problem`: the problem with its instrument and inputs. Other fields have the values of `y0`.
    - `observations`: a few frames of the record.
    """
    instrument = problem.observe.placed(observations.positions_at(0))
    seen = jax.eval_shape(lambda y: instrument(jnp.asarray(observations.ts[0]), y, problem.args), problem.y0)
    for name, field in named_fields(problem.y0).items():
        # a record may hold more than the operator observes
        data = observations.values.get(name) if name in seen else None
        elsewhere = name in observations.positions or problem.observe.relocates
        if data is not None and data.shape[1:] == np.shape(field) and not elsewhere:
            values, mask = _inverted(problem, name, observations)
            observations = eqx.tree_at(lambda o, n=name: (o.values[n], o.mask[n]), observations, (values, mask))
    return observations


def _inverted(problem: Problem, name: str, observations: Observations) -> tuple[Array, Array]:
    """The values of a field, and where they are known."""
    fields, tree = named_fields(problem.y0), jax.tree.structure(problem.y0)
    data, mask, ts = observations.values[name], observations.mask[name], observations.ts

    def look(t: Array, u: Array) -> Array:
        state = jax.tree.unflatten(tree, [u if n == name else x for n, x in fields.items()])
        return problem.observe(t, state, problem.args)[name]

    start = jnp.broadcast_to(fields[name], data.shape)
    times = jnp.asarray(ts, start.dtype)

    def slope(u: Array, direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda u: jax.vmap(look)(times, u), (u,), (direction,))

    if bool(jnp.all(jnp.where(mask, jax.vmap(look)(times, data.astype(start.dtype)) == data, True))):
        return data, mask
    signs = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], data.shape), start.dtype)
    found, (seen, steepness) = start, slope(start, jnp.ones_like(start))
    if not bool(jnp.allclose(slope(start, signs)[1], signs * steepness)):
        return data, mask
    small = _ROUND_OFF * jnp.finfo(start.dtype).eps * jnp.max(jnp.abs(data))
    for _ in range(_STEPS):
        off = jnp.where(mask, data - seen, 0.0)
        if bool(jnp.all(jnp.abs(off) <= small)):
            break
        found = found + off / steepness
        seen, steepness = slope(found, jnp.ones_like(found))
    known = mask & (jnp.abs(data - seen) <= small)
    return jnp.where(known, found, start), known
