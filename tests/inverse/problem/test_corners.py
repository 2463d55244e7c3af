"""Fields at the corners of cells: polynomials, orders, positions, and a whole instrument of vectors at nodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import observed
from staggered import Staggered

import pdefit
from pdefit.inverse.problem.observed_fields import observed_positions

Average, Compose, Corners, Select, Subsample = (
    getattr(pdefit.instruments, n) for n in ("Average", "Compose", "Corners", "Select", "Subsample")
)
PERIODIC, WALL = pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux()


def box(nx, ny, boundary, extent=(3.0, 1.0)):
    return Staggered(pdefit.CartesianGrid((nx, ny), extent, (-1.0, 2.0), boundary=boundary))


def corners(system):
    """The coordinates of all corners."""
    grid = system.grid
    axes = [
        c + h * np.arange(n + (not wraps))
        for c, h, n, wraps in zip(grid.corner, grid.spacing, grid.shape, grid.periodic, strict=True)
    ]
    return np.meshgrid(*axes, indexing="ij")


@pytest.mark.parametrize(("method", "degree"), [("linear", 1), ("cubic", 3)])
def test_polynomials_are_exact_up_to_the_walls(method, degree):
    system = box(6, 7, WALL)

    def field(x, y):
        return (x - 0.4) ** degree * (0.3 + (y - 2.2) ** degree)

    seen = observed(Corners(method).on(system), system.made(field))
    for name in ("u", "v", "c"):
        np.testing.assert_allclose(seen[name], field(*corners(system)), atol=1e-12)


@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
@pytest.mark.parametrize(("method", "order"), [("linear", 2), ("cubic", 4)])
def test_errors_fall_with_the_order_of_the_method(boundary, method, order):
    def field(x, y):
        return np.sin(2 * np.pi * (x + 1) / 3 + 0.3) * np.cos(2 * np.pi * y + 0.1)

    def error(n):
        system = box(n, n, boundary)
        seen = observed(Corners(method).on(system), system.made(field))
        return np.asarray([np.max(np.abs(np.asarray(x) - field(*corners(system)))) for x in seen.values()])

    found = np.log(error(16) / error(48)) / np.log(3)
    assert np.all(found > order - 0.4) and np.all(found < order + 0.5)


def test_the_weights_inside_are_those_of_textbooks_and_faces_are_taken_as_they_are():
    system = box(8, 7, PERIODIC)
    y = system.init(jax.random.key(0))
    seen = observed(Corners().on(system), y)
    u = np.asarray(y.u)
    expected = sum(w * np.roll(u, s, axis=1) for w, s in zip((-1, 9, 9, -1), (2, 1, 0, -1), strict=True)) / 16
    np.testing.assert_allclose(seen["u"], expected, atol=1e-15)
    walls = box(8, 7, WALL)
    faces = Corners().on(walls).matrix(0, 7, 1.0)
    np.testing.assert_array_equal(faces[1:-1], np.eye(7))
    np.testing.assert_array_equal(faces[0, :4], [4, -6, 4, -1])


@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
def test_vectors_at_nodes_lie_where_every_second_corner_is(boundary):
    system = box(8, 6, boundary)
    y, coords = system.init(jax.random.key(0)), system.coords()
    x, z = (c[s] for c, s in zip(corners(system), (np.s_[:, 0], np.s_[0]), strict=True))
    every = Compose([Average(2.5), Select(["u", "v"]), Corners(), Subsample([2, 2], [0, 0])]).on(system)
    for operator, step in ((Corners().on(system), 1), (every, 2)):
        found = observed_positions(operator, 0.0, y, None, coords)
        for name in ("u", "v"):
            assert found[name].dims == ("x", "y") and found[name].coord_units["x"] == "mm"
            np.testing.assert_allclose(found[name].coords["x"], x[::step], rtol=0, atol=1e-14)
            np.testing.assert_allclose(found[name].coords["y"], z[::step], rtol=0, atol=1e-14)
    seen = observed(every, y)
    assert seen["u"].shape == (x[::2].size, z[::2].size)
    # what leans on a corner leans on the same window in the transpose
    weights = jax.tree.map(lambda a: jnp.asarray(np.random.default_rng(1).normal(size=a.shape)), seen)
    (pulled,) = jax.jit(lambda y, w: jax.vjp(lambda y: every(0.0, y, None), y)[1](w))(y, weights)
    there = sum(np.vdot(a, b) for a, b in zip(pulled, y, strict=True))
    np.testing.assert_allclose(sum(np.vdot(weights[n], seen[n]) for n in seen), there, rtol=1e-12)


def test_what_has_no_corners_is_refused():
    with pytest.raises(pdefit.PdefitError, match="did you mean cubic"):
        Corners("cubik")
    with pytest.raises(pdefit.PdefitError, match="4 points along every axis"):
        Corners().on(box(4, 6, WALL))(0.0, box(4, 6, WALL).init(jax.random.key(0)), None)


def test_points_of_a_fourier_grid_are_corners_already():
    grid = pdefit.FourierGrid((4, 5), (1.0, 1.0))
    u = jnp.asarray(np.random.default_rng(0).normal(size=(4, 5)))
    np.testing.assert_array_equal(Corners(grid=grid)(0.0, {"u": u}, None)["u"], u)


@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
def test_values_at_corners_return_to_the_points_of_fields(boundary):
    system = box(6, 7, boundary)

    def field(x, y):
        return np.sin(2 * np.pi * (x + 1) / 3) + np.cos(2 * np.pi * y)

    state, (x, y) = system.made(field), corners(system)
    found = Corners().on(system).returned({name: field(x, y) for name in "uvc"}, system.coords())
    # means of two neighbours along an axis shrink its wave
    along, across = (np.cos(np.pi / n) for n in (6, 7))
    waves = {name: system.made(lambda x, y: np.sin(2 * np.pi * (x + 1) / 3)) for name in "uvc"}
    for name, factors in {"u": (1.0, across), "v": (along, 1.0), "c": (along, across)}.items():
        first = np.asarray(getattr(waves[name], name))
        expected = factors[0] * first + factors[1] * (np.asarray(getattr(state, name)) - first)
        np.testing.assert_allclose(found[name], expected, atol=1e-12)


def test_components_of_a_field_are_not_means_of_each_other():
    system = box(4, 3, WALL)
    where = pdefit.capabilities.FieldCoords(
        ("x", "y", "species"), {**system.coords()["c"].coords, "species": np.array(["a", "b"])}
    )
    values = np.broadcast_to([1.0, 5.0], (5, 4, 2))
    found = Corners().on(system).returned({"c": values}, {"c": where})["c"]
    np.testing.assert_array_equal(found, np.broadcast_to([1.0, 5.0], (4, 3, 2)))
