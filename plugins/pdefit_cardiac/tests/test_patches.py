import jax
import numpy as np
import pytest
from pdefit_cardiac import Ellipses, Patches

import pdefit
from pdefit.cli.config._reader import make

# shared edges, overlaps, a box inside a cell, one that leaves the grid
BOXES = [
    [[0.13, 0.52], [0.2, 0.71]],
    [[0.52, 0.9], [0.1, 0.33]],
    [[0.4, 0.6], [0.6, 0.9]],
    [[0.02, 0.05], [0.02, 0.03]],
]
BOXES += [[[0.8, 3.0], [0.95, float("inf")]]]
VALUES = [1.0, -2.0, 5.0, 0.5, 3.0]


def grid(*shape, origin=None):
    return pdefit.CartesianGrid(shape=shape, extent=(1.0,) * len(shape), origin=origin)


def on(patches, grid):
    """The field of patches, from one program."""
    return np.asarray(jax.jit(lambda: patches.on(grid))())


def test_boxes_on_cell_edges_are_exact():
    field = on(Patches(1.0, [[[0.25, 0.75], [0.0, 0.5]]], 0.0), grid(4, 4))
    expected = np.ones((4, 4))
    expected[1:3, :2] = 0
    np.testing.assert_allclose(field, expected, atol=1e-15)


def test_the_last_box_wins():
    field = on(Patches(1.0, [[[0.0, 0.75]], [[0.25, 1.0]], [[0.5, 0.75]]], [2.0, 3.0, 4.0]), grid(4))
    np.testing.assert_allclose(field, [2.0, 3.0, 4.0, 3.0], rtol=1e-15)


def test_a_cell_covered_in_part_is_in_between():
    field = on(Patches(1.0, [[[-0.1, 0.3], [0.2, 0.5]]], [3.0]), grid(2, 2, origin=(-0.5, 0.0)))
    np.testing.assert_allclose(field, [[1 + 2 * 0.2 * 0.6, 1.0], [1 + 2 * 0.6 * 0.6, 1.0]], rtol=1e-14)


@pytest.mark.parametrize("n", [3, 10])
def test_a_finer_grid_averages_to_a_coarse_one(n):
    patches = Patches(0.7, BOXES, VALUES)
    fine, coarse = grid(3 * n, 3 * n), grid(n, n)
    averaged = jax.jit(lambda x: fine.coarsen(x, 3))(on(patches, fine))
    np.testing.assert_allclose(averaged, on(patches, coarse), atol=1e-14)


def test_a_fine_grid_shows_the_boxes_themselves():
    g = grid(100, 100)
    x, y = map(np.asarray, g.mesh())
    expected = np.full(g.shape, 0.7)
    for ((x0, x1), (y0, y1)), value in zip(BOXES, VALUES, strict=True):
        expected = np.where((x > x0) & (x < x1) & (y > y0) & (y < y1), value, expected)
    np.testing.assert_allclose(on(Patches(0.7, BOXES, VALUES), g), expected, atol=1e-12)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_the_integral_is_that_of_the_boxes(ndim):
    field = on(Patches(1.0, [[[0.1, 0.4]] * ndim], 3.0), grid(*(7, 5, 3)[:ndim]))
    np.testing.assert_allclose(field.mean(), 1 + 2 * 0.3**ndim, rtol=1e-14)


def test_values_can_be_differentiated():
    slope = jax.jit(jax.grad(lambda v: Patches(1.0, [[[0.1, 0.4]]], v).on(grid(5)).sum()))(2.0)
    np.testing.assert_allclose(slope, 5 * 0.3, rtol=1e-14)


def test_it_is_built_from_a_configuration():
    node = {"name": "cardiac/patches", "background": 1, "boxes": [[[0, 0.5], [0, 1]]], "values": 0}
    np.testing.assert_allclose(on(make(node, "tissue", Patches), grid(2, 3)), [[0.0] * 3, [1.0] * 3], atol=1e-15)
    with pytest.raises(pdefit.PdefitError, match="tissue .*x0 < x1, one pair for each axis"):
        make(node | {"boxes": [[0.5, 0.1]]}, "tissue", Patches)


@pytest.mark.parametrize(
    ("boxes", "values", "message"),
    [
        ([[[0, 1]]], 0.0, "1 axes, but the grid has 2"),
        ([[[0, 1]] * 3], 0.0, "3 axes, but the grid has 2"),
        ([[[0, 1]], [[0, 1], [0, 1]]], 0.0, "as many axes each"),
        ([0, 1], 0.0, "a list of boxes"),
        ([], 0.0, "a list of boxes"),
        ([[[1, 0], [0, 1]]], 0.0, "ascending"),
        ([[[float("nan"), 0], [0, 1]]], 0.0, "ascending"),
        ("box", 0.0, "as many axes each"),
        ([[[0, 1], [0, 1]]], [0.0, 1.0], "one for each of its 1 boxes"),
    ],
)
def test_a_mistake_is_one_sentence(boxes, values, message):
    with pytest.raises(ValueError, match=message) as error:
        Patches(1.0, boxes, values).on(grid(4, 4))
    assert "\n" not in str(error.value)


def test_an_ellipse_has_its_area_on_every_grid():
    ellipse = Ellipses(1.0, [[0.5, 0.4]], [[0.3, 0.2]], 3.0)
    fine, coarse = (on(ellipse, grid(n, n)) for n in (60, 20))
    for field in (fine, coarse):
        np.testing.assert_allclose(field.mean(), 1 + 2 * np.pi * 0.3 * 0.2, rtol=2e-3)
    assert fine[30, 24] == 3 and fine[2, 2] == 1 and np.any((coarse > 1) & (coarse < 3))
    # the last one counts
    both = Ellipses(1.0, [[0.5, 0.5], [0.5, 0.5]], [[0.4, 0.4], [0.1, 0.1]], [3.0, 2.0])
    assert on(both, grid(20, 20))[10, 10] == 2


def test_an_ellipse_is_built_from_a_configuration():
    node = {"name": "cardiac/ellipses", "background": 1, "centres": [[0.5]], "radii": [[0.25]], "values": 0}
    np.testing.assert_allclose(on(make(node, "D", Ellipses), grid(4)), [1.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("centres", "radii", "message"),
    [([0.5], [0.1], "expects centres"), ([[0.5]], [[0.1]], "1 axes, but the grid has 2")],
)
def test_an_ellipse_that_does_not_fit_is_refused(centres, radii, message):
    with pytest.raises(ValueError, match=message):
        Ellipses(1.0, centres, radii, 0.0).on(grid(4, 4))
