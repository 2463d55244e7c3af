"""Steady states that follow the parameters of their system."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import Level, State

import pdefit


class Pair(NamedTuple):
    a: jax.Array
    b: jax.Array


class Exchange(pdefit.AbstractSystem):
    """a' = -k1 a + k2 b, b' = -a': at rest a = T k2 / (k1 + k2) with the total T."""

    time_unit: ClassVar[str] = "s"
    k1: jax.Array = pdefit.parameter(positive=True)
    k2: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        flow = self.k1 * y.a - self.k2 * y.b
        return Pair(-flow, flow)

    def init(self, key):
        return Pair(jnp.asarray(3.0), jnp.asarray(1.0))


class Fields(NamedTuple):
    u: jax.Array = pdefit.field(doc="voltage")
    gate: jax.Array = pdefit.field(doc="gate")


class Tissue(pdefit.AbstractFieldSystem):
    """u' = D lap u - u gate, gate' = rate (1 / (1 + gate^2) - u gate)."""

    time_unit: ClassVar[str] = "s"
    D: jax.Array = pdefit.parameter(default=0.1)
    rate: jax.Array = pdefit.parameter(default=1e3)
    p: jax.Array = pdefit.parameter(default=1.0)
    grid: pdefit.CartesianGrid = pdefit.CartesianGrid((4,), (1.0,))

    def vector_field(self, t, y, args):
        moved = self.rate * (self.p / (1 + y.gate**2) - y.u * y.gate)
        return Fields(self.D * pdefit.laplacian(self.grid, y.u) - y.u * y.gate, moved)

    def init(self, key):
        return Fields(jnp.ones(4), jnp.full(4, 5.0))


class Runaway(Exchange):
    def vector_field(self, t, y, args):
        return Pair(1 + y.a**2, jnp.zeros(()))


def test_a_network_comes_to_rest_with_its_total_and_follows_its_rates():
    system = Exchange(k1=2.0, k2=0.5)
    at_rest = pdefit.Steady().checked(system, system.init(None))
    np.testing.assert_allclose([at_rest.a, at_rest.b], [0.8, 3.2], rtol=1e-12)

    # from where it stands still already, as at the point of an evaluation
    def amount(k1):
        return pdefit.Steady().state(dataclasses.replace(system, k1=k1), at_rest).a

    np.testing.assert_allclose(jax.grad(amount)(jnp.asarray(2.0)), -4 * 0.5 / 2.5**2, rtol=1e-7)


def test_gates_follow_an_unknown_field_and_the_parameters():
    """The root of gate (1 + gate^2) u = p in every cell, and its derivatives."""
    u = jnp.asarray([0.5, 1.0, 2.0, 4.0])
    rule, y = pdefit.Steady(hold={"u": None}), Fields(u, jnp.full(4, 5.0))

    def gates(u, p):
        return rule.state(Tissue(p=p), Fields(u, y.gate)).gate

    found = gates(u, jnp.asarray(1.3))
    np.testing.assert_allclose(found * (1 + found**2) * u, 1.3, rtol=1e-12)
    du, dp = jax.jacfwd(gates, (0, 1))(u, jnp.asarray(1.3))
    slope = u * (1 + 3 * found**2)
    np.testing.assert_allclose(dp, 1 / slope, rtol=1e-10)
    np.testing.assert_allclose(du, np.diag(-found * (1 + found**2) / slope), rtol=1e-10, atol=1e-12)


def problem_of(hold):
    return pdefit.Problem(Tissue(), Fields(jnp.ones(4), jnp.ones(4)), initial=pdefit.Steady(hold=hold))


def test_a_fit_sees_the_start_move_with_its_parameters():
    """The rate is so high that the gate would come to rest anyway: the start tells p before the first step."""
    truth = Tissue(p=1.6)
    y0 = pdefit.Steady(hold={"u": 0.7}).checked(truth, truth.init(None))
    data = pdefit.simulate(truth, y0, np.linspace(0.0, 2e-3, 3), dt=1e-4)
    controls = {"p": pdefit.Control(pdefit.transforms.Log(), guess=pdefit.guesses.Value(1.0))}
    functional = pdefit.Functional(problem_of({"u": 0.7}), data, controls, dt=1e-4)
    assert pdefit.certify(functional, functional.theta0).passed
    result = pdefit.fit(functional, [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt())])
    np.testing.assert_allclose(result.problem.system.p, 1.6, rtol=1e-8)
    np.testing.assert_allclose(result.problem.y0.gate, y0.gate, rtol=1e-8)


class Cloud(pdefit.AbstractSystem):
    """u' = -k u from random numbers of an unknown size."""

    time_unit: ClassVar[str] = "s"
    size: jax.Array = pdefit.parameter(positive=True)
    k: jax.Array = pdefit.parameter(positive=True, default=1.0)

    def vector_field(self, t, y, args):
        return Fields(-self.k * y.u, -self.k * y.gate)

    def init(self, key):
        return Fields(self.size * jax.random.normal(key, (4,)), jnp.ones(4))


def test_the_state_of_init_follows_its_numbers_and_keeps_its_key():
    key = jax.random.key(7)
    given, drawn = Fields(jnp.zeros(4), jnp.full(4, 5.0)), jax.random.normal(key, (4,))
    rule = pdefit.OwnInitial(key, hold=["gate"])
    found, slope = jax.jvp(lambda size: rule.state(Cloud(size=size), given), (jnp.asarray(3.0),), (jnp.ones(()),))
    np.testing.assert_array_equal(found, [3.0 * drawn, given.gate])
    np.testing.assert_array_equal(slope, [drawn, jnp.zeros(4)])
    # a state of single precision stays one
    single = Fields(*(x.astype("float32") for x in given))
    assert {x.dtype.name for x in rule.state(Cloud(size=3.0), single)} == {"float32"}
    with pytest.raises(pdefit.PdefitError, match="expects a y0 with the fields u, gate of init; got a, b"):
        rule.state(Cloud(size=3.0), Pair(given.u, given.u))


def test_a_state_of_init_obeys_the_constraint():
    class Start(Level):
        def init(self, key):
            return State(self.k * jnp.array([1.0, 2.0, 6.0]))

    found = pdefit.OwnInitial().state(Start(k=2.0), State(jnp.zeros(3)))
    np.testing.assert_allclose(found.u, [-4.0, -2.0, 6.0])


def test_the_size_of_a_start_is_fitted_after_windows():
    truth, key = Cloud(size=2.0, k=0.5), jax.random.key(3)
    data = pdefit.simulate(truth, truth.init(key), np.linspace(0.0, 2.0, 5), dt=0.25).with_nothing_at(-0.5)
    problem = pdefit.Problem(Cloud(size=1.0), Fields(jnp.zeros(4), jnp.ones(4)), initial=pdefit.OwnInitial(key))
    controls = {"size": pdefit.transforms.Log(), "k": pdefit.transforms.Log()}
    functional = pdefit.Functional(problem, data, controls, dt=0.25)
    lm = pdefit.optimizers.LevenbergMarquardt()
    stages = [
        pdefit.Stage(lm, 5, pdefit.formulations.Segments(1.0)),
        pdefit.Stage(lm, formulation=functional.formulation),
    ]
    found = pdefit.fit(functional, stages).problem
    # the gate is 1 at the start, half a second before the record
    np.testing.assert_allclose(found.y0.u, found.system.size * jax.random.normal(key, (4,)))
    effects = {e.parameter: e.larger for e in pdefit.sensitivity(found, data.ts, factor=2.0, dt=0.25).effects}
    assert effects["size"] > 0.1


def test_an_unknown_field_that_the_parameters_make_is_refused():
    data = pdefit.simulate(Tissue(), Tissue().init(None), np.linspace(0.0, 1e-3, 2), dt=1e-4)

    with pytest.raises(pdefit.PdefitError, match=r"'y0.gate' is unknown, but initial makes it.*gate: null"):
        pdefit.Functional(
            problem_of({"u": 0.7}), data, {"y0": {"gate": pdefit.Control(pdefit.transforms.Identity())}}, dt=1e-4
        )


@pytest.mark.parametrize(
    "system, hold, message",
    [
        (Exchange(1.0, 1.0), {"c": 1.0}, r"fields of the state \(a, b\), but got c"),
        (Exchange(1.0, 1.0), {"a": 1.0, "b": None}, "holds all fields"),
        (Runaway(1.0, 1.0), {}, "Runaway was not brought to a steady state"),
    ],
)
def test_what_has_no_steady_state_is_refused(system, hold, message):
    with pytest.raises(pdefit.PdefitError, match=message):
        pdefit.Steady(hold).checked(system, system.init(None))
