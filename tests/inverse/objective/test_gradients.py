"""Is the gradient right? Taylor remainders, finite differences for every control and node, and adjoints against each other."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, central_difference, fisher_functional, planets_functional, positions_functional

import pdefit
from pdefit.adjoints import base

# compiled once for all tests of a functional
VALUE_AND_GRAD = eqx.filter_jit(pdefit.Functional.value_and_grad)


@eqx.filter_jit
def linearised(functional, theta, v):
    """Normal equations, the Jacobian in two ways, and the tangent along v."""
    tangent = jax.jvp(functional.residuals, (theta,), (v,))[1]
    return (
        functional.normal_equations(theta),
        functional.jacobian(theta),
        jax.jacfwd(functional.residuals)(theta),
        tangent,
    )


FRONT = {
    "D": pdefit.transforms.Log(),
    "r": pdefit.Control(pdefit.transforms.Softplus(), prior=pdefit.priors.Normal(1.0, 0.3)),
    "y0": {"u": pdefit.Control(pdefit.transforms.Identity(), smoothing=2.0)},
}
MAKERS = {
    "front": lambda **o: fisher_functional(controls=FRONT, regularizers=(pdefit.regularizers.H1("y0.u", 1e-2),), **o),
    "irregular": lambda **o: fisher_functional(times=[0.0, 0.2, 0.25, 1.7, 4.0], solver=diffrax.Tsit5(), **o),
    "verlet": lambda **o: planets_functional(solver=pdefit.solvers.VelocityVerlet(), **o),
    "nodes": lambda **o: planets_functional(
        controls={
            "gm": pdefit.transforms.Log(),
            "nodes": {"position": pdefit.transforms.Identity(), "velocity": pdefit.transforms.Identity()},
        },
        **o,
    ),
    "velocities": lambda **o: positions_functional(sigma=1.0, continuity=1e-2, **o),
}


@pytest.fixture(scope="module", params=MAKERS)
def functional(request):
    return MAKERS[request.param]()


@pytest.fixture
def theta(functional):
    # away from the guess, where node states fit perfectly
    return moved(functional)


def moved(functional):
    theta = np.asarray(functional.theta0)
    return theta + 1e-3 * np.random.default_rng(3).normal(size=theta.shape)


def test_taylor_remainder_falls_with_the_square(functional, theta):
    v = np.random.default_rng(5).normal(size=theta.shape)
    v = v / np.linalg.norm(v)
    value, gradient = map(np.asarray, VALUE_AND_GRAD(functional, theta))
    steps = 1e-2 / 2.0 ** np.arange(2, 6)
    remainders = [abs(float(VALUE(functional, theta + h * v) - value - h * gradient @ v)) for h in steps]
    rates = np.log2(np.divide(remainders[:-1], remainders[1:]))
    assert np.all(rates >= 1.9), (remainders, rates)


def test_gradient_is_that_of_finite_differences_in_every_control(functional, theta):
    gradient = VALUE_AND_GRAD(functional, theta)[1]
    first = 0
    for control in functional.controls.items:
        direction = np.zeros(theta.size)
        direction[first : first + control.size] = np.random.default_rng(0).normal(size=control.size)
        direction /= np.linalg.norm(direction)
        first += control.size
        expected = central_difference(functional, theta, direction, 1e-4)
        assert abs(float(gradient @ direction) / expected - 1) <= 1e-6, control.path


@pytest.mark.parametrize("name", ["nodes", "velocities"])
def test_gradient_is_right_in_every_node_state_of_every_segment(name):
    functional = MAKERS[name]()
    theta = moved(functional)
    gradient = VALUE_AND_GRAD(functional, theta)[1]
    segments = functional.layout.segments
    assert segments == 4 and all(c.shape[0] == segments for c in functional.controls.nodes)
    first = 3
    for control in functional.controls.nodes:
        for s in range(segments):
            direction = np.zeros((segments, *control.shape[1:]))
            direction[s] = np.random.default_rng(s).normal(size=control.shape[1:])
            v = np.zeros(theta.size)
            v[first : first + control.size] = direction.ravel() / np.linalg.norm(direction)
            expected = central_difference(functional, theta, v, 1e-4)
            assert abs(float(gradient @ v) / expected - 1) <= 1e-6, (control.path, s)
        first += control.size


def test_tangent_and_adjoint_agree(functional, theta):
    v = np.random.default_rng(7).normal(size=theta.shape)
    value, gradient = map(np.asarray, VALUE_AND_GRAD(functional, theta))
    forward_value, slope = eqx.filter_jit(pdefit.Functional.jvp)(functional, theta, v)
    np.testing.assert_allclose(forward_value, value, rtol=1e-14)
    np.testing.assert_allclose(slope, gradient @ v, rtol=1e-9)


def test_normal_equations_are_those_of_the_residuals(functional, theta):
    value, gradient = VALUE_AND_GRAD(functional, theta)
    v = np.random.default_rng(2).normal(size=theta.size)
    (half_square, product, matrix), found, jac, push = linearised(functional, theta, jnp.asarray(v))
    np.testing.assert_allclose(half_square, value, rtol=1e-13)
    np.testing.assert_allclose(product, gradient, rtol=1e-8, atol=1e-12 * float(jnp.max(jnp.abs(gradient))))
    np.testing.assert_allclose(found, jac, rtol=1e-9, atol=1e-13 * float(jnp.max(jnp.abs(jac))))
    np.testing.assert_allclose(v @ matrix @ v, push @ push, rtol=1e-9)


@pytest.mark.parametrize(("name", "levels"), [("front", (1, 2, 3, 4)), ("irregular", (3,)), ("nodes", (2,))])
def test_checkpointed_gradient_is_the_stored_one(name, levels):
    values = []
    for adjoint in (pdefit.adjoints.StoreAll(), *map(pdefit.adjoints.Checkpointed, levels)):
        functional = MAKERS[name](adjoint=adjoint)
        values.append(VALUE_AND_GRAD(functional, functional.theta0 + 1e-3))
    for value, gradient in values[1:]:
        np.testing.assert_allclose(values[0][0], value, rtol=1e-14)
        np.testing.assert_allclose(values[0][1], gradient, rtol=1e-11)
        # so memory may decide about levels, also of a run that is resumed
        assert np.array_equal(gradient, values[1][1])


def test_every_state_is_kept_where_memory_allows(monkeypatch):
    one, two = fisher_functional(), fisher_functional(formulation=pdefit.formulations.Segments(1.0))
    steps, size = one.time_grid.steps, one.problem.y0.u.nbytes

    def stored(functional):
        return functional.runner.adjoint.account(functional.time_grid, 2).stored

    assert stored(one) >= steps > 2 * stored(fisher_functional(adjoint=pdefit.adjoints.Checkpointed(2)))
    # several trajectories have no buffers that outlive a call
    assert pdefit.Recordings([one, one]).runner.adjoint == pdefit.adjoints.Checkpointed()
    monkeypatch.setattr(base, "RETURNED", steps * size - 1)
    assert stored(fisher_functional(formulation=pdefit.formulations.Segments(1.0))) < stored(two)
    monkeypatch.setattr(base, "MOST_KEPT", steps * size - 1)
    assert stored(fisher_functional()) < steps / 2


def test_checkpointing_keeps_fewer_states():
    """The compiled gradient of a long trajectory needs less memory."""
    peak = {}
    for adjoint in (pdefit.adjoints.StoreAll(), pdefit.adjoints.Checkpointed(2)):
        functional = fisher_functional(count=33, dt=0.005, adjoint=adjoint)
        compiled = jax.jit(lambda t, f=functional: f.value_and_grad(t)).lower(functional.theta0).compile()
        peak[type(adjoint).__name__] = compiled.memory_analysis().temp_size_in_bytes
    assert peak["Checkpointed"] < peak["StoreAll"] / 5
