"""Trajectories drawn to the data after each frame: exact derivatives, far guesses of hidden fields, and what drives them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import Decay

import pdefit
from pdefit.inverse.controls.driven import driven_state
from pdefit.inverse.objective.compiled import VALUE, normal_equations
from pdefit.inverse.optimizers.arrow_gauss_newton import uncoupled
from pdefit.inverse.optimizers.cell_equations import cell_equations

GRID = pdefit.CartesianGrid(shape=(12,), extent=(12.0,))
LOG, FREE = pdefit.transforms.Log(), pdefit.transforms.Identity()


class Excitable(NamedTuple):
    v: jax.Array = pdefit.field(diffusivity="D")
    w: jax.Array = pdefit.field()


class Nerve(pdefit.ReactionDiffusion):
    """FitzHugh-Nagumo in a range where it oscillates."""

    D: jax.Array = pdefit.parameter(positive=True)
    eps: jax.Array = pdefit.parameter(positive=True)
    beta: jax.Array = pdefit.parameter()

    def reaction(self, t, y, args):
        v, w = y
        return Excitable(v - v**3 / 3 - w, self.eps * (v + self.beta - 0.8 * w))

    def init(self, key):
        x = self.grid.axis(0)
        return Excitable(jnp.asarray(np.cos(x / 2)), jnp.asarray(0.3 * np.sin(x / 3)))


def nerve(eps=0.2, beta=0.3):
    return Nerve(grid=GRID, D=jnp.asarray(0.1), eps=jnp.asarray(eps), beta=jnp.asarray(beta))


TS = np.linspace(0.0, 30.0, 61)


def film(noise=0.02):
    """The voltage of the nerve, its state at the start, and all of its recovery variable."""
    truth = nerve()
    # long after its start, when every cell goes round the same loop
    before = pdefit.simulate(truth, truth.init(None), np.array([0.0, 30.0]), dt=0.1).values
    start = Excitable(before["v"][1], before["w"][1])
    run = pdefit.simulate(truth, start, TS, dt=0.1)
    v, w = np.asarray(run.values["v"]), np.asarray(run.values["w"])
    data = pdefit.Observations.build(
        TS, {"v": v + noise * np.random.default_rng(0).normal(size=v.shape)}, {"v": max(noise, 1e-3)}
    )
    return data, start, w


def functional(data, nudge=0.0, w=0.0):
    system = nerve(eps=0.3, beta=0.1)
    problem = pdefit.Problem(system, Excitable(jnp.zeros(12), jnp.full(12, w)), pdefit.instruments.Select("v"))
    controls = {
        "eps": LOG,
        "beta": FREE,
        "y0": {
            "v": pdefit.Control(guess=pdefit.guesses.FromData()),
            "w": pdefit.Control(prior=pdefit.priors.Normal(0.0, 1.0)),
        },
    }
    return pdefit.Functional(problem, data, controls, dt=0.25, formulation=pdefit.formulations.Single(nudge=nudge))


def test_the_state_goes_a_part_of_the_way_to_the_data_after_each_frame_and_residuals_are_of_before():
    seen = np.array([[2.0, 1.0, 1.0], [1.5, 2.0, 0.1], [np.nan, 2.0, 0.1], [0.2, 0.2, np.nan]])
    data = pdefit.Observations.build([0.0, 1.0, 2.0, 3.0], {"u": seen}, 0.1)
    system = Decay(k=jnp.asarray(0.5))
    problem = pdefit.Problem(system, system.init(None))
    drawn = pdefit.Functional(problem, data, {"k": LOG}, dt=0.05, formulation=pdefit.formulations.Single(nudge=0.25))
    u, expected = np.array([1.0, 2.0, 3.0]), []
    for d in seen:
        off = np.where(np.isnan(d), 0.0, u - d)
        expected.append(off / 0.1)
        # within three standard deviations hardly
        u = (u - 0.25 * off**3 / (off**2 + 0.3**2)) * np.exp(-0.5)
    np.testing.assert_allclose(
        eqx.filter_jit(pdefit.Functional.residuals)(drawn, drawn.theta0), np.ravel(expected), rtol=1e-5
    )
    with pytest.raises(pdefit.PdefitError, match="observed on its own grid"):
        unseen = pdefit.Observations.build(data.ts, {"other": np.ones((4, 1))})
        pdefit.formulations.Single(nudge=0.5).nudging(problem, unseen)
    with pytest.raises(ValueError, match="from 0 to 1"):
        pdefit.formulations.Single(nudge=1.5)


def test_derivatives_of_nudged_trajectories_are_exact():
    drawn = functional(film()[0], nudge=0.3)
    theta = drawn.theta0 + 0.01
    value, gradient, matrix = normal_equations(drawn, theta)
    v = np.random.default_rng(1).normal(size=theta.size)
    central = (VALUE(drawn, theta + 1e-5 * v) - VALUE(drawn, theta - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(gradient @ v, central, rtol=1e-6)
    adjoint = eqx.filter_jit(lambda f, x: (f.watched_gradient(x)[1], f.gauss_newton_product(x, v)))(drawn, theta)
    np.testing.assert_allclose(adjoint[0], gradient, rtol=1e-9, atol=1e-9 * float(jnp.max(jnp.abs(gradient))))
    np.testing.assert_allclose(adjoint[1], matrix @ v, rtol=1e-8, atol=1e-8 * float(jnp.max(matrix)))


def test_equations_of_cells_hold_J_and_no_derivative_of_a_neighbour():
    drawn = functional(film()[0], nudge=0.3)
    theta, k = drawn.theta0 + 0.01, 2
    alone = uncoupled(drawn)
    gram, corner = eqx.filter_jit(cell_equations)(alone, theta)
    np.testing.assert_allclose((np.sum(gram[-1, -1]) + corner[-1, -1]) / 2, VALUE(drawn, theta), rtol=1e-12)
    matrix = np.asarray(normal_equations(alone, theta)[2])[k:, k:].reshape(2, 12, 2, 12)
    for a in range(2):
        for b in range(2):
            np.testing.assert_allclose(matrix[a, :, b], np.diag(gram[k + a, k + b]), rtol=1e-9, atol=1e-9)


def test_hidden_fields_and_numbers_come_back_from_far_by_smaller_and_smaller_nudges():
    data, start, w = film()
    J = functional(data, w=0.5)
    arrow, single = pdefit.optimizers.ArrowGaussNewton(), pdefit.formulations.Single
    stages = [pdefit.Stage(arrow, 30, single(nudge=g)) for g in (0.5, 0.1)]
    fit = pdefit.fit(J, [*stages, pdefit.Stage(pdefit.optimizers.GaussNewtonCG(damping=0.1), 40, single())])
    assert fit.converged and fit.functional.formulation == single()
    assert 0.7 < 2 * fit.loss / J.observed_values < 1.1
    near = pdefit.intervals(fit.functional, fit.theta)
    for name, true in (("eps", 0.2), ("beta", 0.3)):
        k = near.names.index(name)
        assert abs(near.estimate[k] - true) < 2 * (near.high[k] - near.low[k])
    assert np.std(fit.problem.y0.w - start.w) < 0.3 * np.std(w)
    # the same start without a nudge ends elsewhere, or later
    free = pdefit.fit(J, [pdefit.Stage(pdefit.optimizers.GaussNewtonCG(), fit.iterations // 4)])
    assert free.loss > 1.5 * fit.loss


def test_hidden_fields_are_guessed_by_what_drives_them():
    data, start, w = film()
    problem = functional(data).problem
    problem = eqx.tree_at(lambda p: p.system, problem, nerve())
    guess = driven_state(problem, data)
    assert np.std(guess.w - start.w) < 0.5 * np.std(w)
    np.testing.assert_array_equal(guess.v, data.values["v"][0])
    # a twin holds the truth, of which no more than the mean is used
    turned = eqx.tree_at(lambda p: p.y0.w, problem, problem.y0.w[::-1])
    np.testing.assert_allclose(driven_state(turned, data).w, guess.w, rtol=1e-12)


def test_cells_alone_are_refused_where_they_are_not():
    data = film()[0]
    J = functional(data)
    single = pdefit.formulations.Single(nudge=0.5)
    with pytest.raises(pdefit.PdefitError, match="expects unknown fields"):
        numbers = pdefit.Functional(J.problem, data, {"eps": LOG}, dt=0.25)
        pdefit.fit(numbers, [pdefit.Stage(pdefit.optimizers.ArrowGaussNewton(), 5, single)])
    rough = eqx.tree_at(lambda f: f.regularizers, J, (pdefit.regularizers.H1("y0.w", 1.0),))
    with pytest.raises(pdefit.PdefitError, match="treats each cell alone"):
        pdefit.optimizers.ArrowGaussNewton().on(rough)
    with pytest.raises(pdefit.PdefitError, match="A nudge works on one fit"):
        pdefit.explore(J, stages=[pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 5, single)])
