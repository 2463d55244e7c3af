"""Interchangeable sensitivities: each against the adjoint that stores every step, where it is valid; flagged where not."""

import functools
from typing import ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher_functional, planets_functional
from small_systems import Decay

import pdefit
from pdefit.adjoints.forward_mode import STEPS, bottom, quotients
from pdefit.integrate.loop.stepper import Stepper
from pdefit.inverse.objective.variants import with_adjoint

GRADIENT = eqx.filter_jit(lambda functional, theta: functional.watched_gradient(theta))
FRONT = {
    "D": pdefit.transforms.Log(),
    "r": pdefit.transforms.Log(),
    "y0": {"u": pdefit.Control(pdefit.transforms.Identity(), smoothing=2.0)},
}
MASSES_AND_STARTS = {
    "gm": pdefit.transforms.Log(),
    "nodes": {"position": pdefit.transforms.Identity(), "velocity": pdefit.transforms.Identity()},
}


class Prey(NamedTuple):
    u: jax.Array
    v: jax.Array


class Forced(pdefit.AbstractSystem):
    """Lotka-Volterra with a season: u' = a u - b u v, v' = b u v - c v (1 + m sin t), m = sum of a constant map."""

    time_unit: ClassVar[str] = "s"
    a: jax.Array = pdefit.parameter()
    b: jax.Array = pdefit.parameter()
    c: jax.Array = pdefit.parameter()
    season: jax.Array = pdefit.constant()

    def vector_field(self, t, y, args):
        eaten = self.b * y.u * y.v
        return Prey(self.a * y.u - eaten, eaten - self.c * y.v * (1 + jnp.sum(self.season) * jnp.sin(t)))

    def init(self, key):
        return Prey(jnp.asarray([1.0, 0.6]), jnp.asarray([0.5, 1.2]))


def prey_functional(**options):
    """Rates and initial densities of two lakes, times irregular."""
    truth, ts = Forced(a=1.0, b=0.8, c=0.7, season=np.asarray([0.1, 0.2])), np.asarray([0.0, 0.5, 0.9, 2.5, 3.0])
    y0 = truth.init(None)
    data = pdefit.simulate(truth, y0, ts, dt=0.02)
    guess = pdefit.Problem(Forced(a=1.2, b=0.6, c=0.9, season=truth.season), y0)
    controls = {n: pdefit.transforms.Log() for n in "abc"} | {
        "y0": {"u": pdefit.transforms.Log(), "v": pdefit.transforms.Identity()}
    }
    return pdefit.Functional(guess, data, controls, dt=0.02, **options)


def fine_front(**options):
    """So fine a grid that diffusion is stiff between observations: lambda_max times the interval is 30."""
    return fisher_functional(controls=FRONT, times=[0.0, 1.0, 2.0, 4.0], guess=(2.5, 1.5), dt=0.02, **options)


MAKERS = {
    "front": fine_front,
    "prey": prey_functional,
    "prey with Dopri8": lambda **o: prey_functional(solver=diffrax.Dopri8(), **o),
    "segments": lambda **o: planets_functional(controls=MASSES_AND_STARTS, **o),
}
ADJOINTS = {
    "backsolve": pdefit.adjoints.Backsolve(),
    "interpolating": pdefit.adjoints.Interpolating(),
    "tangent": pdefit.adjoints.Tangent(),
    "grouped tangents": pdefit.adjoints.Tangent(at_once=4),
    "finite differences": pdefit.adjoints.FiniteDifference(),
}


@functools.cache
def stored(name):
    """A functional with a point, and its gradient there by the adjoint that stores every step."""
    functional = MAKERS[name](adjoint=pdefit.adjoints.StoreAll())
    # away from node states that fit perfectly, and smooth: errors of the steps themselves would show on a rough field
    theta = functional.theta0 + 1e-2
    return functional, theta, GRADIENT(functional, theta)


def relative(found, expected):
    return float(jnp.linalg.norm(found - expected) / jnp.linalg.norm(expected))


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        ("front", "backsolve"),
        ("front", "interpolating"),
        ("front", "grouped tangents"),
        ("prey", "backsolve"),
        ("prey", "interpolating"),
        ("prey", "tangent"),
        ("prey", "finite differences"),
        ("prey with Dopri8", "interpolating"),
        ("segments", "backsolve"),
        ("segments", "interpolating"),
        ("segments", "grouped tangents"),
    ],
)
def test_every_algorithm_gives_the_stored_gradient(problem, name):
    functional, theta, (value, gradient, _) = stored(problem)
    found, slope, growth = GRADIENT(with_adjoint(functional, ADJOINTS[name]), theta)
    np.testing.assert_allclose(found, value, rtol=1e-13)
    assert bool(jnp.isfinite(growth))
    # each control by itself: a cotangent that is lost or has the wrong sign hides behind a larger one
    for control, part, expected in zip(
        functional.controls.items, functional.controls.split(slope), functional.controls.split(gradient), strict=True
    ):
        assert relative(part, expected) <= 1e-6, control.path
    if "tangent" in name:
        assert relative(slope, gradient) <= 1e-12


def test_a_continuous_gradient_comes_nearer_with_the_order_of_the_steps():
    """The difference to the discrete gradient is real, and that of the trajectory's own errors: fourth order for RK4."""
    errors = []
    for dt in (0.1, 0.05):
        functional = prey_functional_with(dt)
        expected, *found = (
            GRADIENT(with_adjoint(functional, adjoint), functional.theta0)[1]
            for adjoint in (pdefit.adjoints.StoreAll(), pdefit.adjoints.Backsolve(), pdefit.adjoints.Interpolating())
        )
        errors.append([relative(gradient, expected) for gradient in found])
    first, second = np.array(errors)
    assert np.all(first > 1e-10) and np.all(np.log2(first / second) > 3.5), errors


def prey_functional_with(dt):
    functional = prey_functional()
    grid = functional.formulation.layout(functional.observations.ts, dt).time_grid
    return functional.with_time_grid(grid)


def test_backsolve_is_right_or_flagged():
    """With one backup diffusion that runs backward destroys state and gradient, and the reconstruction says so."""
    functional = fine_front()
    expected = GRADIENT(functional, functional.theta0)[1]
    found = {}
    for adjoint in (pdefit.adjoints.Backsolve(backups=1), pdefit.adjoints.Backsolve()):
        own = with_adjoint(functional, adjoint)
        problem, settled = own.problem, own.runner.adjoint
        grid = jax.tree.map(lambda x: x[0], own.layout.time_grid)
        off = settled.reconstruction(Stepper(problem.system, own.runner.solver), problem.y0, grid)
        error = relative(GRADIENT(own, own.theta0)[1], expected)
        found[settled.backups] = float(jnp.max(off)), error
    (one, lost), (many, kept) = found.items()
    assert one == 1 and 5 <= many <= 50
    assert lost[0] > 1e-2 and not lost[1] <= 1e-3, lost
    assert kept[0] < 1e-5 and kept[1] < 1e-6, kept


def test_the_number_of_backups_is_that_of_the_stability_estimate():
    functional = fine_front(adjoint=pdefit.adjoints.Backsolve())
    system, grid = functional.problem.system, functional.layout.time_grid
    fastest = 2 / system.stable_step(functional.problem.y0)
    backups = functional.runner.adjoint.backups
    spans = [np.ceil(grid.length / b) * grid.step.max() * fastest for b in (backups, backups - 1)]
    assert spans[0] <= 5 < spans[1]
    # given ones are kept, and a system that states no stable step gets one
    assert fine_front(adjoint=pdefit.adjoints.Backsolve(backups=3)).runner.adjoint.backups == 3
    assert prey_functional(adjoint=pdefit.adjoints.Backsolve()).runner.adjoint.backups == 1


@pytest.mark.parametrize("adjoint", [pdefit.adjoints.Backsolve(), pdefit.adjoints.Interpolating()])
def test_the_size_of_the_misfit_does_not_matter(adjoint):
    """A mean over pixels, or other units, in single precision: the cotangent is normalised."""
    system = Decay(k=jnp.asarray(0.7, jnp.float32))
    y0 = jax.tree.map(lambda x: x.astype(jnp.float32), system.init(None))
    grid = pdefit.integrate.loop.time_grid.constant_grid(0.0, np.linspace(0.0, 2.0, 3), 0.05)

    def end(system, scale):
        y, _ = adjoint.run(Stepper(system, pdefit.solvers.RK4()), y0, grid, lambda y, _: y, jnp.zeros(3))
        return jnp.sum((scale * y.u) ** 2)

    slope = jax.jit(jax.grad(end))

    # |3.74 exp(-2 k)|^2, so its slope is -4 times that
    expected = -4 * 14 * np.exp(-4 * 0.7)
    for scale in (1.0, 1e-18, 1e15):
        found = float(slope(system, jnp.asarray(scale, jnp.float32)).k) / scale**2
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_finite_differences_have_a_valley_above_automatic_differentiation():
    functional = prey_functional(adjoint=pdefit.adjoints.StoreAll())
    theta = functional.theta0
    gradient = GRADIENT(functional, theta)[1]
    v = functional.controls.sizes(theta)
    slope = float(eqx.filter_jit(pdefit.Functional.jvp)(functional, theta, v)[1])
    found = np.asarray(eqx.filter_jit(lambda f: quotients(f.value, theta, v, STEPS))(functional))
    errors = np.abs(found / slope - 1)
    best = int(np.argmin(errors))
    assert 2 <= best <= 7 and errors[0] > 1e4 * errors[best] and errors[-1] > 1e2 * errors[best]
    rates = np.log10(errors[: best - 1] / errors[1:best])
    assert np.all(np.abs(rates - 2) < 0.15), rates
    # without knowing the truth the bottom is found to within a decade
    assert errors[int(bottom(jnp.asarray(found)))] < 1e2 * errors[best]
    assert abs(float(gradient @ v) / slope - 1) < errors[best] / 10
    assert VALUE(functional, theta) > 0


def test_a_second_derivative_is_that_of_the_continuous_gradient():
    functional = prey_functional(adjoint=pdefit.adjoints.Interpolating())
    theta, v = functional.theta0, functional.controls.sizes(functional.theta0)
    product = eqx.filter_jit(lambda f, theta, v: jax.jvp(jax.grad(f.value), (theta,), (v,))[1])
    exact = product(with_adjoint(functional, pdefit.adjoints.StoreAll()), theta, v)
    assert relative(product(functional, theta, v), exact) < 1e-6


@pytest.mark.parametrize("adjoint", [pdefit.adjoints.Backsolve(), pdefit.adjoints.Interpolating()])
def test_what_needs_tangents_is_refused_in_one_sentence(adjoint):
    functional = prey_functional(adjoint=adjoint)
    theta = functional.theta0
    for ask in (
        lambda: functional.jvp(theta, theta),
        lambda: functional.normal_equations(theta),
        lambda: functional.jacobian(theta),
        lambda: functional.gauss_newton_product(theta, theta),
    ):
        with pytest.raises(pdefit.PdefitError, match="Gauss-Newton .*adjoint=checkpointed"):
            ask()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pdefit.adjoints.Backsolve(backups=0), "backups of 1 or more"),
        (lambda: pdefit.adjoints.Backsolve(substeps=0), "substeps of 1 or more"),
        (lambda: pdefit.adjoints.Interpolating(substeps=0), "substeps of 1 or more"),
        (lambda: pdefit.adjoints.Tangent(at_once=0), "at_once of 1 or more"),
        (lambda: pdefit.adjoints.FiniteDifference(step=2.0), "relative step between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(pdefit.PdefitError, match=words):
        make()


def test_each_says_what_it_stores():
    functional = fine_front()
    grid, p = functional.layout.time_grid, functional.controls.size
    steps = grid.intervals * grid.length

    def account(adjoint):
        return with_adjoint(functional, adjoint).runner.adjoint.account(grid, p)

    assert account(pdefit.adjoints.Interpolating()).stored == steps + grid.intervals
    assert account(pdefit.adjoints.Backsolve(backups=4)).stored == 5 * grid.intervals
    assert (
        account(pdefit.adjoints.Tangent()).stored == 1 + p and account(pdefit.adjoints.Tangent(at_once=3)).stored == 4
    )
    assert account(pdefit.adjoints.FiniteDifference()).stored == 1
    assert account(pdefit.adjoints.FiniteDifference(step=1e-5)).forward == 1 + 2 * p
    assert account(pdefit.adjoints.StoreAll()).stored >= steps


class TooLong(pdefit.adjoints.Interpolating):
    """With a thousandth too much of the adjoint and of the gradient of every interval."""

    def back(self, field, moving, stored, steps, adjoint):
        return jax.tree.map(lambda x: 1.001 * x, super().back(field, moving, stored, steps, adjoint))


@pytest.mark.parametrize(("solver", "dt"), [(diffrax.Euler(), 2e-4), (diffrax.Heun(), 0.02)])
@pytest.mark.parametrize(("adjoint", "passes"), [(pdefit.adjoints.Interpolating(), True), (TooLong(), False)])
def test_a_certificate_allows_the_error_of_the_steps_and_no_more(adjoint, passes, solver, dt):
    """Euler errs in the rate k by k dt / 2 of it, and goes back by RK4; Heun errs by less with a longer step, both ways."""
    truth, ts = Decay(k=0.7), np.linspace(0.0, 1.0, 5)
    data = pdefit.simulate(truth, truth.init(None), ts, dt=0.01)
    problem = pdefit.Problem(Decay(k=0.5), truth.init(None))
    log = {"k": pdefit.transforms.Log()}
    functional = pdefit.Functional(problem, data, log, dt=dt, solver=solver, adjoint=adjoint)
    found = pdefit.certify(functional, functional.theta0, optimizers=[pdefit.optimizers.LBFGS()])
    assert found.passed == passes, found.reason
    (check,) = [c for c in found.checks if c.name == "k: gradient against tangent"]
    assert passes == (1e-6 < check.error < check.limit < 1e-3)
    assert passes or found.reason.endswith("use adjoint=checkpointed, or a smaller dt (steps.rtol)")


@pytest.mark.parametrize(
    ("adjoint", "passes"), [(pdefit.adjoints.Backsolve(), True), (pdefit.adjoints.Backsolve(backups=1), False)]
)  # fmt: skip
def test_a_certificate_stops_a_continuous_adjoint_where_it_is_wrong(adjoint, passes):
    functional = fisher_functional(times=[0.0, 1.0, 2.0, 4.0], guess=(2.5, 1.5), dt=0.02, adjoint=adjoint)
    found = pdefit.certify(functional, functional.theta0, fit_cost=1e5)
    assert found.passed == passes, found.reason
    assert passes or "gradient against tangent" in found.reason
