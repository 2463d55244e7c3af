"""Physics of the association of three species."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import Association, one_sided_source

import pdefit


def box(cells=16, **parameters):
    return one_sided_source(pdefit.CartesianGrid((cells, cells), (100.0, 100.0), length_unit="um"), **parameters)


def test_a_well_mixed_box_reaches_chemical_equilibrium():
    """Without source and decay A B / C is k_off / k_on, and A + C and B + C are conserved."""
    grid = pdefit.CartesianGrid((4,), (1.0,))
    none = {name: 0.0 for name in ("a", "b", "c", "k_A", "k_B", "k_C")}
    system = Association(grid, D=1.0, k_on=2.0, k_off=0.5, **none)
    y0 = type(system.init(None))(jnp.full(4, 1.0), jnp.full(4, 0.6), jnp.full(4, 0.1))
    y = pdefit.solve(system, y0, np.array([40.0]), solver=pdefit.solvers.RKC(), dt=0.05, t0=0.0)
    A, B, C = (float(u[-1, 0]) for u in y)
    np.testing.assert_allclose(A * B / C, 0.25, rtol=1e-9)
    np.testing.assert_allclose([A + C, B + C], [1.1, 0.7], rtol=1e-12)


def test_the_source_is_on_one_side_and_only_there():
    system = box()
    x = system.grid.axis(0)
    np.testing.assert_array_equal(system.a, np.repeat((x > 80).astype(float)[:, None], 16, axis=1))
    y = pdefit.solve(system, system.init(None), np.array([1.0]), solver=pdefit.solvers.RKC(), dt=0.02, t0=0.0)
    # nothing varies along y, and A falls from its source on
    assert np.ptp(np.asarray(y.A[-1]), axis=1).max() < 1e-13 and np.all(np.diff(np.asarray(y.A[-1, :, 0])) > 0)


@pytest.mark.parametrize("solver", [pdefit.solvers.RKC(), pdefit.solvers.IMEX()], ids=["rkc", "imex"])
def test_stiff_solvers_agree_with_an_explicit_one(solver):
    system, ts = box(), np.array([0.0, 2.0])
    fine = pdefit.simulate(system, system.init(None), ts, solver=diffrax.Tsit5(), steps=pdefit.Adaptive(1e-9, 1e-11))
    found = pdefit.simulate(system, system.init(None), ts, solver=solver, dt=0.02)
    for name, exact in fine.values.items():
        np.testing.assert_allclose(found.values[name][-1], exact[-1], atol=2e-4)


def test_the_source_is_a_field_that_can_be_a_control():
    truth, ts = box(8), np.linspace(0.0, 2.0, 5)
    y0 = truth.init(None)
    data = pdefit.add_noise(pdefit.simulate(truth, y0, ts, solver=pdefit.solvers.RKC(), dt=0.1), 0.0, jax.random.key(0))
    problem = pdefit.Problem(box(8, edge=60.0), y0)
    J = pdefit.Functional(problem, data, {"a": pdefit.transforms.Identity()}, solver=pdefit.solvers.RKC(), dt=0.1)
    value, gradient = eqx.filter_jit(J.value), eqx.filter_jit(J.value_and_grad)(J.theta0)[1]
    direction, h = np.random.default_rng(0).normal(size=64), 1e-4
    slope = (value(J.theta0 + h * direction) - value(J.theta0 - h * direction)) / (2 * h)
    # conformance certifies each parameter by itself
    np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-6)
