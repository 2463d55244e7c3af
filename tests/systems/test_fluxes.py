"""Fluxes at the ends of a grid: divergence, advection, and diffusion by a tensor, against exact solutions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

import pdefit
from pdefit.boundaries import Dirichlet, Ends, Neumann, NoFlux, Periodic, Robin

PI = np.pi
DIFFUSE, ADVECT, DIV = map(eqx.filter_jit, (pdefit.diffuse, pdefit.advect, pdefit.div))


def rates(errors):
    return np.log2(np.asarray(errors[:-1]) / np.asarray(errors[1:]))


def test_div_grad_and_a_flow_along_walls_are_right_in_the_outer_cells():
    errors = []
    for n in (16, 32, 64):
        g = pdefit.CartesianGrid((n, n), (1.0, 1.0))
        x, y = map(np.asarray, g.mesh())
        u = np.cos(PI * x) * np.cos(PI * y)
        found = jax.jit(lambda u, g=g: pdefit.div(g, pdefit.grad(g, u)))(u)
        errors.append(np.max(np.abs(found + 2 * PI**2 * u)))
        flow = np.stack([np.sin(PI * x) * np.cos(PI * y), -np.cos(PI * x) * np.sin(PI * y)])
        np.testing.assert_allclose(DIV(g, flow), 0.0, atol=1e-12)
    np.testing.assert_allclose(rates(errors), 2.0, atol=0.1)


# --- exact solutions in one dimension, of every end -------------------------------------------------------


def smooth(x):
    return jnp.exp(x) * jnp.cos(2 * x) + 0.3 * x


SLOPE = jax.grad(smooth)
ENDS = {
    "D": lambda x, out: Dirichlet(float(smooth(x))),
    "N": lambda x, out: Neumann(float(out * SLOPE(x))),
    "R": lambda x, out: Robin(2.0, 0.7, float(2 * smooth(x) + 0.7 * out * SLOPE(x))),
}


def wave(x):
    return 1 + 0.1 * jnp.sin(2 * PI * x + 1)


# boundary, solution, velocity and diffusivity; nothing flows through the walls without flux
CASES = {
    **{
        ends: (
            Ends(ENDS[ends[0]](0.0, -1.0), ENDS[ends[1]](1.0, 1.0)),
            smooth,
            lambda x: 1 + x,
            lambda x: 1 + 0.5 * jnp.sin(2 * x),
        )
        for ends in ("NN", "RD")
    },
    "noflux": (NoFlux(), lambda x: 2 + jnp.cos(PI * x), lambda x: jnp.sin(PI * x) * (1 + x), wave),
    "periodic": (Periodic(), lambda x: 2 + jnp.sin(2 * PI * x), lambda x: 1 + 0.5 * jnp.cos(2 * PI * x), wave),
}


@pytest.mark.parametrize("name", CASES)
def test_advection_with_diffusion_is_second_order_in_every_cell(name):
    """The solution of u - (D u_x - v u)_x = f, as a simulation sees it; with div(grad u) in place of fluxes, too."""
    boundary, u, v, diffusivity = CASES[name]

    def source(x):
        carried = jax.grad(lambda x: diffusivity(x) * jax.grad(u)(x) - v(x) * u(x))
        return u(x) - carried(x), u(x) - jax.grad(jax.grad(u))(x)

    errors = []
    for n in (32, 64, 128):
        g = pdefit.CartesianGrid((n,), (1.0,), boundary=boundary)

        @jax.jit
        def systems(x, g=g):
            D, velocity = diffusivity(x), v(x)[None]

            def operators(w):
                narrow = w - pdefit.diffuse(g, D, w) + pdefit.advect(g, velocity, w)
                return narrow, w - pdefit.div(g, pdefit.grad(g, w))

            matrices, zero = jax.jacfwd(operators)(x), operators(0 * x)
            return [(A, f - b) for A, f, b in zip(matrices, jax.vmap(source)(x), zero, strict=True)], u(x)

        found, exact = systems(*g.mesh())
        errors.append([np.max(np.abs(np.linalg.solve(np.asarray(A), np.asarray(b)) - exact)) for A, b in found])
    np.testing.assert_allclose(rates(errors), 2.0, atol=0.1)


@pytest.mark.parametrize("boundary", [NoFlux(), Periodic()], ids=["noflux", "periodic"])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_no_flow_changes_the_integral(boundary, ndim):
    g = pdefit.CartesianGrid((4,) * ndim, (1.0,) * ndim, boundary=boundary)
    u, *velocity = np.random.default_rng(0).uniform(size=(1 + ndim, *g.shape))
    for out in (ADVECT(g, np.stack(velocity), u), ADVECT(g, (1.0,) * ndim, u), DIV(g, np.stack(velocity))):
        assert abs(np.sum(out)) < 1e-13 * np.sum(np.abs(out)) + 1e-13


def test_what_flows_in_has_the_value_of_the_boundary_and_what_flows_out_that_of_the_field():
    g = pdefit.CartesianGrid((8,), (4.0,), boundary=Ends(Dirichlet(3.0), Neumann(0.0)))
    np.testing.assert_allclose(ADVECT(g, 0.5, np.full(8, 3.0)), 0.0, atol=1e-14)
    u = np.linspace(1.0, 2.0, 8) ** 2
    assert np.sum(ADVECT(g, 0.5, u)) * 0.5 == pytest.approx(0.5 * (u[-1] - 3.0), rel=1e-13)


# --- diffusion by a tensor ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("walls", [NoFlux(), Dirichlet()], ids=["noflux", "dirichlet"])
def test_diffusion_along_oblique_fibres_is_second_order_up_to_the_walls(walls):
    """Level lines meet the walls at an angle: where nothing crosses, the slope along x is that along y times -D_xy / D_xx."""
    tilt = 0.25

    def tensor(x, y):
        D = 1 + 0.3 * jnp.sin(x + 2 * PI * y)
        return jnp.stack([jnp.stack([D, tilt * D]), jnp.stack([tilt * D, 0.5 + tilt**2 * D])])

    def u(x, y):
        profile = 2 + jnp.cos(PI * x) if isinstance(walls, NoFlux) else jnp.sin(PI * x) * (1 + x)
        return profile * jnp.cos(2 * PI * (y - tilt * x))

    def source(x, y):
        fluxes = [lambda x, y, i=i: tensor(x, y)[i] @ jnp.stack(jax.grad(u, (0, 1))(x, y)) for i in (0, 1)]
        return u(x, y) - jax.grad(fluxes[0], 0)(x, y) - jax.grad(fluxes[1], 1)(x, y)

    errors = []
    for n in (16, 32, 64):
        g = pdefit.CartesianGrid((n, n), (1.0, 1.0), boundary=(walls, Periodic()))
        x, y = g.mesh()
        D, exact, f = jax.jit(lambda x, y: (tensor(x, y), u(x, y), jax.vmap(jax.vmap(source))(x, y)))(x, y)
        flow = jax.jit(lambda w, g=g, D=D: w - pdefit.diffuse(g, D, w.reshape(g.shape)).ravel())
        matrix = LinearOperator((n * n,) * 2, lambda w, flow=flow: np.asarray(flow(w)))
        solution, failed = cg(matrix, np.ravel(f), rtol=1e-7)
        assert not failed
        errors.append(np.max(np.abs(solution.reshape(g.shape) - exact)))
    np.testing.assert_allclose(rates(errors), 2.0, atol=0.1)


@pytest.mark.parametrize(
    ("boundaries", "blocked"),
    [
        ((NoFlux(),), False),
        ((NoFlux(), NoFlux()), True),
        ((Ends(NoFlux(), Dirichlet()), Periodic()), True),
        ((NoFlux(), NoFlux(), NoFlux()), False),
        ((NoFlux(), Periodic(), Dirichlet()), True),
    ],
)
def test_diffusion_by_a_tensor_is_symmetric_negative_and_conserves(boundaries, blocked):
    """For any positive tensor, however it varies, and with blocks."""
    ndim, rng = len(boundaries), np.random.default_rng(0)
    g = pdefit.CartesianGrid((3,) * ndim, tuple(1.0 + i for i in range(ndim)), boundary=boundaries)
    roots = rng.normal(size=(ndim, ndim, *g.shape))
    D = np.einsum("ik...,jk...->ij...", roots, roots)
    conducting = jnp.asarray(rng.uniform(size=g.shape) > 0.3, float) if blocked else None
    flow = eqx.filter_jit(
        lambda D, u: jax.jacfwd(lambda u: pdefit.diffuse(g, D, u.reshape(g.shape), conducting).ravel())(u)
    )
    A = np.asarray(flow(D, np.zeros(3**ndim)))
    np.testing.assert_allclose(A, A.T, atol=1e-12 * np.abs(A).max())
    assert np.max(np.linalg.eigvalsh(A)) < 1e-12 * np.abs(A).max()
    if not any("Dirichlet" in str(b) for b in boundaries):
        np.testing.assert_allclose(A.sum(axis=0), 0.0, atol=1e-12 * np.abs(A).max())


def test_a_tensor_of_one_number_and_one_number_for_each_axis_are_the_scalar():
    g = pdefit.CartesianGrid((4, 5), (1.0, 2.0), boundary=(Dirichlet(1.0), Robin(1.0, 0.5, 2.0)))
    u = np.random.default_rng(0).uniform(size=g.shape)
    expected = DIFFUSE(g, 0.3, u)
    for D in (0.3 * np.eye(2), np.full(2, 0.3), np.full((2, 4, 5), 0.3), np.full((4, 5), 0.3), np.asarray(0.3)):
        np.testing.assert_allclose(DIFFUSE(g, D, u), expected, rtol=1e-12)
    stretched = pdefit.CartesianGrid((4, 5), (1.0, 2.0 / np.sqrt(3.0)))
    free = pdefit.CartesianGrid((4, 5), (1.0, 2.0))
    np.testing.assert_allclose(DIFFUSE(free, np.asarray([1.0, 3.0]), u), DIFFUSE(stretched, 1.0, u), rtol=1e-12)


def test_single_precision_stays():
    g = pdefit.CartesianGrid((4, 5), (1.0, 2.0), boundary=(NoFlux(), Dirichlet(1.0)))
    u = jax.ShapeDtypeStruct(g.shape, jnp.float32)
    double = np.ones((2, 2, 4, 5))
    for D in (0.1, double[0, 0, 0, 0], double[0, 0], double[0], double[0, :, 0, 0], double[:, :, 0, 0], double):
        assert jax.eval_shape(lambda u, D=D: pdefit.diffuse(g, D, u), u).dtype == jnp.float32
    assert jax.eval_shape(lambda u: pdefit.advect(g, double[0], u), u).dtype == jnp.float32
    assert jax.eval_shape(lambda u: pdefit.div(g, jnp.stack([u, u])), u).dtype == jnp.float32


def test_shapes_that_do_not_fit_are_refused():
    g, small = (pdefit.CartesianGrid(shape, (1.0, 1.0)) for shape in ((4, 5), (2, 2)))
    with pytest.raises(pdefit.PdefitError, match=r"D of shape \(3,\) fits neither cells nor axes"):
        pdefit.diffuse(g, np.ones(3), jnp.ones((4, 5)))
    with pytest.raises(pdefit.PdefitError, match=r"may be a field or a tensor on a grid of shape \(2, 2\)"):
        pdefit.diffuse(small, np.eye(2), jnp.ones((2, 2)))
    for velocity in (1.0, jnp.ones(3), jnp.ones((2, 4, 4))):
        with pytest.raises(pdefit.PdefitError, match="2 components, each a number or of that shape"):
            pdefit.advect(g, velocity, jnp.ones((4, 5)))
