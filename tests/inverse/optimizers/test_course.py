"""What the course of J leaves: creeping, converging, and standing still for a while."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from pdefit.inverse.optimizers._course import Course


@functools.partial(jax.jit, static_argnums=1)
def left(values, count=1000):
    """The fall that is left after each evaluation."""

    def step(course, value):
        course = course.after(value)
        return course, course.left

    return jax.lax.scan(step, Course.begin(jnp.zeros(())), values, length=count)[1]


def test_what_is_left_bounds_the_fall_that_follows():
    n = np.arange(1.0, 1001.0)
    # by a power of the number of evaluations, and by a factor with each
    for fall, most in ((1e3 / n, 2), (1e3 / n**2, 3), (1e3 * 0.98**n, 1e4)):
        found = np.asarray(left(jnp.asarray(50 + fall)))
        # the first three windows have too few before them
        assert np.all(np.isinf(found[:113])) and np.all(np.isfinite(found[113:]))
        assert np.all(found[113:] >= fall[113:])
        assert found[-1] < most * fall[-1]


def test_a_fall_that_hardly_slows_leaves_much():
    # a quarter of the evaluations brings 0.3, and there is no end
    found = left(1e3 - jnp.log(jnp.arange(1.0, 1001.0)))
    assert float(jnp.min(found)) > 2.0


def test_a_window_in_which_J_does_not_fall_or_falls_faster_says_nothing():
    n = jnp.arange(1000)
    assert float(left(jnp.where(n < 100, 0.9**n, 0.9**100))[-1]) == np.inf
    assert float(left(1.0 - jnp.where(n < 900, 0.0, n - 900.0))[-1]) == np.inf


def test_the_slower_of_two_ratios_decides():
    """Falls of 1, 0.9 and 0.001 from window to window: what was as good as no end is not taken for one."""
    marks, falls = np.array([48, 64, 86, 114, 152, 203]), np.array([0.0, 1.0, 0.9, 0.001, 0.0009, 1e-6])
    found = np.asarray(left(jnp.asarray(5.0 - np.cumsum(np.bincount(marks - 1, falls, 1000)))))
    np.testing.assert_allclose(
        found[marks[3:] - 1], [0.001 / (1 - 0.9), 0.0009 / (1 - 0.9), 1e-6 / (1 - 0.9)], rtol=1e-9
    )
