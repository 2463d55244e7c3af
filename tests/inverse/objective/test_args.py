"""Exogenous inputs: the exact solution of a driven decay, and what can be found of its driving force."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, central_difference
from small_systems import Driven, State

import pdefit

TS = np.linspace(0.0, 4.0, 17)
GRADIENT = eqx.filter_jit(lambda functional, theta: functional.value_and_grad(theta)[1])
OPTIMIZERS = [pdefit.optimizers.LevenbergMarquardt(), pdefit.optimizers.LBFGS(), pdefit.optimizers.GaussNewtonCG()]


class Force(eqx.Module):
    """strength cos(rate t)."""

    strength: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, float))
    rate: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, float), default=2.0)

    def __call__(self, t):
        return self.strength * jnp.cos(self.rate * t)


def exact(k, strength, t, rate=2.0):
    t, size = np.asarray(t)[:, None], strength / (k**2 + rate**2)
    forced = size * (k * np.cos(rate * t) + rate * np.sin(rate * t))
    return forced + (np.array([1.0, 2.0]) - size * k) * np.exp(-k * t)


def functional(controls, k=1.0, strength=1.5, adaptive=False, **options):
    """Data of the exact solution with k = 1 and strength 1.5."""
    data = pdefit.Observations.build(TS, {"u": exact(1.0, 1.5, TS)}, 0.01)
    system = Driven(k=k)
    problem = pdefit.Problem(system, system.init(None), args=Force(strength))
    if adaptive:
        options |= {"solver": diffrax.Tsit5(), "steps": pdefit.Adaptive(1e-8, 1e-10)}
    else:
        options |= {"dt": 0.02}
    return pdefit.Functional(problem, data, controls, **options)


@pytest.mark.parametrize(
    "numerics",
    [{"dt": 0.01}, {"solver": diffrax.Tsit5(), "steps": pdefit.Adaptive(1e-9, 1e-11)}],
    ids=["constant", "adaptive"],
)
def test_forward_runs_follow_the_exact_solution(numerics):
    system, force = Driven(k=0.7), Force(3.0)
    expected = exact(0.7, 3.0, TS)
    seen = pdefit.simulate(system, system.init(None), TS, args=force, **numerics)
    np.testing.assert_allclose(seen.values["u"], expected, atol=1e-7)
    # an observation is where the second half begins
    late = pdefit.solve(system, State(jnp.asarray(expected[8])), TS[8:], t0=TS[8], args=force, **numerics)
    np.testing.assert_allclose(late.u, expected[8:], atol=1e-7)


@pytest.mark.parametrize(
    ("optimizer", "adaptive"),
    [*((o, False) for o in OPTIMIZERS), (OPTIMIZERS[0], True)],
    ids=lambda x: type(x).__name__,
)
def test_strength_and_decay_are_found(optimizer, adaptive):
    problem = functional(
        {"k": pdefit.transforms.Log(), "args": {"strength": pdefit.transforms.Log()}}, 0.6, 0.8, adaptive
    )
    assert problem.controls.names() == ["k", "args.strength"]
    found = pdefit.fit(problem, [pdefit.Stage(optimizer, 100)])
    np.testing.assert_allclose([found.problem.system.k, found.problem.args.strength], [1.0, 1.5], rtol=1e-5)
    # what is no control stays
    assert float(found.problem.args.rate) == 2.0


def test_the_driven_gradient_is_that_of_differences():
    problem = functional(
        {"k": pdefit.transforms.Log(), "args": {"strength": pdefit.transforms.Log(), "rate": pdefit.transforms.Log()}},
        0.9,
        1.4,
    )
    gradient = GRADIENT(problem, problem.theta0)
    for unit, slope in zip(np.eye(3), gradient, strict=True):
        assert abs(central_difference(problem, problem.theta0, unit, 1e-4) / float(slope) - 1) < 1e-7


@pytest.mark.parametrize(
    "adjoint", [pdefit.adjoints.Backsolve(), pdefit.adjoints.Interpolating(), pdefit.adjoints.StoreAll()]
)
def test_every_adjoint_has_the_gradient_of_the_force(adjoint):
    controls = {"args": {"strength": pdefit.transforms.Log(), "rate": pdefit.transforms.Log()}}
    gradients = [
        GRADIENT(functional(controls, 0.9, 1.4, **options), jnp.log(jnp.array([1.4, 2.1])))
        for options in ({}, {"adjoint": adjoint})
    ]
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5)


def test_segments_are_driven_at_their_own_times():
    problem = functional(
        {"k": pdefit.transforms.Log(), "args": {"rate": pdefit.transforms.Log()}},
        formulation=pdefit.formulations.Segments(1.0),
    )
    assert problem.layout.segments == 4
    # at the truth nothing is left but the error of the steps
    assert float(VALUE(problem, problem.theta0)) < 1e-6
    late = eqx.tree_at(lambda f: f.problem.args.rate, problem, jnp.asarray(2.4))
    assert float(VALUE(late, late.theta0)) > 1


def test_intervals_see_inputs_and_a_twin_is_driven():
    controls = {"k": pdefit.transforms.Log(), "args": {"strength": pdefit.transforms.Log()}}
    system = Driven(k=1.0)
    twin = pdefit.Twin(system, pdefit.solvers.RK4(), 0.01, noise=0.01)
    record, states = twin.record(system.init(None), TS, pdefit.instruments.ObserveAll(), Force(1.5))
    np.testing.assert_allclose(states.u, exact(1.0, 1.5, TS), atol=1e-7)
    problem = pdefit.Functional(
        pdefit.Problem(Driven(k=0.8), system.init(None), args=Force(1.0)), record, controls, dt=0.02
    )
    found = pdefit.fit(problem, [pdefit.optimizers.LevenbergMarquardt()])
    intervals = pdefit.intervals(problem, found.theta)
    assert np.all(np.abs(intervals.z_score(np.asarray(found.theta), np.log([1.0, 1.5]))) < 4)
    assert np.all(intervals.error < 0.05)


@pytest.mark.parametrize(
    ("controls", "words"),
    [
        ({"args": {"strenght": pdefit.transforms.Log()}}, "did you mean strength"),
        ({"args": pdefit.transforms.Log()}, "'args' is not an array; name one of its leaves: strength, rate"),
    ],
)
def test_a_wrong_name_in_the_inputs(controls, words):
    with pytest.raises(pdefit.PdefitError) as error:
        functional(controls)
    assert words in str(error.value)


def test_inputs_that_are_not_there_are_no_control():
    system = Driven(k=1.0)
    data = pdefit.Observations.build(TS, {"u": exact(1.0, 1.5, TS)}, 0.01)
    with pytest.raises(pdefit.PdefitError, match="'args'"):
        pdefit.Functional(
            pdefit.Problem(system, system.init(None)), data, {"args": {"strength": pdefit.transforms.Log()}}, dt=0.02
        )
