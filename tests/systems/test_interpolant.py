"""Fields between knots: accuracy, derivatives, periodic axes, and values as a control."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import State

import pdefit

EVALUATE = jax.jit(lambda field, t, *points: field(t, points))


def at(field, t, *points):
    """The field at points that are constants of one program."""
    return np.asarray(jax.jit(lambda field: field(t, points))(field))


def sampled(knots, method, wraps=(False, True)):
    """A smooth field of time and the plane with two components, at `knots` knots along each axis."""
    field = pdefit.Interpolant.zeros((knots, knots, knots), (1.0, 2.0), (0.5, 0.0), (0.0, 1.0), (2,), method, wraps)
    t, x, y = np.meshgrid(field.times, *field.axes, indexing="ij")
    return pdefit.Interpolant(exact(t, x, y), field.times, field.axes, method, field.periods)


def exact(t, x, y):
    wave = np.sin(np.pi * y + 1) * np.cos(2 * x + t)
    return np.stack([wave, wave**2 + t], axis=-1)


X, Y = np.linspace(0.51, 1.47, 9), np.linspace(-1.7, 3.3, 11)


@pytest.mark.parametrize(("method", "order"), [("linear", 2), ("cubic", 3)])
def test_error_falls_with_the_order_of_the_method(method, order):
    # the points are the same fine set for both, so that the largest error is nearly that of the whole box
    x, y, t = np.linspace(0.5, 1.5, 67), np.linspace(-1.0, 1.0, 61), 0.437
    truth = exact(t, *np.meshgrid(x, y, indexing="ij"))
    error = [np.max(np.abs(at(sampled(k, method), t, x, y) - truth)) for k in (16, 32)]
    assert order - 0.3 < np.log2(error[0] / error[1]) < 4.3


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_weights_sum_to_one_and_meet_the_values_at_knots(method):
    field = sampled(5, method)
    ones = pdefit.Interpolant(np.ones_like(field.values), field.times, field.axes, method, field.periods)
    np.testing.assert_allclose(at(ones, 0.3, X, Y), 1.0, atol=1e-14)
    for i, t in enumerate(field.times):
        # by periods later, too
        here = at(field, t, np.asarray(field.axes[0]), np.asarray(field.axes[1]) + 4.0)
        np.testing.assert_allclose(here, np.asarray(field.values)[i], atol=1e-13)


def test_ends_and_periods():
    field = sampled(6, "cubic")
    near, far = (field(t, (np.asarray(x), Y)) for t, x in ((0.0, [0.5, 1.5]), (-3.0, [-2.0, 9.0])))
    np.testing.assert_array_equal(near, far)
    np.testing.assert_allclose(field(0.2, (X, Y)), field(0.2, (X, Y - 6.0)), atol=1e-12)
    # the slope does not jump where a period ends, nor at a knot
    slope = jax.jit(jax.vmap(jax.grad(lambda y: field(0.2, (X[:1], y[None]))[0, 0, 0])))
    knots = np.asarray(field.axes[1])
    np.testing.assert_allclose(slope(knots - 1e-9), slope(knots + 1e-9), atol=1e-6)


def test_derivatives_by_values_points_and_time():
    field, (a, b, c) = sampled(5, "cubic"), np.random.default_rng(0).normal(size=(3,))
    shape = np.random.default_rng(1).normal(size=field.values.shape)
    start = (field.values, jnp.asarray(0.4), jnp.asarray(X), jnp.asarray(Y))
    direction = (shape, jnp.asarray(a), b * np.cos(X), c * np.sin(Y))

    @jax.jit
    def total(values, t, x, y):
        moved = pdefit.Interpolant(values, field.times, field.axes, field.method, field.periods)
        return jnp.sum(moved(t, (x, y)) ** 3)

    slope = jax.jvp(total, start, direction)[1]
    back = sum(np.vdot(g, d) for g, d in zip(jax.grad(total, (0, 1, 2, 3))(*start), direction, strict=True))
    ahead, behind = (total(*(s + e * d for s, d in zip(start, direction, strict=True))) for e in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, rtol=1e-7)
    np.testing.assert_allclose(back, slope, rtol=1e-12)


def test_constant_points_leave_constant_weights_in_the_program():
    field = sampled(5, "cubic")
    program = str(jax.make_jaxpr(lambda field: field(0.1, (X, Y)))(field))
    traced = str(jax.make_jaxpr(lambda x: field(0.1, (x, Y)))(jnp.asarray(X)))
    assert "dot_general" in program and "scan" not in program and "scan" in traced
    np.testing.assert_allclose(EVALUATE(field, 0.1, X, Y), field(0.1, (X, Y)), atol=1e-14)


def test_precision_of_values_and_a_field_without_time():
    still = pdefit.Interpolant(np.arange(4.0), None, [[0.0, 1.0, 2.0, 3.0]], "linear")
    np.testing.assert_allclose(still(7.0, (np.array([0.5, 2.25]),)), [0.5, 2.25], rtol=1e-14)
    single = pdefit.Interpolant(jnp.arange(4.0, dtype=jnp.float32), None, [np.arange(4.0) + 1e6])
    assert single(0.0, (np.array([1e6 + 0.5]),)).dtype == jnp.float32
    np.testing.assert_allclose(single(0.0, (np.array([1e6 + 1.5]),)), 1.5, rtol=1e-6)


class Pushed(pdefit.AbstractSystem):
    """u' = f(t, x) - u on a line."""

    time_unit = "s"
    force: pdefit.Interpolant = pdefit.parameter(unit="1/s")

    def vector_field(self, t, y, args):
        return State(self.force(t, (np.linspace(0.0, 1.0, 7),)) - y.u)

    def init(self, key):
        return State(jnp.zeros(7))


def test_its_values_alone_are_a_control_and_are_found():
    force = pdefit.Interpolant.zeros((3, 4), (1.0,), times=(0.0, 1.0))
    t, x = np.meshgrid(force.times, force.axes[0], indexing="ij")
    truth = pdefit.Interpolant(np.cos(2 * x + 3 * t), force.times, force.axes)
    y0, ts = Pushed(truth).init(None), np.linspace(0.0, 1.0, 9)
    data = pdefit.simulate(Pushed(truth), y0, ts, dt=0.0625)
    problem = pdefit.Problem(Pushed(force), y0)
    J = pdefit.Functional(problem, data, {"force": pdefit.transforms.Identity()}, dt=0.0625)
    assert [(c.path, c.unit, c.size) for c in J.controls.items] == [("force.values", "1/s", 12)]
    found = pdefit.fit(J, [pdefit.optimizers.LevenbergMarquardt()])
    np.testing.assert_allclose(found.problem.system.force.values, truth.values, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"values": np.zeros((3, 2)), "times": [0.0, 1.0], "axes": [[0.0, 1.0]]},
            r"shape \(2, 2\), \.\.\., but got \(3, 2\)",
        ),
        ({"values": np.zeros(2), "times": None, "axes": [[1.0, 0.0]]}, "increasing knots along an axis"),
        ({"values": np.zeros(2), "times": None, "axes": [[0.0, 1.0]], "method": "cubik"}, "did you mean cubic"),
        ({"values": np.zeros(2), "times": None, "axes": [[0.0, 1.0]], "periods": [1.0]}, "leave out the last"),
        ({"values": np.zeros(2), "times": None, "axes": []}, "1 to 3 axes"),
    ],
)
def test_fields_that_cannot_be(arguments, words):
    with pytest.raises(pdefit.PdefitError, match=words):
        pdefit.Interpolant(**arguments)


def test_boxes_and_points_that_cannot_be():
    with pytest.raises(pdefit.PdefitError, match="if there are times, and 1 for space"):
        pdefit.Interpolant.zeros((3, 4), (1.0,))
    with pytest.raises(pdefit.PdefitError, match="along 1 axes, but got 2"):
        pdefit.Interpolant.zeros((3,), (1.0,))(0.0, (X, Y))
