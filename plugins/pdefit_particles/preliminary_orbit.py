"""Preliminary orbits: velocities of bodies if only positions were observed."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from pdefit_particles.kepler import propagate

_ITERATIONS = 20


def velocities(ts: np.ndarray, position: Float[Array, "t n d"], index: int) -> Float[Array, "n d"]:
    """Velocities of bodies at one time, (n, d), from their positions then and in the two frames nearest in time.

    Body 0 (the Sun) moves on the parabola through its three positions. Every other body moves about it on the ellipse
    through its three heliocentric positions. This also works for frames too far apart for differences: 20 days
    are a quarter of Mercury's year. A body without such an ellipse takes its parabola. Perturbations by third
    bodies are neglected: 1e-6 of a planet's velocity, 1e-3 of the Sun's.

    **Arguments:**

    - `ts`: the times of the frames, (t,).
    - `position`: the positions, (t, n, d).
    - `index`: the index of the frame of the velocities.

    Source: C. F. Gauss, Theoria motus corporum coelestium (1809), for the idea; here Gauss-Newton finds the ellipse.
    """
    near = np.sort(np.argsort(np.abs(ts - ts[index]), kind="stable")[:3])
    return _velocities(jnp.asarray(ts[near] - ts[index]), jnp.asarray(position, jnp.float64)[near])


@jax.jit
def _velocities(t: Float[Array, " 3"], x: Float[Array, "3 n d"]) -> Float[Array, "n d"]:
    """The velocities at t = 0 from positions at three increasing times."""
    rough = _parabola(t, x, 0.0)
    orbit = jax.vmap(_ellipse, in_axes=(None, 1))(t, x[:, 1:] - x[:, :1])
    relative = jnp.where(jnp.isfinite(orbit), orbit, rough[1:] - rough[:1])
    return jnp.concatenate([rough[:1], rough[:1] + relative])


def _curvature(t: Float[Array, " 3"], x: Float[Array, "3 ..."]) -> Float[Array, "..."]:
    """The second derivative of the parabola through three points."""
    late, early = (x[2] - x[1]) / (t[2] - t[1]), (x[1] - x[0]) / (t[1] - t[0])
    return 2 * (late - early) / (t[2] - t[0])


def _parabola(t: Float[Array, " 3"], x: Float[Array, "3 ..."], when: Float[Array, ""] | float) -> Float[Array, "..."]:
    """The derivative at time `when` of the parabola through three points."""
    return (x[1] - x[0]) / (t[1] - t[0]) + _curvature(t, x) * (when - (t[0] + t[1]) / 2)


def _ellipse(t: Float[Array, " 3"], x: Float[Array, "3 d"]) -> Float[Array, " d"]:
    """The velocity at t = 0 on the ellipse about the origin through three positions; NaN without such an ellipse.

    The unknowns are the velocity at the middle position, where differences are most accurate, and the logarithm of the
    gravitational parameter. The two outer positions give one equation more than unknowns in a plane, and two more in
    space.
    """
    mu = -jnp.dot(_curvature(t, x), x[1]) * jnp.linalg.norm(x[1])

    def at(u: Array, when: Array) -> tuple[Array, Array]:
        return propagate(jnp.exp(u[-1]), x[1], u[:-1], when - t[1])

    def miss(u: Array) -> Array:
        return jnp.concatenate([at(u, t[0])[0] - x[0], at(u, t[2])[0] - x[2]])

    def gauss_newton(_: int, u: Array) -> Array:
        return u - jnp.linalg.lstsq(jax.jacfwd(miss)(u), miss(u))[0]

    start = jnp.append(_parabola(t, x, t[1]), jnp.log(mu))
    return at(lax.fori_loop(0, _ITERATIONS, gauss_newton, start), jnp.zeros(()))[1]
