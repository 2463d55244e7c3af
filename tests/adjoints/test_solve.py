"""`pdefit.solve`: states at given times as a function that JAX differentiates."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher, stable
from small_systems import Decay, Driven, State

import pdefit

TS, Y0 = np.array([0.5, 1.0, 2.0]), State(jnp.array([1.0, 2.0, 3.0]))
FINE = {"t0": 0.0, "dt": 0.02}


def exact(k):
    """The derivative of the sum of all states by k."""
    return -6.0 * np.sum(TS * np.exp(-k * TS))


def total(k, **method):
    return jnp.sum(pdefit.solve(Decay(k=k), Y0, TS, **{"t0": 0.0} | method).u)


@pytest.mark.parametrize(
    ("adjoint", "rtol"),
    [
        (None, 1e-8),
        (pdefit.adjoints.Checkpointed(3), 1e-8),
        (pdefit.adjoints.StoreAll(), 1e-8),
        (pdefit.adjoints.Interpolating(), 1e-7),
        (pdefit.adjoints.Backsolve(), 1e-7),
    ],
)
def test_its_gradient_is_that_of_the_exact_solution(adjoint, rtol):
    slope = jax.grad(lambda k: total(k, adjoint=adjoint, dt=0.02))(jnp.asarray(0.7))
    np.testing.assert_allclose(slope, exact(0.7), rtol=rtol)


@pytest.mark.parametrize("run", [pdefit.solve, pdefit.simulate])
def test_a_constant_step_beside_adaptive_steps_is_refused(run):
    with pytest.raises(pdefit.PdefitError, match="dt = 0.1 and adaptive steps exclude each other; set dt=null"):
        run(Decay(k=jnp.asarray(0.7)), Y0, TS, dt=0.1, steps=pdefit.Adaptive())


def test_it_goes_through_every_transformation():
    def states(k, y0):
        return pdefit.solve(Decay(k=k), y0, TS, **FINE)

    point, k = (jnp.asarray(0.7), Y0), jnp.array([0.7, 0.3])
    v, w = (jnp.asarray(0.4), State(jnp.array([1.0, -1.0, 2.0]))), jnp.arange(9.0).reshape(3, 3)
    moved = jax.jvp(states, point, v)[1].u
    pulled = jax.vjp(states, *point)[1](State(w))
    dot = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(pulled), jax.tree.leaves(v), strict=True))
    np.testing.assert_allclose(jnp.vdot(moved, w), dot, rtol=1e-13)
    # d/dk and d/du of u exp(-k t)
    decay = np.exp(-0.7 * TS)[:, None]
    np.testing.assert_allclose(moved, (np.asarray(v[1].u) - 0.4 * TS[:, None] * np.asarray(Y0.u)) * decay, rtol=1e-7)
    both = jax.jit(jax.vmap(states, in_axes=(0, None)))(k, Y0).u
    np.testing.assert_allclose(both, [states(x, Y0).u for x in k], rtol=1e-14)
    assert both.shape == (2, 3, 3)


def test_steps_are_chosen_by_the_values_below_a_gradient():
    system, ts = fisher(), np.array([0.0, 1.0])
    y0 = system.init(None)

    def last(D, **method):
        return jnp.sum(pdefit.solve(eqx.tree_at(lambda s: s.D, system, D), y0, ts, **method).u[-1] ** 2)

    # as simulate has them
    np.testing.assert_array_equal(
        pdefit.solve(system, y0, ts, adjoint=pdefit.adjoints.StoreAll()).u, pdefit.simulate(system, y0, ts).values["u"]
    )
    slope = jax.grad(last)(system.D)
    dt = 0.8 * stable(system)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(lambda D: last(D, dt=dt)))(system.D), rtol=1e-12)
    np.testing.assert_allclose(slope, (last(system.D + 1e-3, dt=dt) - last(system.D - 1e-3, dt=dt)) / 2e-3, rtol=1e-5)
    for run in (last, jax.grad(last), pdefit.simulate):
        with pytest.raises(pdefit.PdefitError, match="dt = 1 .*is beyond the stability limit"):
            run(*((system, y0, ts) if run is pdefit.simulate else (system.D,)), dt=1.0)
    # the same values inside a trace that has others
    np.testing.assert_allclose(jax.jit(lambda x: x * last(system.D))(jnp.ones(())), last(system.D), rtol=1e-13)
    # nothing to compare with
    blown = jax.jit(lambda y0: pdefit.solve(system, y0, [0.0, 20.0], dt=1.0).u[-1])(y0)
    assert not np.all(np.isfinite(blown))
    with pytest.raises(pdefit.PdefitError, match="is traced .* call pdefit.solve with constant steps"):
        jax.jit(last)(system.D)


def test_adaptive_steps_are_chosen_by_the_values_or_refused():
    method = {"solver": diffrax.Dopri8(), "steps": pdefit.Adaptive(1e-9, 1e-9)}
    slope = jax.grad(lambda k: total(k, **method))(jnp.asarray(0.7))
    np.testing.assert_allclose(slope, exact(0.7), rtol=1e-8)

    def driven(strength):
        return pdefit.solve(Driven(k=1.0), Y0, TS, t0=0.0, args=strength, **method).u

    for run, x in ((lambda k: total(k, **method), 0.7), (driven, 1.0)):
        for transformed in (jax.jit(run), jax.vmap(run)):
            with pytest.raises(pdefit.PdefitError, match="chosen by values, but .* is traced"):
                transformed(jnp.full(2, x) if transformed is not run else x)


def test_a_long_run_keeps_its_checkpoints_and_not_all_states():
    system = fisher()
    y0 = system.init(None)

    def kept(adjoint):
        """Numbers that wait for the reverse pass."""
        back = jax.vjp(lambda y: pdefit.solve(system, y, [0.0, 1.0], dt=1e-3, adjoint=adjoint), y0)[1]
        return sum(x.size for x in jax.tree.leaves(back))

    states = 1000 * y0.u.size
    assert kept(pdefit.adjoints.StoreAll()) > states
    assert kept(None) < 0.06 * states


@pytest.mark.parametrize("run", [jax.jit, jax.grad])
def test_traced_times_are_refused(run):
    def end(t):
        return pdefit.solve(Decay(k=0.7), Y0, jnp.stack([jnp.zeros(()), t]), dt=0.1).u[-1, 0]

    with pytest.raises(pdefit.PdefitError, match="expects increasing times .* does not trace"):
        run(end)(1.0)


def test_no_times_are_refused():
    with pytest.raises(pdefit.PdefitError, match=r"expects increasing times ts \(I,\).*shape \(0,\)"):
        pdefit.solve(Decay(k=0.7), Y0, [])
