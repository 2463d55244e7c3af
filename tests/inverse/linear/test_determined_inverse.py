"""The inverse on what data determine, against the pseudo-inverse."""

import numpy as np

from pdefit.inverse.linear.determined_inverse import determined_inverse, standard_errors


def test_held_elements_and_units_leave_the_inverse_alone():
    rng = np.random.default_rng(0)
    jac, units, free = rng.normal(size=(30, 5)), 10.0 ** np.arange(-6, 9, 3), np.array([1, 1, 0, 1, 1], bool)
    matrix = (jac * units).T @ (jac * units)
    found, expected = determined_inverse(matrix, free), np.zeros((5, 5))
    expected[np.ix_(free, free)] = np.linalg.inv((jac.T @ jac)[np.ix_(free, free)])
    np.testing.assert_allclose(found.matrix * np.outer(units, units), expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose((found.errors * units) ** 2, np.diag(expected), rtol=1e-12)
    assert not found.undetermined.any() and found.errors[2] == 0
    both = standard_errors(np.stack([matrix, matrix * np.nan]), np.stack([free, free]))
    np.testing.assert_array_equal(both[0], found.errors)
    assert np.isnan(both[1]).all()


def test_a_column_of_round_off_is_undetermined_in_any_unit():
    jac = np.random.default_rng(1).normal(size=(30, 3)) * [1e10, 1e9, 1e-5]
    found = determined_inverse(jac.T @ jac)
    assert found.undetermined.tolist() == [False, False, True] and np.isfinite(found.errors[:2]).all()


def test_what_is_undetermined_does_not_depend_on_the_basis_of_the_null_space():
    """An element has a fiftieth of its squared length in a plane without information, whatever vectors span the plane."""
    answers = []
    for angle in np.linspace(0, np.pi / 2, 7):
        part, turn = np.sqrt(0.02), np.array([np.cos(angle), np.sin(angle)])
        plane = np.zeros((12, 2))
        plane[0], plane[1:3] = part * turn, np.eye(2) - (1 - np.sqrt(1 - part**2)) * np.outer(turn, turn)
        seen = np.eye(12) - plane @ plane.T
        found = determined_inverse(seen)
        assert found.null.shape == (12, 2)
        answers.append(found.undetermined[:3])
    assert np.all(answers)
