"""The first-order shift of an estimate against fits with finer steps and cells."""

import dataclasses

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FisherKPP
from problems import fisher_functional, planets_functional
from small_systems import Decay

import pdefit
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.objective.compiled import weighted
from pdefit.inverse.uncertainty.shift_with_finer_steps import finer_grid, first_order_shift, residual_changes

LM = pdefit.optimizers.LevenbergMarquardt(tolerance=1e-12, decrement=0.0)


def fitted(functional):
    found = pdefit.fit(functional, [LM])
    assert found.converged
    return found.functional, found.theta, pdefit.intervals(found.functional, found.theta, sigma_stated=True)


def shift_of_a_fit(finer, theta, known):
    """In half widths, by a fit from the estimate."""
    start = eqx.tree_at(lambda f: f.problem, finer, finer.at(theta))
    return np.asarray(pdefit.fit(start, [LM]).theta - theta) / known.reach


def decay(**options):
    """Three cells that decay, stepped coarsely."""
    system, ts = Decay(k=1.0), np.linspace(0.0, 2.0, 11)
    exact = pdefit.Observations.build(ts, {"u": np.exp(-ts)[:, None] * Decay.start}, 1.0)
    data = pdefit.add_noise(exact, 0.01, jax.random.key(0))
    problem = pdefit.Problem(system, system.init(None))
    return pdefit.Functional(problem, data, solver=diffrax.Euler(), dt=0.1, **options)


def test_half_the_step():
    free = {"k": pdefit.transforms.Log(), "nodes": {"u": pdefit.transforms.Identity()}}
    functional, theta, known = fitted(decay(controls=free, formulation=pdefit.formulations.Segments(1.0)))
    finer = functional.halved()
    changes = residual_changes(finer, theta, [weighted(functional, theta)])
    shift = first_order_shift(functional, finer, theta, known, changes)
    expected = shift_of_a_fit(finer, theta, known)
    # of a rate of about one; in half widths of two segments, which differ by 1e9 in weight, it would be anything
    assert np.abs(expected[0] * known.reach[0]) > 0.02
    np.testing.assert_allclose(shift, expected, atol=0.05 * np.max(np.abs(expected)))


def test_cells_of_half_the_width():
    """Data of a grid eight times finer: the shift is that of a fit on a finer grid, and leads towards the truth."""

    def front(cells, origin=-20.0):
        grid = pdefit.CartesianGrid(shape=(cells,), extent=(40.0,), origin=(origin,))
        return FisherKPP(grid, D=jnp.asarray(1.0), r=jnp.asarray(1.0), front=-5.0)

    fine, ts = front(256), np.linspace(0.0, 4.0, 5)
    film = pdefit.simulate(fine, fine.init(None), ts, dt=0.005).values["u"]
    data = pdefit.Observations.build(ts, {"u": jax.vmap(lambda u: fine.grid.coarsen(u, 8))(film)}, 0.01)
    coarse = pdefit.Problem(front(32), fine.coarsen(fine.init(None), 8))
    start = pdefit.Functional(coarse, data, {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}, dt=0.1)
    functional, theta, known = fitted(start)
    finer = finer_grid(functional, theta)
    assert finer.problem.y0.u.shape == (64,) and finer.dt == 0.1
    changes = residual_changes(finer, theta, [weighted(functional, theta)])
    shift = first_order_shift(functional, finer, theta, known, changes)
    expected = shift_of_a_fit(finer, theta, known)
    np.testing.assert_allclose(shift, expected, rtol=0.1)
    # both logarithms are 0 in truth, and errors fall with the square of the width
    np.testing.assert_allclose(-theta / known.reach, 4 / 3 * shift, atol=0.2 * np.max(np.abs(shift)))


@pytest.mark.parametrize(
    ("functional", "reason"),
    [
        (
            lambda: fisher_functional(
                {"D": pdefit.transforms.Log(), "nodes": {"u": pdefit.transforms.Identity()}},
                formulation=pdefit.formulations.Segments(2.0),
            ),
            "unknown nodes.u",
        ),
        (lambda: planets_functional(), "no grid"),
    ],
)
def test_what_cannot_be_refined_says_why(functional, reason):
    functional = functional()
    with pytest.raises(pdefit.PdefitError, match=reason):
        finer_grid(functional, functional.theta0)


@pytest.mark.parametrize("grid", [pdefit.CartesianGrid((6, 8), (3.0, 4.0)), pdefit.FourierGrid((6, 8), (3.0, 4.0))])
def test_what_is_made_of_a_field_on_finer_cells_is_the_field_on_the_old_ones(grid):
    u = np.random.default_rng(0).normal(size=(2, 6, 8))
    fine = grid.prolonged(u)
    finer = dataclasses.replace(grid, shape=(12, 16))
    np.testing.assert_allclose(jax.vmap(lambda x: finer.coarsen(x, 2))(fine), u, atol=1e-12)


def test_an_unknown_initial_state_is_refined_at_its_estimate():
    functional = fisher_functional({"D": pdefit.transforms.Log(), "y0": {"u": pdefit.transforms.Identity()}})
    theta = functional.theta0 + 0.1
    finer = finer_grid(functional, theta)
    assert finer.problem.y0.u.shape == (128,) and finer.controls.size == 0
    np.testing.assert_allclose(
        functional.at(theta).y0.u, finer.problem.system.coarsen(finer.problem.y0, 2).u, rtol=1e-12
    )
    (change,) = residual_changes(finer, theta, [weighted(functional, theta)])
    assert 0 < np.max(np.abs(change["u"])) < 0.5 * np.max(np.abs(weighted(functional, theta)["u"]))


def test_many_recordings_may_lose_all_controls():
    """As those with an unknown initial state do on a finer grid."""
    both = pdefit.Recordings([decay(controls={"y0": {"u": pdefit.Control(scope="experiment")}})] * 2)
    held, theta = both.each(lambda part, own: (eqx.tree_at(lambda f: f.controls, part, Controls(())), own), both.theta0)
    assert held.controls.size == theta.size == 0 and len(held.parts(theta)) == 2
