"""The streamed normal equations of Gauss-Newton: exact, in the memory of the tangents alone."""

import dataclasses
from typing import ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_cardiac import BOCF
from pdefit_cardiac.parameter_sets import TUTORIAL
from pdefit_reaction import FisherKPP

import pdefit

DT, CELLS = 0.05, 24
# of one field, of a switch that several fields share, and of the stencil
PARAMETERS = ("u_s", "k_so", "tau_si", "theta_v", "D")


def tissue_functional(observations: int, between: int = 4, solver=None) -> pdefit.Functional:
    """Spiral waves of BOCF seen from parameters that are 2 % off; data of the right size in place of right ones."""
    system = BOCF(
        grid=pdefit.CartesianGrid(shape=(CELLS, CELLS), extent=(float(CELLS),) * 2, length_unit="1"),
        **{**TUTORIAL, "D": 0.1},
    )
    y0, ts = system.init(None), DT * between * np.arange(observations + 1)
    values = {n: np.full((ts.size, CELLS, CELLS), 0.3) for n in y0._fields}
    guess = dataclasses.replace(system, **{n: getattr(system, n) * 1.02 for n in PARAMETERS})
    controls = {n: pdefit.transforms.Log() for n in PARAMETERS}
    options = {"solver": solver or diffrax.Euler(), "dt": DT}
    return pdefit.Functional(pdefit.Problem(guess, y0), pdefit.Observations.build(ts, values), controls, **options)


@pytest.mark.parametrize("solver", [diffrax.Euler(), diffrax.Bosh3()], ids=lambda s: type(s).__name__)
def test_the_gradient_of_tissue_is_that_of_the_reverse_pass(solver):
    # an odd number of steps, which Euler's tangents take two at a time
    functional = tissue_functional(3, between=3, solver=solver)
    theta = functional.theta0
    value, gradient, matrix = eqx.filter_jit(pdefit.Functional.normal_equations)(functional, theta)
    expected = eqx.filter_jit(lambda f, x: f.value_and_grad(x))(functional, theta)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    # theta_v has no influence yet: its derivative is round-off of the others
    largest = float(jnp.max(jnp.abs(expected[1])))
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12, atol=1e-12 * largest)
    jac = eqx.filter_jit(pdefit.Functional.jacobian)(functional, theta)
    np.testing.assert_allclose(matrix, jac.T @ jac, rtol=1e-9, atol=1e-12 * float(jnp.max(matrix)))


class Prey(NamedTuple):
    hares: jax.Array
    foxes: jax.Array


class Hunt(pdefit.AbstractSystem):
    """Hares and foxes, which eat them up to satiation."""

    time_unit: ClassVar[str] = "s"
    rate: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        eaten = self.rate * y.hares * y.foxes / (1 + y.hares)
        return Prey(y.hares - eaten, eaten - y.foxes + jnp.where(y.hares > 0.5, y.hares, 0.5) ** 2)

    def init(self, key):
        return Prey(jnp.asarray(1.0), jnp.asarray(0.5))


def test_a_weakly_typed_state_has_the_same_equations():
    system, ts = Hunt(rate=1.5), np.array([0.0, 0.2])
    data = pdefit.Observations.build(ts, {n: np.full(2, 0.3) for n in Prey._fields})

    def functional(y0):
        options = {"solver": diffrax.Tsit5(), "dt": 0.2}
        return pdefit.Functional(pdefit.Problem(system, y0), data, {"rate": pdefit.Control()}, **options)

    weak = functional(system.init(None))
    strong = functional(Prey(jnp.asarray(1.0, jnp.float64), jnp.asarray(0.5, jnp.float64)))
    assert weak.problem.y0.hares.weak_type and not strong.problem.y0.hares.weak_type
    found, r, jac = eqx.filter_jit(lambda w, s: (w.normal_equations(w.theta0), *s.residuals_and_jacobian(s.theta0)))(
        weak, strong
    )
    for one, expected in zip(found, (jnp.sum(r**2) / 2, jac.T @ r, jac.T @ jac), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-12)


def held(functional: pdefit.Functional) -> int:
    """Bytes that the compiled program works with, beside its arguments and results."""
    arrays, rest = eqx.partition(functional, eqx.is_array)
    program = jax.jit(lambda a, theta: eqx.combine(a, rest).normal_equations(theta))
    return program.lower(arrays, functional.theta0).compile().memory_analysis().temp_size_in_bytes


def test_neither_steps_nor_observations_take_memory():
    short, longer, denser = (tissue_functional(*size) for size in ((5, 4), (5, 40), (40, 4)))
    state = sum(x.nbytes for x in jax.tree.leaves(short.problem.y0))
    base = held(short)
    # ten times the steps and eight times the observations: far less than one state more
    assert held(longer) - base < state / 2
    assert held(denser) - base < state / 2
    # the tangents once or twice more, while they are stepped and seen
    assert base < 5 * len(PARAMETERS) * state


class Reduced(FisherKPP, pdefit.capabilities.AbstractReduced):
    """An equation of which every run makes a system of its own."""

    def reduced(self):
        return FisherKPP(grid=self.grid, D=self.D, r=self.r, front=self.front)


# more tangents than are stepped in turn, and few
@pytest.mark.parametrize(
    ("model", "solver", "modes"),
    [
        (FisherKPP, pdefit.solvers.ETDRK4(), 17),
        (Reduced, pdefit.solvers.IMEX(), 17),
        (Reduced, pdefit.solvers.RK4(), 17),
        (Reduced, pdefit.solvers.RK4(), 3),
    ],
    ids=["ETDRK4", "IMEX", "RK4", "RK4 in turn"],
)
def test_a_start_of_modes_may_be_the_only_unknown(model, solver, modes):
    grid = pdefit.CartesianGrid(shape=(20,), extent=(10.0,), length_unit="1")
    system = model(grid=grid, D=jnp.asarray(0.5), r=jnp.asarray(1.0), front=4.0)
    data = pdefit.Observations.build(np.array([0.0, 0.2, 0.4]), {"u": np.full((3, 20), 0.3)})
    controls = {"y0": {"u": pdefit.Control(modes=modes)}}
    functional = pdefit.Functional(pdefit.Problem(system, system.init(None)), data, controls, solver=solver, dt=0.1)
    theta = functional.theta0
    _, gradient, matrix = eqx.filter_jit(pdefit.Functional.normal_equations)(functional, theta)
    shifts = 1e-3 * jnp.concatenate([jnp.eye(modes), -jnp.eye(modes)])
    r = eqx.filter_jit(lambda f, x: jax.vmap(f.residuals)(x))(functional, theta[None] + shifts)
    jac = (r[:modes] - r[modes:]).T / 2e-3
    np.testing.assert_allclose(matrix, jac.T @ jac, atol=1e-6 * float(jnp.max(matrix)))
    np.testing.assert_allclose(gradient, jac.T @ functional.residuals(theta), atol=1e-6 * float(jnp.max(matrix)))
