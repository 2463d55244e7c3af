"""IMEX steps: stiff diffusion solved for, reactions explicit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FisherKPP
from problems import central_difference, fisher, fisher_functional
from small_systems import Decay

import pdefit


def stiff(boundary, shape=(256,)):
    """Cells a hundred times smaller than a front: explicit steps would be 4e-5."""
    grid = pdefit.CartesianGrid(shape, (4.0, 3.0)[: len(shape)], boundary=boundary)
    return FisherKPP(grid, D=1.0, r=2.0, front=1.5)


@pytest.mark.parametrize(
    "boundary",
    [pdefit.boundaries.NoFlux(), pdefit.boundaries.Periodic(), pdefit.boundaries.Dirichlet(0.3)],
    ids=["noflux", "periodic", "dirichlet"],
)
def test_second_order_far_beyond_explicit_stability(boundary):
    system, ts = stiff(boundary), np.array([1.0])
    # a smooth state that obeys the condition, so that the first step is not a jump
    y0 = pdefit.solve(system, system.init(None), np.array([0.5]), solver=pdefit.solvers.IMEX(), dt=1e-3, t0=0.0)
    y0 = type(y0)(jnp.asarray(np.asarray(y0.u)[-1]))
    found = [
        np.asarray(pdefit.solve(system, y0, ts, solver=pdefit.solvers.IMEX(), dt=1 / n, t0=0.0).u)[-1]
        for n in (10, 20, 40, 80, 160)
    ]
    gaps = [np.max(np.abs(a - b)) for a, b in zip(found[:-1], found[1:], strict=True)]
    np.testing.assert_allclose(np.log2(np.divide(gaps[:-1], gaps[1:])), 2.0, atol=0.2)
    assert 0.1 > 100 * system.stable_step(y0)
    exact = pdefit.solve(system, y0, ts, solver=pdefit.solvers.RKC(), dt=1e-3, t0=0.0).u
    np.testing.assert_allclose(found[-1], np.asarray(exact)[-1], atol=2 * gaps[-1])


@pytest.mark.parametrize(
    "boundary",
    [
        pdefit.boundaries.NoFlux(),
        pdefit.boundaries.Dirichlet(0.3),
        (pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux()),
    ],
)
def test_the_parts_of_a_split_are_the_whole(boundary):
    system = stiff(boundary, (24, 20) if isinstance(boundary, tuple) else (24,))
    y, t = system.init(None), jnp.zeros(())

    @jax.jit
    def parts_and_whole(y):
        return system.explicit(t, y, None).u + system.linear(y).u, system.vector_field(t, y, None).u

    np.testing.assert_allclose(*parts_and_whole(y), atol=1e-11)


def test_a_step_of_zero_length_is_none():
    system, zero = fisher(), jnp.zeros(())
    y0 = system.init(None)
    np.testing.assert_array_equal(eqx.filter_jit(pdefit.solvers.IMEX().one_step)(system, zero, zero, y0, None).u, y0.u)


def test_gradients_are_right_and_do_not_depend_on_the_adjoint():
    functional, v = fisher_functional(solver=pdefit.solvers.IMEX(), dt=0.25), np.array([0.6, -0.8])
    gradient = eqx.filter_jit(lambda f, t: f.value_and_grad(t)[1])
    stored, kept = (
        gradient(eqx.tree_at(lambda f: f.runner.adjoint, functional, a), functional.theta0)
        for a in (pdefit.adjoints.StoreAll(), pdefit.adjoints.Checkpointed(2))
    )
    np.testing.assert_allclose(stored, kept, rtol=1e-12)
    assert abs(central_difference(functional, functional.theta0, v, 3e-4) / float(stored @ v) - 1) < 1e-7


def test_what_is_not_split_is_refused():
    system = Decay(k=1.0)
    with pytest.raises(pdefit.PdefitError, match=r"AbstractSplit.*Decay is not; use solver=rkc"):
        pdefit.simulate(system, system.init(None), [0.0, 1.0], solver=pdefit.solvers.IMEX(), dt=0.1)
    grid = pdefit.CartesianGrid((16,), (4.0,))
    uneven = FisherKPP(grid, D=jnp.linspace(1.0, 2.0, 16), r=1.0)
    y0 = FisherKPP(grid, D=1.0, r=1.0).init(None)
    with pytest.raises(pdefit.PdefitError, match=r"D varies in space with shape \(16,\); use solver=rkc"):
        pdefit.solve(uneven, y0, np.array([1.0]), solver=pdefit.solvers.IMEX(), dt=0.1, t0=0.0)
    with pytest.raises(pdefit.PdefitError, match="IMEX does not; use Tsit5"):
        pdefit.simulate(
            fisher(), fisher().init(None), [0.0, 1.0], solver=pdefit.solvers.IMEX(), steps=pdefit.Adaptive()
        )
