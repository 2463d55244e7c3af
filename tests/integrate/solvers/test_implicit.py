"""Implicit steps on stiff kinetics: right where explicit ones are hopeless, with the gradient of the discrete trajectory."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from apoptosis import RATES, apoptosis
from pdefit_reaction import FisherKPP
from small_systems import Decay, State

import pdefit
from pdefit._util.trees import cast
from pdefit.integrate.adaptive.controller import adaptive_grid
from pdefit.integrate.solvers.method import method_of

DAYS = 1440.0
STIFF = [diffrax.Kvaerno3(), diffrax.Kvaerno5(), diffrax.ImplicitEuler()]


def name(solver):
    return type(solver).__name__


def dying(ts, **options):
    """All rate constants of a cell that dies, from its active caspases."""
    system = apoptosis()
    options = {"solver": diffrax.Kvaerno5(), "steps": pdefit.Adaptive(1e-7, 1e-4), **options}
    observe = pdefit.instruments.Select(("C8a", "C3a"))
    forward = {k: v for k, v in options.items() if k in ("solver", "dt", "steps")}
    data = pdefit.add_noise(
        pdefit.simulate(system, system.init(None), ts, observe=observe, **forward), 0.02, jax.random.key(0)
    )
    return pdefit.Functional(
        pdefit.Problem(system, system.init(None), observe), data, {k: pdefit.transforms.Log() for k in RATES}, **options
    )


TS = np.linspace(0.0, 800.0, 17)


def test_a_cell_dies_in_hundreds_of_implicit_steps_and_more_than_100000_explicit_ones():
    system, ts = apoptosis(), np.linspace(0.0, 10 * DAYS, 11)
    y0, steps = system.init(None), pdefit.Adaptive(1e-6, 1e-3)
    implicit, explicit = (
        adaptive_grid(system, y0, ts, solver=s, steps=steps, t0=0.0).steps
        for s in (diffrax.Kvaerno5(), diffrax.Tsit5())
    )
    assert implicit < 500 and explicit > 100_000, (implicit, explicit)
    alive, dead = (
        pdefit.simulate(apoptosis(), y, ts, solver=diffrax.Kvaerno5(), steps=steps).values["C3a"][-1]
        for y in (y0._replace(C8a=jnp.asarray(30.0)), y0)
    )
    assert float(alive) < 1 and float(dead) > 5000


def test_the_gradient_in_every_rate_is_that_of_central_differences():
    """With frozen steps; constant ones are verified with every system that takes them."""
    functional = dying(TS[:9])
    # away from the minimum, where the gradient would be noise
    theta = functional.theta0 + 0.02 * jax.random.normal(jax.random.key(1), functional.theta0.shape)
    # frozen steps, chosen there
    functional = functional.renewed(theta)
    value, gradient = eqx.filter_jit(lambda f, t: f.value_and_grad(t))(functional, theta)
    assert np.isfinite(value)
    units = np.eye(theta.size)
    slopes = eqx.filter_jit(lambda f, t, vs: jax.vmap(lambda v: f.jvp(t, v)[1])(vs))(functional, theta, units)
    gradient = np.asarray(gradient)
    np.testing.assert_allclose(slopes, gradient, rtol=1e-9, atol=1e-11 * float(value))
    # fourth order, by the best of some steps: rates are known to very different accuracy
    sizes, shifts = np.array([1e-3, 2e-4]), np.array([2, 1, -1, -2])
    moved = (sizes[:, None] * shifts)[:, :, None, None] * units
    values = eqx.filter_jit(lambda f, ts: jax.vmap(f.value)(ts))(
        functional, np.asarray(theta) + moved.reshape(-1, theta.size)
    )
    found = np.einsum("eki,k->ei", np.reshape(values, moved.shape[:3]), [-1, 8, -8, 1]) / (12 * sizes[:, None])
    gaps = np.abs(found - gradient)
    allowed = 1e-6 * np.maximum(np.abs(gradient), 1e-3 * np.linalg.norm(gradient))
    assert np.all(np.min(gaps, axis=0) <= allowed), (gaps, gradient)


def test_a_fit_of_two_rates_returns_them():
    truth, ts = apoptosis(), TS[:5]
    solver, steps = diffrax.Kvaerno5(), pdefit.Adaptive(1e-7, 1e-4)
    data = pdefit.simulate(truth, truth.init(None), ts, solver=solver, steps=steps)
    data = pdefit.add_noise(data, 0.0, jax.random.key(0))
    problem = pdefit.Problem(apoptosis(k1=7e-5, km8=420.0), truth.init(None))
    controls = {"k1": pdefit.transforms.Log(), "km8": pdefit.transforms.Log()}
    J = pdefit.Functional(problem, data, controls, solver=solver, steps=steps)
    found = pdefit.fit(J, [pdefit.optimizers.LevenbergMarquardt()]).problem.system
    np.testing.assert_allclose([found.k1, found.km8], [RATES["k1"], RATES["km8"]], rtol=1e-4)


@pytest.mark.parametrize("solver", STIFF, ids=name)
def test_steps_are_those_of_diffrax(solver):
    """At a root finder's tolerance that leaves nothing to tell them apart."""
    system, y0 = Decay(k=1.5), State(jnp.array([1.0, 2.0, 3.0]))
    term = diffrax.ODETerm(lambda t, y, args: system.vector_field(t, y, args))
    theirs = diffrax.diffeqsolve(
        term,
        eqx.tree_at(lambda s: s.root_finder, solver, diffrax.VeryChord(rtol=1e-10, atol=1e-10)),
        0.0,
        1.0,
        0.1,
        y0,
    ).ys.u
    ours = pdefit.solve(system, y0, np.array([1.0]), solver=solver, dt=0.1, t0=0.0)
    np.testing.assert_allclose(ours.u, theirs, rtol=1e-9)


def test_the_implicit_half_of_a_pair_is_a_method_of_its_own():
    """KenCarp4 on a system that is not split: fourth order."""
    system = Decay(k=1.5)
    found = [
        pdefit.solve(system, system.init(None), np.array([1.0]), solver=diffrax.KenCarp4(), dt=1 / n, t0=0.0).u[-1, 0]
        for n in (8, 16, 32)
    ]
    errors = np.abs(np.asarray(found) - np.exp(-1.5))
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 4.0, atol=0.2)


class Cliff(pdefit.AbstractSystem):
    """u' = -k sqrt(u), undefined below zero."""

    time_unit = "s"
    k: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return State(-self.k * jnp.sqrt(y.u))

    def init(self, key):
        return State(jnp.ones(1))


def test_a_stage_that_fails_is_no_exception():
    """One long step leads below zero: its state is NaN, its error is not finite, its gradient raises nothing."""
    system, method = Cliff(k=1.0), method_of(diffrax.Kvaerno5())
    args = (jnp.zeros(()), jnp.asarray(50.0), State(jnp.ones(1)), None)
    after, error = eqx.filter_jit(lambda system, *args: method.step_with_error(system, *args))(system, *args)
    assert not np.isfinite(after.u).any() and not np.isfinite(error.u).any()
    slope = jax.jit(jax.grad(lambda k: jnp.sum(method.one_step(Cliff(k=k), *args).u)))(jnp.asarray(1.0))
    assert not np.isfinite(slope)
    # an adaptive pass rejects it and goes on with shorter steps
    steps = pdefit.Adaptive(1e-6, 1e-9)
    seen = pdefit.simulate(system, system.init(None), np.array([0.0, 1.9]), solver=diffrax.Kvaerno5(), steps=steps)
    np.testing.assert_allclose(seen.values["u"][-1], (1 - 1.9 / 2) ** 2, rtol=1e-4)


def test_many_cells_at_once_and_single_precision():
    """Under vmap every cell has its own iteration; in float32 it ends at what that resolves."""
    method, h = method_of(diffrax.Kvaerno5()), jnp.asarray(2.0)
    y0 = apoptosis().init(None)
    k1 = jnp.asarray([5.8e-6, 5.8e-5, 5.8e-4])

    def step(k1, y):
        return method.one_step(apoptosis(k1=k1), jnp.zeros_like(h), h, y, None)

    together = jax.tree.map(np.asarray, jax.jit(jax.vmap(step, in_axes=(0, None)))(k1, y0))
    alone = jax.jit(step)
    for i in range(3):
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-9), together, alone(k1[i], y0))
    system, low = cast((apoptosis(), y0), jnp.float32)
    one_step = eqx.filter_jit(lambda *args: method.one_step(*args))
    found = one_step(system, jnp.zeros((), jnp.float32), h.astype(jnp.float32), low, None)
    assert all(x.dtype == jnp.float32 for x in found)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b[1], rtol=1e-3, atol=1.0), found, together)


class Fed(pdefit.AbstractSystem):
    """A' = -A feeds b' = c A / unit - 2 b^2, with A counted in a unit of its own."""

    time_unit = "s"
    c: jax.Array = pdefit.parameter()
    unit: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        a, b = y["a"], y["b"]
        return {"a": -a, "b": self.c * a / self.unit - 2 * b**2}

    def init(self, key):
        return {"a": 1.0 * self.unit, "b": jnp.asarray(0.01)}


def test_every_unknown_is_solved_to_its_own_round_off():
    """A species of 10^13 molecules beside one of a hundredth: units change neither value nor tangent nor difference."""
    method, h = method_of(diffrax.Kvaerno3()), jnp.asarray(0.125)

    @jax.jit
    def after(c, unit):
        system = Fed(c=c, unit=unit)
        return method.one_step(system, jnp.zeros(()), h, system.init(None), None)["b"]

    value, tangent = jax.jit(lambda unit: jax.jvp(lambda c: after(c, unit), (0.5,), (1.0,)))(2.0**43)
    np.testing.assert_allclose(value, after(0.5, 1.0), rtol=1e-14)
    np.testing.assert_allclose((after(0.501, 2.0**43) - after(0.499, 2.0**43)) / 0.002, tangent, rtol=1e-8)


class Pairing(pdefit.AbstractSystem):
    """u' = s - u^2: atoms that are fed pair up."""

    time_unit = "s"
    s: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return State(self.s - y.u**2)

    def init(self, key):
        return State(jnp.asarray([0.8, 1.15]))


@pytest.mark.parametrize("solver", STIFF, ids=name)
def test_a_stiff_unknown_beside_its_balance_is_found(solver):
    """Its explicit step overshoots to a negative number; each stage is a quadratic equation with one positive root."""
    method, h, s = method_of(solver), 10.0, 1.0
    y0 = Pairing(s=s).init(None)
    found, slope = jax.jit(
        lambda s: jax.jvp(
            lambda s: method.one_step(Pairing(s=s), jnp.zeros(()), jnp.asarray(h), y0, None).u, (s,), (1.0,)
        )
    )(s)

    def exact(s):
        z = np.zeros((method.b.size, 2), complex)
        for i, row in enumerate(method.a):
            base, d = y0.u + row @ z, h * row[i]
            z[i] = h * (s - (base if d == 0 else (np.sqrt(1 + 4 * d * (base + d * s)) - 1) / (2 * d)) ** 2)
        return y0.u + method.b @ z

    np.testing.assert_allclose(found, exact(s).real, rtol=1e-12)
    np.testing.assert_allclose(slope, exact(s + 1e-30j).imag / 1e-30, rtol=1e-8)


def test_a_field_is_refused_with_a_remedy():
    grid = pdefit.CartesianGrid(shape=(50, 50), extent=(10.0, 10.0))
    system = FisherKPP(grid, D=1.0, r=1.0)
    with pytest.raises(pdefit.PdefitError, match=r"2500 unknowns of FisherKPP.*use solver=rkc"):
        pdefit.simulate(system, system.init(None), [0.0, 1.0], solver=diffrax.Kvaerno5(), dt=0.1)
