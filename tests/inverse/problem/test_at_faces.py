"""Staggered velocities at points between the points of their grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import observed
from staggered import Staggered

import pdefit

At = pdefit.instruments.At
PERIODIC, WALL = pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux()
INSIDE = np.random.default_rng(0).uniform((-1.0, 2.0), (2.0, 3.0), (60, 2))
# also on walls and corners
POINTS = np.concatenate([INSIDE, [[-1.0, 2.0], [2.0, 3.0], [-1.0, 2.6], [0.3, 3.0]]])


def wave(x, y):
    return np.sin(2 * np.pi * (x + 1) / 3 + 0.3) * np.cos(2 * np.pi * y + 0.1)


def box(n, boundary):
    return Staggered(pdefit.CartesianGrid((n, n), (3.0, 1.0), (-1.0, 2.0), boundary=boundary))


def averaged(system):
    """The wave as averages over cells along the axes on which fields are centred, and as values along the others."""
    along = np.sinc(1 / system.grid.shape[0])
    y = system.made(wave)
    return type(y)(*(jnp.asarray(np.asarray(x) * a) for x, a in zip(y, (along, along, along**2), strict=True)))


@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
@pytest.mark.parametrize("cells", [None, False], ids=["cells", "points"])
@pytest.mark.parametrize(("method", "order"), [("linear", 2), ("cubic", 4)])
def test_errors_fall_with_the_order_for_each_field_on_its_own_points(boundary, cells, method, order):
    def error(n):
        system = box(n, boundary)
        y = system.made(wave) if cells is False else averaged(system)
        seen = observed(At(points=POINTS, method=method, cell_average=cells).on(system), y)
        return np.asarray([np.max(np.abs(np.asarray(x) - wave(*POINTS.T))) for x in seen.values()])

    found = np.log(error(16) / error(48)) / np.log(3)
    assert found.shape == (3,) and np.all(found > order - 0.45) and np.all(found < order + 0.6)


@pytest.mark.parametrize("n", [7, 8])
def test_spectral_is_exact_on_faces(n):
    system = box(n, PERIODIC)
    seen = observed(At(points=POINTS, method="spectral").on(system), averaged(system))
    for value in seen.values():
        np.testing.assert_allclose(value, wave(*POINTS.T), atol=1e-13)


def test_the_adjoint_is_the_transpose_on_faces():
    system = box(6, WALL)
    y, observe = system.init(jax.random.key(0)), At(points=POINTS, fields=("u", "v")).on(system)
    weights = {n: jnp.asarray(np.random.default_rng(1).normal(size=len(POINTS))) for n in ("u", "v")}

    @jax.jit
    def both(y, weights):
        seen, back = jax.vjp(lambda y: observe(0.0, y, None), y)
        return seen, back(weights)[0]

    seen, pulled = both(y, weights)
    assert set(seen) == {"u", "v"}
    there = sum(np.vdot(a, b) for a, b in zip(pulled, y, strict=True))
    np.testing.assert_allclose(sum(np.vdot(weights[n], seen[n]) for n in seen), there, rtol=1e-12)


def test_tracks_of_particles_come_with_the_data():
    system = box(8, PERIODIC)
    y, ts, tracks = averaged(system), np.linspace(0.0, 1.0, 3), np.stack([INSIDE[:5] + s for s in (0.0, 0.1, 0.2)])
    places = {"u": tracks, "v": tracks}
    record = pdefit.simulate(system, y, ts, observe=At(fields=("u", "v")), positions=places, dt=0.5)
    for k in range(3):
        fixed = observed(At(points=tracks[k], fields=("u", "v")).on(system), y)
        for name in ("u", "v"):
            np.testing.assert_allclose(np.asarray(record.values[name])[k], fixed[name], rtol=1e-12)


def test_too_few_faces_are_refused():
    with pytest.raises(pdefit.PdefitError, match=r"u has \(3, 4\)"):
        At(points=POINTS).on(box(4, WALL))
