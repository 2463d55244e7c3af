"""Estimated eigenvalues against the dense Jacobian, and steps that are stable for them."""

from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from problems import fisher, planets
from small_systems import KdV

import pdefit
from pdefit.integrate.loop.eigenvalues import eigenvalues, not_finite, stable_part
from pdefit.integrate.loop.stable_step import choose_steps


@pytest.mark.parametrize("system", [KdV(), planets()[0], fisher()], ids=["waves", "orbits", "diffusion"])
def test_the_outermost_eigenvalues_are_those_of_the_dense_jacobian(system):
    y0 = system.init(None)
    flat, back = ravel_pytree(y0)
    dense = jax.jit(jax.jacfwd(lambda x: ravel_pytree(system.vector_field(0.0, back(x), None))[0]))
    exact, found = np.linalg.eigvals(np.asarray(dense(flat))), eigenvalues(system.vector_field, y0)
    assert np.max(np.abs(found)) == pytest.approx(np.max(np.abs(exact)), rel=1e-3)
    assert np.min(found.real) == pytest.approx(np.min(exact.real), abs=2e-3 * np.max(np.abs(exact)))


@pytest.mark.parametrize(
    ("value", "solver", "limit"),
    [
        (-1.0, diffrax.Euler(), 2.0),
        (-1.0, pdefit.solvers.RK4(), 2.785),
        (1j, pdefit.solvers.RK4(), 2.828),
        # growth that the equations have is no instability
        (0.1 + 1j, pdefit.solvers.RK4(), 2.8),
        (1j, diffrax.Tsit5(), 1.0),
    ],
)
def test_the_region_of_a_solver_decides(value, solver, limit):
    part = stable_part(np.asarray([value, 0.1 * value], complex), solver, 10.0, 1.0001)
    # parts are the fourth root of two apart
    assert limit / 10 / 1.3 <= part <= limit / 10 * 1.02


def test_other_solvers_and_states_without_eigenvalues_have_no_limit():
    values = np.asarray([-1e6 + 0j])
    assert stable_part(values, diffrax.Kvaerno5(), 1.0, 1.01) == 1.0
    assert stable_part(np.zeros(0, complex), pdefit.solvers.RK4(), 1.0, 1.01) == 1.0
    assert eigenvalues(lambda t, y, args: y * jnp.nan, jnp.ones(3)).size == 0


class Power(pdefit.AbstractSystem):
    time_unit: ClassVar[str] = "1"

    def vector_field(self, t, y, args):
        fed = 1.0 - y["food"]
        return {"food": fed, "mass": 0.1 + y["mass"] ** 0.9 - jnp.log(y["food"])}

    def init(self, key):
        return {"food": jnp.ones(()), "mass": jnp.zeros(3)}


class StablePower(Power, pdefit.capabilities.AbstractStable):
    def stable_step(self, y):
        return 1 / float(jnp.max(0.9 * y["mass"] ** -0.1))


@pytest.mark.parametrize("system", [Power(), StablePower()], ids=["chosen", "stated"])
def test_an_infinite_jacobian_at_the_start_names_the_field_and_the_line(system):
    start = system.init(None)
    with pytest.raises(
        pdefit.PdefitError, match=r"Jacobian .* not finite .* 'mass': .*test_eigenvalues.py:\d+ `.*\*\* 0.9"
    ):
        choose_steps([(system, start)], None, pdefit.solvers.RK4())
    assert not_finite(system, {**start, "mass": jnp.full(3, 1e-6)}) is None
    assert "The vector field of" in not_finite(system, {"food": jnp.zeros(()), "mass": jnp.ones(3)})
