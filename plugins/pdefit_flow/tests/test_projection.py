"""The projection, and invariants of the discretised transport, with walls and without."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pdefit_flow
import pytest
from pdefit_flow import operators

import pdefit
from pdefit.boundaries import Dirichlet, NoFlux, Periodic

# one program for each call, in place of one for every operation in it
project = eqx.filter_jit(pdefit_flow.project)
divergence = eqx.filter_jit(operators.divergence)
transport = eqx.filter_jit(operators.transport)
self_transport = eqx.filter_jit(operators.self_transport)
mean_at_centres = eqx.filter_jit(operators.mean_at_centres)
mean_on_faces = eqx.filter_jit(operators.mean_on_faces)
slope_at_centres = eqx.filter_jit(operators.slope_at_centres)
slope_on_faces = eqx.filter_jit(operators.slope_on_faces)

BOXES = {
    "plates": ((12, 9), (Periodic(), Dirichlet())),
    "channel": ((9, 8), (NoFlux(), Periodic())),
    "periodic": ((8, 9), Periodic()),
    "closed": ((8, 7), Dirichlet()),
}


@pytest.fixture(params=BOXES)
def grid(request):
    shape, boundary = BOXES[request.param]
    return pdefit.CartesianGrid(shape, (2.0, 1.0), boundary=boundary)


def random_velocity(grid, seed, dtype=float):
    rng = np.random.default_rng(seed)
    shapes = np.array([grid.shape] * 2) - np.diag(np.logical_not(grid.periodic))
    return tuple(jnp.asarray(rng.normal(size=shape).astype(dtype)) for shape in shapes)


def dot(a, b):
    return float(sum(np.vdot(x, y) for x, y in zip(a, b, strict=True)))


def gap(a, b):
    return max(np.max(np.abs(np.subtract(x, y))) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("dtype", "small"), [("float64", 1e-12), ("float32", 5e-5)])
def test_a_projected_velocity_has_no_divergence(grid, dtype, small):
    velocity = random_velocity(grid, 0, dtype)
    for transforms in ("dense", "fft"):
        once = project(grid, velocity, transforms)
        assert all(x.dtype == dtype for x in once)
        assert np.max(np.abs(divergence(grid, once))) < small
        twice = project(grid, once, transforms)
        assert gap(once, twice) < small
    dense = project(grid, velocity)
    assert gap(once, dense) < small


def test_the_projection_is_symmetric_and_its_own_transpose(grid):
    a, b = random_velocity(grid, 1), random_velocity(grid, 2)
    projected = project(grid, a)
    np.testing.assert_allclose(dot(projected, b), dot(a, project(grid, b)), rtol=0, atol=1e-12)
    (pulled,) = jax.jit(jax.linear_transpose(lambda v: project(grid, v), a))(a)
    assert gap(pulled, projected) < 1e-13


def test_averages_and_slopes_are_transposes(grid):
    scalar = jnp.asarray(np.random.default_rng(3).normal(size=grid.shape))
    for axis, face in enumerate(random_velocity(grid, 4)):
        mean = np.vdot(face, mean_on_faces(grid, scalar, axis)) - np.vdot(mean_at_centres(grid, face, axis), scalar)
        slope = np.vdot(face, slope_on_faces(grid, scalar, axis)) + np.vdot(slope_at_centres(grid, face, axis), scalar)
        np.testing.assert_allclose([mean, slope], 0, atol=1e-12)


def test_transport_conserves_energies_and_the_scalar(grid):
    velocity = project(grid, random_velocity(grid, 5))
    scalar = jnp.asarray(np.random.default_rng(6).normal(size=grid.shape))
    carried, along = transport(grid, velocity, scalar), self_transport(grid, velocity)
    np.testing.assert_allclose([np.sum(carried), np.vdot(scalar, carried), dot(velocity, along)], 0, atol=1e-11)
    # momentum, along an axis without walls
    sums = [np.sum(x) for x, wraps in zip(along, grid.periodic, strict=True) if wraps]
    np.testing.assert_allclose(sums, 0, atol=1e-11)
    # a velocity with divergence conserves none of these but the sums
    rough = random_velocity(grid, 5)
    assert abs(dot(rough, self_transport(grid, rough))) > 1e-3


def test_large_grids_take_fast_transforms():
    grid = pdefit.CartesianGrid((66, 66), (1.0, 1.0), boundary=Periodic())
    velocity = random_velocity(grid, 7)
    assert "fft" in str(jax.make_jaxpr(lambda v: project(grid, v))(velocity))
    np.testing.assert_allclose(project(grid, velocity)[0], project(grid, velocity, "dense")[0], atol=1e-12)
