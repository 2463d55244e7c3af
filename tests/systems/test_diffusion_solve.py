"""The inverse of implicit diffusion against the stencil itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit

BOUNDARIES = {
    "periodic": pdefit.boundaries.Periodic(),
    "noflux": pdefit.boundaries.NoFlux(),
    "dirichlet": pdefit.boundaries.Dirichlet(),
}


def field(grid, key=0):
    return jax.random.normal(jax.random.key(key), grid.shape)


# every axis is solved by itself
MIXTURES = [
    *((name,) for name in BOUNDARIES),
    ("periodic", "noflux"),
    ("noflux", "dirichlet"),
    ("dirichlet", "periodic"),
    ("noflux", "noflux"),
    ("noflux", "periodic", "dirichlet"),
]


@eqx.filter_jit
def there_and_back(grid, D, h, u):
    solved = pdefit.diffusion_solve(grid, D, h, u)
    return solved - h * pdefit.diffuse(grid, D, solved)


@pytest.mark.parametrize("names", MIXTURES, ids="-".join)
@pytest.mark.parametrize("odd", [0, 1])
def test_it_inverts_the_discrete_operator(names, odd):
    shape, extent = tuple(12 + 3 * i + odd for i in range(len(names))), (1.0, 2.0, 1.5)[: len(names)]
    grid = pdefit.CartesianGrid(shape, extent, boundary=[BOUNDARIES[n] for n in names])
    D, h, u = jnp.asarray(0.7), jnp.asarray(0.3), field(grid)
    np.testing.assert_allclose(there_and_back(grid, D, h, u), u, atol=1e-12)


def test_it_is_differentiable_in_everything_and_keeps_single_precision():
    grid = pdefit.CartesianGrid((9, 8), (1.0, 1.0), boundary=(pdefit.boundaries.NoFlux(), pdefit.boundaries.Periodic()))
    u, w = field(grid), field(grid, 1)
    x = (jnp.asarray(0.7), jnp.asarray(0.01), u)

    @jax.jit
    def f(D, h, u):
        return jnp.sum(w * pdefit.diffusion_solve(grid, D, h, u))

    tangents = (jnp.asarray(0.3), jnp.asarray(-0.002), field(grid, 2))
    forward = jax.jvp(f, x, tangents)[1]
    reverse = sum(jnp.sum(g * v) for g, v in zip(jax.grad(f, (0, 1, 2))(*x), tangents, strict=True))
    eps = 1e-4
    ahead, behind = (f(*(a + s * eps * v for a, v in zip(x, tangents, strict=True))) for s in (1, -1))
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    np.testing.assert_allclose(forward, (ahead - behind) / (2 * eps), rtol=1e-6)
    assert pdefit.diffusion_solve(grid, *(v.astype(jnp.float32) for v in x)).dtype == jnp.float32
