"""Every solver on problems with exact solutions: stated order, time dependence, irregular times, precision."""

import functools
from pathlib import Path
from typing import ClassVar, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pdefit_conf
import pytest
import yaml

import pdefit
from pdefit.cli.config._reader import make
from pdefit.integrate.loop.stable_step import real_stability

SOLVERS = Path(pdefit_conf.__file__).parent / "solver"


class Clock(pdefit.AbstractSystem):
    """y' = y cos t with the solution exp(sin t): time dependent, nonlinear in t."""

    time_unit: ClassVar[str] = "s"
    rate: jax.Array = pdefit.parameter(default=1.0)

    def vector_field(self, t, y, args):
        return self.rate * y * jnp.cos(t)

    def init(self, key):
        return jnp.ones(())


class Phase(NamedTuple):
    x: jax.Array
    v: jax.Array


class Pendulum(pdefit.AbstractSystem, pdefit.capabilities.AbstractMechanical, pdefit.capabilities.AbstractDiagonal):
    """x'' = -sin x + cos t: smooth, nonlinear and driven, and of a form for every kind of solver.

    L is the harmonic part, which turns the mode x + i v with the eigenvalue -i.
    """

    time_unit: ClassVar[str] = "s"

    def vector_field(self, t, y, args):
        return Phase(y.v, self.acceleration(t, y.x, args))

    def init(self, key):
        return Phase(jnp.ones(1), jnp.zeros(1))

    def positions(self, y):
        return y.x

    def velocities(self, y):
        return y.v

    def acceleration(self, t, x, args):
        return -jnp.sin(x) + jnp.cos(t)

    def assemble(self, x, v):
        return Phase(x, v)

    def explicit(self, t, y, args):
        return Phase(jnp.zeros_like(y.x), y.x - jnp.sin(y.x) + jnp.cos(t))

    def to_modes(self, y):
        return y.x + 1j * y.v

    def from_modes(self, modes):
        return Phase(modes.real, modes.imag)

    def eigenvalues(self):
        return jnp.asarray(-1j)


EXPLICIT = [
    diffrax.Euler(),
    diffrax.Heun(),
    diffrax.Bosh3(),
    pdefit.solvers.RK4(),
    diffrax.Tsit5(),
    diffrax.Dopri8(),
    pdefit.solvers.RKC(5),
]


def name(value):
    return type(value).__name__ if isinstance(value, diffrax.AbstractSolver) else str(value)


@pytest.mark.parametrize("solver", EXPLICIT, ids=name)
def test_our_steps_are_diffrax_steps(solver):
    """The same formula as diffrax's own loop, to round-off."""
    theirs = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: y * jnp.cos(t)),
        solver,
        0.0,
        1.0,
        0.1,
        jnp.ones(()),
    ).ys
    ours = pdefit.solve(Clock(), jnp.ones(()), np.array([1.0]), solver=solver, dt=0.1, t0=0.0)
    np.testing.assert_allclose(ours[-1], theirs[-1], rtol=1e-13)


@pytest.mark.parametrize(
    "solver",
    [pdefit.solvers.RK4(), diffrax.Euler(), pdefit.solvers.Yoshida4(), pdefit.solvers.RKC(5), diffrax.Kvaerno5()],
    ids=name,
)
def test_padding_does_not_change_a_trajectory(solver):
    """Intervals of different length in one scan, against each alone."""
    system = Pendulum()
    y0, ts = system.init(None), np.array([0.3, 0.35, 1.0])
    together = pdefit.solve(system, y0, ts, solver=solver, dt=0.1, t0=0.0)
    y, t = y0, 0.0
    for i, stop in enumerate(ts):
        y = jax.tree.map(lambda x: x[-1], pdefit.solve(system, y, np.array([stop]), solver=solver, dt=0.1, t0=t))
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-14), together, y)
        t = float(stop)


class Circle(pdefit.AbstractSystem):
    """A point runs around the origin as fast as the square of its distance: the exact solution of a nonlinear system.

    The pairs of order five have error coefficients so small that elsewhere they look like methods of order six.
    """

    time_unit: ClassVar[str] = "s"

    def vector_field(self, t, y, args):
        speed = y.x**2 + y.v**2
        return Phase(speed * y.v, -speed * y.x)

    def init(self, key):
        return Phase(jnp.ones(1), jnp.zeros(1))


# of every solver that `pdefit list solvers` shows, the stated order, and where its errors are neither coarse nor round-off
LISTED = {
    "euler": (1, Pendulum, 3.0, (512, 1024, 2048)),
    "heun": (2, Pendulum, 3.0, (64, 128, 256)),
    "rkc": (2, Pendulum, 3.0, (64, 128, 256)),
    "imex": (2, Pendulum, 3.0, (64, 128, 256)),
    "velocity_verlet": (2, Pendulum, 3.0, (64, 128, 256)),
    "bosh3": (3, Pendulum, 3.0, (64, 128, 256)),
    "kvaerno3": (3, Pendulum, 3.0, (64, 128, 256)),
    "etdrk4": (4, Pendulum, 3.0, (64, 128, 256)),
    "rk4": (4, Pendulum, 3.0, (64, 128, 256)),
    "yoshida4": (4, Pendulum, 3.0, (128, 256, 512)),
    "dopri5": (5, Circle, 3.0, (16, 32, 64)),
    "tsit5": (5, Circle, 3.0, (64, 128, 256)),
    "kvaerno5": (5, Pendulum, 4.0, (32, 64, 128)),
    "dopri8": (8, Pendulum, 4.0, (8, 16, 32)),
}


@functools.cache
def end(problem, t1, solver, n):
    """The state after n steps; that of the reference serves all solvers."""
    system = problem()
    y = pdefit.solve(system, system.init(None), np.array([t1]), solver=solver, dt=t1 / n, t0=0.0)
    return [np.asarray(x) for x in y]


@pytest.mark.parametrize("file", sorted(set(SOLVERS.glob("*.yaml")) - {SOLVERS / "auto.yaml"}), ids=lambda f: f.stem)
def test_every_listed_solver_has_its_order(file):
    solver = make(yaml.safe_load(file.read_text()), "solver", diffrax.AbstractSolver)
    order, problem, t1, counts = LISTED[file.stem]
    assert solver.order(None) == order
    exact, ends = end(problem, t1, diffrax.Dopri8(), 1000), [end(problem, t1, solver, n) for n in counts]
    errors = [max(np.max(np.abs(a - b)) for a, b in zip(y, exact, strict=True)) for y in ends]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), order, atol=0.2, err_msg=str(errors))


def test_late_times_do_not_spoil_the_step_in_float32():
    """A step of 1e-3 at t = 1e4 differs by 2 % when formed as a difference of float32 times."""

    class Constant(pdefit.AbstractSystem):
        time_unit: ClassVar[str] = "s"

        def vector_field(self, t, y, args):
            return jnp.ones_like(y)

        def init(self, key):
            return jnp.zeros((), jnp.float32)

    for solver in (pdefit.solvers.RK4(), diffrax.Heun()):
        y = pdefit.solve(Constant(), jnp.zeros((), jnp.float32), np.array([1e4 + 0.1]), solver=solver, dt=1e-3, t0=1e4)
        assert y.dtype == jnp.float32
        np.testing.assert_allclose(y[-1], 0.1, rtol=1e-5)


def test_symplectic_solvers_want_a_mechanical_system():
    with pytest.raises(ValueError, match="choose a Runge-Kutta solver"):
        pdefit.solve(Clock(), jnp.ones(()), np.array([1.0]), solver=pdefit.solvers.VelocityVerlet(), dt=0.1, t0=0.0)


@pytest.mark.parametrize(
    ("solver", "reach"),
    [(diffrax.Euler(), 2.0), (diffrax.Heun(), 2.0), (diffrax.Bosh3(), 2.513), (pdefit.solvers.RK4(), 2.785)],
)
def test_the_stability_limit_is_that_of_the_method(solver, reach):
    np.testing.assert_allclose(real_stability(solver), reach, atol=0.01)
