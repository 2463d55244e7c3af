"""Two-body orbits on Kepler ellipses: the simplest forecast of a planetary system."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


def propagate(
    mu: Float[Array, ""], r0: Float[Array, " d"], v0: Float[Array, " d"], t: Float[Array, ""]
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Position and velocity after a time on the Kepler ellipse through a given position and velocity.

    Kepler's equation in the difference x of eccentric anomalies, n t = x - e_c sin x + e_s (1 - cos x) with e_c = e cos
    E_0 and e_s = e sin E_0, is solved by Newton's iteration. Lagrange's f and g follow. Only bound orbits are supported
    (NaN otherwise).

    **Arguments:**

    - `mu`: the gravitational parameter of both bodies together, in length^3/time^2.
    - `r0`, `v0`: position and velocity relative to the central body, (d,).
    - `t`: the time elapsed.

    Source: R. H. Battin, An Introduction to the Mathematics and Methods of Astrodynamics (1999), section 4.3.
    """
    radius = jnp.linalg.norm(r0)
    a = 1 / (2 / radius - jnp.dot(v0, v0) / mu)
    e_c, e_s = 1 - radius / a, jnp.dot(r0, v0) / jnp.sqrt(mu * a)
    n = jnp.sqrt(mu / a**3)
    mean = n * t

    def newton(_, x):
        residual = x - e_c * jnp.sin(x) + e_s * (1 - jnp.cos(x)) - mean
        return x - residual / (1 - e_c * jnp.cos(x) + e_s * jnp.sin(x))

    x = lax.fori_loop(0, 12, newton, mean)
    cos, sin = jnp.cos(x), jnp.sin(x)
    r = a * (1 - e_c * cos + e_s * sin)
    f, g = 1 - a / radius * (1 - cos), t + (sin - x) / n
    f_dot, g_dot = -jnp.sqrt(mu * a) / (r * radius) * sin, 1 - a / r * (1 - cos)
    return f * r0 + g * v0, f_dot * r0 + g_dot * v0


@jax.jit
def kepler_forecast(
    gm: Float[Array, " n"], position: Float[Array, "n d"], velocity: Float[Array, "n d"], elapsed: Float[Array, " t"]
) -> dict[str, Array]:
    """Positions and velocities, (t, n, d), if every body keeps its osculating ellipse about the first (the Sun).

    The centre of mass moves uniformly, and the Sun follows from it.

    **Arguments:**

    - `gm`: the gravitational parameters, (n,).
    - `position`, `velocity`: the state at the start, (n, d).
    - `elapsed`: the times since the start, (t,).
    """
    relative_x, relative_v = position[1:] - position[:1], velocity[1:] - velocity[:1]
    orbit = jax.vmap(jax.vmap(propagate, in_axes=(0, 0, 0, None)), in_axes=(None, None, None, 0))
    x, v = orbit(gm[0] + gm[1:], relative_x, relative_v, elapsed)
    share = gm / gm.sum()
    centre_v = (share @ velocity)[None, :]
    centre_x = (share @ position)[None, :] + elapsed[:, None] * centre_v
    sun_x = centre_x - jnp.einsum("n,tnd->td", share[1:], x)
    sun_v = centre_v - jnp.einsum("n,tnd->td", share[1:], v)
    return {
        "position": jnp.concatenate([sun_x[:, None], x + sun_x[:, None]], axis=1),
        "velocity": jnp.concatenate([sun_v[:, None], v + sun_v[:, None]], axis=1),
    }
