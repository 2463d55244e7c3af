"""What a fit takes when nobody says, on equations and unknowns of every kind."""

import dataclasses

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from apoptosis import apoptosis
from pdefit_cardiac import ALIEV_PANFILOV, BOCF, TUTORIAL, AlievPanfilov
from pdefit_classics import KortewegDeVries
from pdefit_reaction import FisherKPP, one_sided_source
from problems import fisher, fisher_functional, planets, planets_functional
from small_systems import Decay, State

import pdefit
from pdefit.integrate.loop.stable_step import choose_steps
from pdefit.inverse.fit.choose_solver import choose_solver
from pdefit.inverse.fit.choose_stages import choose_stages


def tissue():
    grid = pdefit.CartesianGrid((32, 32), (3.2, 3.2), length_unit="cm")
    return BOCF(grid, **TUTORIAL)


def test_equations_that_are_not_stiff_take_rk4():
    for system, span in ((fisher(), 4.0), (planets()[0], 6.0), (tissue(), 50.0)):
        choice = choose_solver(system, system.init(None), span)
        assert isinstance(choice.solver, pdefit.solvers.RK4) and choice.steps is None and "not stiff" in choice.reason


def test_stiff_kinetics_take_an_implicit_solver():
    system = apoptosis()
    choice = choose_solver(system, system.init(None), 1e5)
    assert isinstance(choice.solver, diffrax.Kvaerno5) and choice.steps is not None and "stiff" in choice.reason
    # for as long as nothing has decayed, explicit steps are few
    assert isinstance(choose_solver(system, system.init(None), 1.0).solver, pdefit.solvers.RK4)


class Late(Decay):
    """u' = -k u, with a rate that is ten thousand times as large after the first second."""

    def vector_field(self, t, y, args):
        return State(-jnp.where(t < 1.0, self.k, 1e4 * self.k) * y.u)


def test_stiffness_that_begins_later_is_not_noticed():
    system = Late(k=1.0)
    assert isinstance(choose_solver(system, system.init(None), 100.0).solver, pdefit.solvers.RK4)
    # as fast from the beginning it is
    fast = Decay(k=1e4)
    assert isinstance(choose_solver(fast, fast.init(None), 100.0).solver, diffrax.Kvaerno5)


def test_diffusion_on_a_fine_grid_takes_stabilised_steps():
    grid = pdefit.CartesianGrid((64, 64), (100.0, 100.0))
    system = one_sided_source(grid)
    choice = choose_solver(system, system.init(None), 10.0)
    assert isinstance(choice.solver, pdefit.solvers.RKC) and choice.steps is not None and "diffusion" in choice.reason
    given = choose_solver(system, system.init(None), 10.0, adaptive=False)
    # as many stages as the step that was given asks for
    assert given.solver == pdefit.solvers.RKC(None) and given.steps is None
    data = pdefit.simulate(system, system.init(None), np.linspace(0, 1, 3), solver=choice.solver, steps=choice.steps)
    fine = pdefit.simulate(system, system.init(None), np.linspace(0, 1, 3))
    for name, value in fine.values.items():
        np.testing.assert_allclose(data.values[name], value, atol=3e-3 * float(jnp.max(jnp.abs(value))))


def test_few_unknowns_take_gauss_newton_and_fields_their_gradients():
    near = choose_stages(fisher_functional(guess=(0.98, 1.01)))
    assert [type(s.optimizer) for s in near.stages] == [
        pdefit.optimizers.LevenbergMarquardt
    ] and "2 unknowns" in near.reason
    grid = pdefit.CartesianGrid((256,), (40.0,), (-20.0,))
    wide = FisherKPP(grid, D=1.0, r=1.0, front=-5.0)
    y0, ts = wide.init(None), np.linspace(0, 0.2, 3)
    data = pdefit.simulate(wide, y0, ts)
    field = pdefit.Functional(pdefit.Problem(wide, y0), data, {"y0": {"u": pdefit.transforms.Identity()}})
    choice = choose_stages(field)
    assert isinstance(choice.stages[0].optimizer, pdefit.optimizers.LBFGS) and "field" in choice.reason
    # with a prior the field has a minimum that Gauss-Newton reaches
    known = pdefit.Control(smoothing=pdefit.Smoothing(1.0, 0.1))
    choice = choose_stages(pdefit.Functional(field.problem, data, {"y0": {"u": known}}))
    first, last = (s.optimizer for s in choice.stages)
    assert isinstance(first, pdefit.optimizers.LBFGS) and isinstance(last, pdefit.optimizers.GaussNewtonCG)
    assert "priors" in choice.reason
    # beside numbers these come first, with the field at its guess
    both = pdefit.Functional(
        field.problem, data, {"D": pdefit.transforms.Log(), "y0": {"u": pdefit.transforms.Identity()}}
    )
    first, last = choose_stages(both).stages
    assert first.formulation.held and isinstance(last.optimizer, pdefit.optimizers.GaussNewtonCG)
    assert last.formulation is None


def test_hidden_fields_far_from_the_data_are_drawn_to_them():
    grid = pdefit.CartesianGrid((160,), (16.0,))
    system = AlievPanfilov(grid, **ALIEV_PANFILOV)
    y0, ts = system.rest(), np.linspace(0.0, 4.0, 9)
    seen = np.random.default_rng(0).uniform(0.2, 1.0, (9, 160))
    data = pdefit.Observations.build(ts, {"u": seen}, 0.01)
    free = pdefit.transforms.Identity()
    problem = pdefit.Problem(system, y0, pdefit.instruments.Select("u"))
    functional = pdefit.Functional(problem, data, {"k": free, "y0": {"u": free, "v": free}}, dt=0.5)
    choice = choose_stages(functional)
    assert [s.formulation.nudge if s.formulation else 0 for s in choice.stages] == [0.5, 0.2, 0.2, 0.05, 0.01, 0]
    assert "of which v is hidden" in choice.reason
    # cells that smoothness connects are taken together from the beginning
    smooth = eqx.tree_at(lambda f: f.regularizers, functional, (pdefit.regularizers.H1("y0.v", 1.0),))
    stages = choose_stages(smooth).stages
    assert [s.formulation.nudge if s.formulation else 0 for s in stages] == [0.5, 0.2, 0.05, 0.01, 0]
    for stage in stages:
        stage.optimizer.on(smooth)


class Sum(pdefit.instruments.AbstractObservationOperator):
    """Each cell with its neighbour, on as many points."""

    def __call__(self, t, y, args):
        return {"u": y.u + jnp.roll(y.u, 1)}


def test_windows_are_not_taken_where_the_instrument_hides_states():
    far = fisher_functional(guess=(0.2, 4.0), count=17)
    assert len(choose_stages(far).stages) > 1
    for hidden in (Sum(), pdefit.instruments.Camera(blur=1.0).on(far.problem.system)):
        (stage,) = choose_stages(eqx.tree_at(lambda f: f.problem.observe, far, hidden)).stages
        assert stage.formulation is None


def test_windows_grow_where_the_guess_is_far_from_data_that_show_every_state():
    # windows start from noisy states, so the last stage must not have any
    far = fisher_functional(guess=(0.2, 4.0), count=17, noise=0.02)
    choice = choose_stages(far)
    lengths = [s.formulation.length for s in choice.stages[:-1]]
    np.testing.assert_allclose(lengths, [0.25, 0.5, 1.25])
    assert isinstance(choice.stages[-1].formulation, pdefit.formulations.Single) and "far" in choice.reason
    exact = pdefit.optimizers.LevenbergMarquardt(decrement=0.0)
    found = pdefit.fit(far, [*choice.stages[:-1], dataclasses.replace(choice.stages[-1], optimizer=exact)])
    near = fisher_functional(guess=(1.0, 1.0), count=17, noise=0.02)
    best = pdefit.fit(near, [exact])
    np.testing.assert_allclose(found.theta, best.theta, atol=1e-4)
    np.testing.assert_allclose(found.theta, 0.0, atol=0.1)
    for other in (planets_functional(), fisher_functional(guess=(0.2, 4.0), count=5)):
        assert len(choose_stages(other).stages) == 1


def test_numbers_beside_a_free_state_are_prepared_where_the_guess_is_far():
    unknown = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log(), "y0": {"u": pdefit.transforms.Identity()}}

    def formulations(controls=unknown, guess=(0.2, 4.0), **options):
        chosen = choose_stages(fisher_functional(controls, guess=guess, **options))
        return [s.formulation for s in chosen.stages]

    assert formulations(count=17) == [
        pdefit.formulations.Single(until=1.0),
        pdefit.formulations.Single(until=2.0),
        None,
    ]
    assert formulations(count=17, guess=(1.0, 1.0), noise=0.02) == [None]
    # of few frames nothing can be left out; the numbers come first, where the state fits the frame it belongs to
    assert formulations(count=5) == [pdefit.formulations.Single(held=True), None]
    assert formulations({"y0": {"u": pdefit.transforms.Identity()}}, count=5) == [None]
    wrong = {**unknown, "y0": {"u": pdefit.Control(guess=pdefit.guesses.Value(0.5))}}
    assert formulations(wrong, count=5) == [None]


def test_waves_in_fourier_modes_take_exponential_steps_where_these_are_longer():
    system = KortewegDeVries(pdefit.FourierGrid((64,), (40.0,)), advection=1.0, dispersion=1.0)
    y0, rk4 = system.init(None), pdefit.solvers.RK4()
    choice = choose_solver(system, y0, 20.0)
    assert choice.solver == pdefit.solvers.ETDRK4() and "diagonal in Fourier space" in choice.reason
    exponential, explicit = (choose_steps([(system, y0)], None, solver)[1] for solver in (choice.solver, rk4))
    assert exponential > 5 * explicit
    # a short run has few steps anyway
    assert choose_solver(system, y0, 0.1).solver == rk4
