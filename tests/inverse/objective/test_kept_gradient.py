"""Gradients whose checkpoints lie in memory that outlives a call."""

import gc
from concurrent.futures import ThreadPoolExecutor

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher_functional, planets_functional
from resumed import resumed_alike, run

import pdefit
from pdefit._util.memory import compile_ahead
from pdefit.inverse.fit import traced
from pdefit.inverse.objective import kept_gradient
from pdefit.inverse.objective.kept_gradient import KeptGradient, keeps

FIELD = {"D": pdefit.transforms.Log(), "y0": {"u": pdefit.Control()}}
ONE = pdefit.adjoints.Checkpointed(1)


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(kept_gradient, "RETURNED", 0)


@pytest.fixture(scope="module")
def J():
    return fisher_functional(dt=0.01, solver=diffrax.Euler(), adjoint=ONE)


@pytest.fixture(scope="module")
def program():
    return KeptGradient()


def alike(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(("levels", "solver"), [(1, diffrax.Euler()), (2, diffrax.Bosh3()), (4, diffrax.Euler())])
def test_what_the_memory_held_before_does_not_matter(levels, solver):
    program = KeptGradient()
    J = fisher_functional(FIELD, dt=0.01, solver=solver, adjoint=pdefit.adjoints.Checkpointed(levels))
    thetas = J.theta0, J.theta0 + 0.01
    expected = [program._once(J, theta) for theta in thetas]
    for theta, right in zip(thetas, expected, strict=True):
        assert alike(program(J, theta), right)
    program.held[id(J)] = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), program.held[id(J)])
    assert alike(program(J, J.theta0), expected[0])


def test_states_are_written_where_they_were(J, program):
    program(J, J.theta0)
    where = [x.unsafe_buffer_pointer() for x in jax.tree.leaves(program.held[id(J)])]
    program(J, J.theta0)
    buffers = jax.tree.leaves(program.held[id(J)])
    assert [x.unsafe_buffer_pointer() for x in buffers] == where
    # nor does the program hold another copy of them
    held = sum(x.nbytes for x in buffers)
    assert held == 400 * J.problem.y0.u.nbytes
    assert compile_ahead(program._again, (J, J.theta0), program.held[id(J)]).temporary < 0.2 * held


def test_the_holder_is_empty_while_a_call_runs_and_after_one_that_failed(J, program, monkeypatch):
    expected, again = program(J, J.theta0), program._again

    def interrupted(*_):
        assert not program.held
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "_again", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program(J, J.theta0)
    assert not program.held
    monkeypatch.setattr(program, "_again", again)
    assert alike(program(J, J.theta0), expected)


def test_another_objective_gets_memory_of_its_own(J, program):
    program(J, J.theta0)
    other = eqx.tree_at(lambda f: f.observations.values["u"], J, J.observations.values["u"] + 0.1)
    program(other, J.theta0)
    assert list(program.held) == [id(other)]
    # and it is freed with the objective
    del other
    gc.collect()
    assert not program.held


def test_threads_share_a_program_but_not_its_memory(J, program):
    thetas = [J.theta0 + 0.01 * k for k in range(6)]
    expected = [program(J, theta) for theta in thetas]
    with ThreadPoolExecutor(3) as pool:
        assert all(map(alike, pool.map(lambda theta: program(J, theta), thetas), expected))


def test_a_fit_takes_the_same_steps_and_goes_on_from_each(J, monkeypatch):
    stages = [pdefit.Stage(pdefit.optimizers.LBFGS(), 4)]
    whole, rows, states = run(J, stages)
    assert traced.GRADIENT.held
    list(resumed_alike(J, stages, whole, rows, states))
    monkeypatch.setattr(traced, "keeps", lambda _: False)
    for plain, row in zip(run(J, stages)[1], rows, strict=True):
        np.testing.assert_allclose(plain.theta, row.theta, rtol=1e-12)
        np.testing.assert_allclose((plain.loss, plain.gradient_norm), (row.loss, row.gradient_norm), rtol=1e-10)


def test_memory_is_kept_for_one_large_trajectory(J, monkeypatch):
    parts = pdefit.Recordings([J, J])
    windows = planets_functional(adjoint=ONE)
    stored = eqx.tree_at(lambda f: f.runner.adjoint, J, pdefit.adjoints.StoreAll())
    assert [keeps(f) for f in (J, parts, windows, stored)] == [True, False, False, False]
    monkeypatch.undo()
    assert not keeps(J)
