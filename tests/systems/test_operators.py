import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit

PI = np.pi
DIFFUSE = eqx.filter_jit(pdefit.diffuse)
# for each boundary condition a function on the unit interval that obeys it, with its first and second derivative
MODES = {
    "periodic": (
        pdefit.boundaries.Periodic(),
        lambda x: jnp.sin(2 * PI * x),
        lambda x: 2 * PI * jnp.cos(2 * PI * x),
        lambda x: -4 * PI**2 * jnp.sin(2 * PI * x),
    ),
    "noflux": (
        pdefit.boundaries.NoFlux(),
        lambda x: jnp.cos(PI * x),
        lambda x: -PI * jnp.sin(PI * x),
        lambda x: -(PI**2) * jnp.cos(PI * x),
    ),
    "dirichlet": (
        pdefit.boundaries.Dirichlet(2.0),
        lambda x: 2 + jnp.sin(PI * x),
        lambda x: PI * jnp.cos(PI * x),
        lambda x: -(PI**2) * jnp.sin(PI * x),
    ),
}


def grid(n, boundary, ndim=1):
    return pdefit.CartesianGrid(shape=(n,) * ndim, extent=(1.0,) * ndim, boundary=boundary)


def rates(errors):
    return np.log2(np.asarray(errors[:-1]) / np.asarray(errors[1:]))


@pytest.mark.parametrize("name", MODES)
def test_laplacian_and_gradient_are_second_order(name):
    boundary, u, du, d2u = MODES[name]
    errors = []
    for n in (16, 32, 64, 128):
        g = grid(n, boundary)

        @jax.jit
        def gaps(x, g=g):
            both = pdefit.laplacian(g, u(x)) - d2u(x), pdefit.grad(g, u(x))[0] - du(x)
            return jnp.sqrt(jnp.mean(jnp.stack(both) ** 2, axis=1))

        # the mean square: at a Dirichlet face the truncation error is of first order, but the solution's is not
        errors.append(gaps(*g.mesh()))
    errors = np.asarray(errors)
    np.testing.assert_allclose(rates(errors[:, 1]), 2.0, atol=0.1)
    if name != "dirichlet":
        np.testing.assert_allclose(rates(errors[:, 0]), 2.0, atol=0.1)


@pytest.mark.parametrize("name", MODES)
def test_poisson_solutions_are_second_order(name):
    """Solving lap u = f sees the boundary as a simulation does."""
    boundary, u, _, d2u = MODES[name]
    errors = []
    for n in (16, 32, 64):
        g = grid(n, boundary)
        (x,) = g.mesh()
        laplacian = jax.jit(lambda v, g=g: pdefit.laplacian(g, v))
        offset, *moved = (np.asarray(laplacian(v)) for v in (np.zeros(n), *np.eye(n)))
        solution = np.linalg.lstsq(np.stack(moved, axis=1) - offset[:, None], d2u(x) - offset, rcond=None)[0]
        difference = solution - u(x)
        if name != "dirichlet":
            difference = difference - difference.mean()
        errors.append(np.max(np.abs(difference)))
    np.testing.assert_allclose(rates(errors), 2.0, atol=0.1)


@pytest.mark.parametrize(
    "boundary", [pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux()], ids=["periodic", "noflux"]
)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_diffusion_conserves_the_integral_and_is_symmetric(boundary, ndim):
    g = grid(6, boundary, ndim)
    u, v, field = np.random.default_rng(0).uniform(size=(3, *g.shape))
    for D in (np.asarray(0.7), 0.1 + field):
        out, other = (np.asarray(DIFFUSE(g, D, x)) for x in (u, v))
        assert abs(out.sum()) < 1e-11 * np.abs(out).sum()
        np.testing.assert_allclose((v * out).sum(), (u * other).sum(), rtol=1e-12)


def test_diffusion_with_a_diffusivity_that_varies_is_second_order():
    errors = []
    for n in (16, 32, 64):
        g = grid(n, pdefit.boundaries.NoFlux(), 2)
        x, y = map(np.asarray, g.mesh())
        D = 1 + 0.6 * np.sin(2 * x + 3 * y)
        dx, dy = 1.2 * np.cos(2 * x + 3 * y), 1.8 * np.cos(2 * x + 3 * y)
        u = np.cos(PI * x) * np.cos(2 * PI * y)
        expected = -5 * PI**2 * D * u
        expected += -PI * np.sin(PI * x) * np.cos(2 * PI * y) * dx - 2 * PI * np.cos(PI * x) * np.sin(2 * PI * y) * dy
        errors.append(np.sqrt(np.mean((np.asarray(DIFFUSE(g, D, u)) - expected) ** 2)))
    np.testing.assert_allclose(rates(errors), 2.0, atol=0.1)


def test_variable_diffusivity_of_a_constant_is_the_scalar_one(key):
    g = grid(8, pdefit.boundaries.Dirichlet(1.0), 2)
    u = jax.random.uniform(key, g.shape)
    field = jnp.full(g.shape, 0.3)
    np.testing.assert_allclose(DIFFUSE(g, field, u), DIFFUSE(g, jnp.asarray(0.3), u), rtol=1e-12)


@pytest.mark.parametrize(
    "boundary", [pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux(), pdefit.boundaries.Dirichlet(1.0)]
)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_nothing_diffuses_into_or_out_of_blocks(boundary, ndim):
    g = grid(6, boundary, ndim)
    u, v, field, chance = np.random.default_rng(0).uniform(size=(4, *g.shape))
    conducting = (chance > 0.4).astype(float)
    for D in (np.asarray(0.7), 0.1 + field):
        inside = np.where(conducting > 0, u, 9.0)
        out, same, other = (np.asarray(DIFFUSE(g, D, x, conducting)) for x in (u, inside, v))
        np.testing.assert_array_equal(np.where(conducting == 0, out, 0), 0)
        np.testing.assert_array_equal(out, same)
        if not isinstance(boundary, pdefit.boundaries.Dirichlet):
            assert abs(out.sum()) < 1e-11 * np.abs(out).sum()
            np.testing.assert_allclose((v * out).sum(), (u * other).sum(), rtol=1e-12)
        whole = DIFFUSE(g, D, u, np.ones(g.shape))
        np.testing.assert_allclose(whole, DIFFUSE(g, D, u), rtol=1e-12, atol=1e-12)


def test_a_wall_of_blocks_is_a_boundary_without_flux(key):
    """Two cells more that conduct nothing, and the rest does not notice."""
    u = jax.random.uniform(key, (8,))
    walled = pdefit.CartesianGrid(shape=(10,), extent=(10.0,), boundary=pdefit.boundaries.Periodic())
    free = pdefit.CartesianGrid(shape=(8,), extent=(8.0,))
    conducting = jnp.pad(jnp.ones(8), 1)
    out = np.asarray(DIFFUSE(walled, jnp.asarray(0.7), jnp.pad(u, 1, constant_values=5.0), conducting))
    np.testing.assert_allclose(out[1:-1], DIFFUSE(free, jnp.asarray(0.7), u), rtol=1e-13)


def test_periodic_operators_commute_with_shifts(key):
    g = grid(8, pdefit.boundaries.Periodic(), 2)
    u, D = np.asarray(jax.random.uniform(key, (2, *g.shape)))
    shifted = DIFFUSE(g, np.roll(D, 3, 0), np.roll(u, 3, 0))
    np.testing.assert_allclose(shifted, np.roll(DIFFUSE(g, D, u), 3, 0), rtol=1e-13, atol=1e-13)


def test_divergence_of_a_linear_field_is_constant_inside():
    g = grid(8, pdefit.boundaries.NoFlux(), 2)
    x, y = map(np.asarray, g.mesh())
    inner = np.asarray(jax.jit(lambda v: pdefit.div(g, v))(np.stack([2 * x, 3 * y])))[1:-1, 1:-1]
    np.testing.assert_allclose(inner, 5.0, rtol=1e-12)


def test_boundaries_may_differ_between_axes():
    g = pdefit.CartesianGrid(
        shape=(8, 16), extent=(1.0, 2.0), boundary=(pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux())
    )
    x, y = map(np.asarray, g.mesh())
    u = np.sin(2 * PI * x) * np.cos(PI * y / 2)
    wave = (2 - 2 * np.cos(2 * PI / 8)) * 64 + (2 - 2 * np.cos(PI / 16)) * 64
    np.testing.assert_allclose(jax.jit(lambda u: pdefit.laplacian(g, u))(u), -wave * u, atol=1e-11)
