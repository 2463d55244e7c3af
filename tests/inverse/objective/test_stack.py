"""Records of different times in one stack, beside each record alone."""

from pathlib import Path
from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pdefit_conf
import pytest
import yaml
from small_systems import Motion

import pdefit
from pdefit.cli.config._reader import make
from pdefit.integrate.loop import time_grid
from pdefit.inverse.objective.functional import Functional

SOLVERS = Path(pdefit_conf.__file__).parent / "solver"


class Spring(pdefit.AbstractSystem, pdefit.capabilities.AbstractMechanical, pdefit.capabilities.AbstractDiagonal):
    """x'' = -k x + 2 from rest at x = 1, of a form for every kind of solver: x = 2/k + (1 - 2/k) cos(sqrt(k) t)."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return Motion(y.v, self.acceleration(t, y.x, args))

    def init(self, key):
        return Motion(jnp.ones(1), jnp.zeros(1))

    def positions(self, y):
        return y.x

    def velocities(self, y):
        return y.v

    def acceleration(self, t, x, args):
        return 2.0 - self.k * x

    def assemble(self, x, v):
        return Motion(x, v)

    def explicit(self, t, y, args):
        return Motion(jnp.zeros_like(y.x), jnp.full_like(y.x, 2.0))

    def to_modes(self, y):
        return y.x + 1j * y.v / jnp.sqrt(self.k)

    def from_modes(self, modes):
        return Motion(modes.real, jnp.sqrt(self.k) * modes.imag)

    def eigenvalues(self):
        return -1j * jnp.sqrt(self.k)


def records(solver, k=1.7):
    """Two springs with data of k = 1.7 at random times: three different steps in one record, five in the other."""
    random, found = np.random.default_rng(0), []
    for count in (4, 6):
        ts = np.append(0.0, np.sort(random.uniform(0.1, 1.5, count - 1)))
        data = pdefit.Observations.build(ts, {"x": (2 + (1.7 - 2) * np.cos(np.sqrt(1.7) * ts))[:, None] / 1.7}, 0.01)
        system = Spring(k=jnp.asarray(k))
        problem = pdefit.Problem(system, system.init(None), pdefit.instruments.Select(("x",)))
        own = {"k": pdefit.Control(pdefit.transforms.Log(), scope="experiment")}
        found.append(pdefit.Functional(problem, data, own, solver=solver, dt=0.3))
    return found


@eqx.filter_jit
def residuals(singles, joint, members):
    """The residuals of every record alone, in a sum of recordings, and as a member of many fits."""
    return (
        [f.residuals(f.theta0) for f in singles],
        joint.residuals(joint.theta0).reshape(2, -1),
        members.each(Functional.residuals, members.theta0),
    )


def check(solver):
    """Both stacks agree with the single records to round-off, whose residuals are returned."""
    singles = records(solver)
    alone, *stacks = residuals(singles, pdefit.Recordings(singles), pdefit.Members.of(singles))
    for stack in stacks:
        for one, found in zip(alone, stack, strict=True):
            np.testing.assert_allclose(found[: one.size], one, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(found[one.size :], 0.0)
    return np.concatenate(alone)


@pytest.mark.parametrize("file", sorted(set(SOLVERS.glob("*.yaml")) - {SOLVERS / "auto.yaml"}), ids=lambda f: f.stem)
def test_records_whose_steps_differ_in_number_are_stacked_for_every_solver(file):
    check(make(yaml.safe_load(file.read_text()), "solver", diffrax.AbstractSolver))


@pytest.mark.parametrize("most", [256, 4])
def test_coefficients_are_those_of_the_steps_of_each_record(most, monkeypatch):
    """The exponential steps are exact here. Of more than `most` different steps there is no list, in no record."""
    monkeypatch.setattr(time_grid, "_MOST_SIZES", most)
    singles = records(pdefit.solvers.ETDRK4())
    assert [f.layout.time_grid.sizes is None for f in singles] == [False, most == 4]
    sizes = pdefit.Recordings(singles).stack.own.layout.time_grid.sizes
    assert sizes is None if most == 4 else sizes.shape == (2, 1, 5)
    np.testing.assert_allclose(check(pdefit.solvers.ETDRK4()), 0.0, atol=1e-11)
