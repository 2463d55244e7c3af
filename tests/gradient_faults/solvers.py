"""Faults of solvers: linear solves, roots and steps of which the derivative is wrong."""

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from zoo import equations
from zoo.cases import LOG, X32
from zoo.equations import SplitFlow

import pdefit
import pdefit.integrate.solvers.implicit as implicit_tableau
from gradient_faults.fits import flow
from gradient_faults.plant import FAULTS, Fault, Planted, fault, wrong_transpose
from pdefit.integrate.solvers.explicit import ExplicitTableau
from pdefit.integrate.solvers.method import method_of


class Quiet(SplitFlow):
    """The solve of the linear part does not feel its parameters."""

    def linear_solve(self, y, h):
        held = dataclasses.replace(self, a=lax.stop_gradient(self.a))
        return SplitFlow.linear_solve(held, y, h)


class Twisted(SplitFlow):
    """The solve has a wrong transpose."""

    def linear_solve(self, y, h):
        return wrong_transpose(lambda ct: jax.tree.map(lambda c: jnp.roll(c, 1), ct))(
            SplitFlow.linear_solve(self, y, h)
        )


class Half(SplitFlow):
    """A part of the linear term is lost for the derivative, in the solve alone."""

    def linear_solve(self, y, h):
        found = SplitFlow.linear_solve(self, y, h)
        return jax.tree.map(lambda x: x + 1e-3 * (lax.stop_gradient(x) - x), found)


def split(cls: type = SplitFlow, rate: Callable = equations.allen_cahn) -> pdefit.Functional:
    x = X32
    return flow(
        rate,
        (0.05, 1.0),
        np.sin(x) + 0.3 * np.cos(3 * x),
        3.0,
        21,
        0.05,
        {"a": LOG, "b": LOG},
        cls,
        clean=equations.allen_cahn,
        symbol=_heat,
        length=2 * np.pi,
        solver=pdefit.solvers.IMEX(),
    )


def _heat(k, p):
    return -p[0] * k**2


for _name, _cls in {
    "imex_solve_without_parameters": Quiet,
    "imex_solve_transposed_wrong": Twisted,
    "imex_solve_a_thousandth": Half,
}.items():
    FAULTS[_name] = Fault("imex", _name, lambda cls=_cls: Planted(split(cls), split()))


@fault("imex")
def imex_explicit_part_stopped():
    return Planted(
        split(
            rate=lambda t, u, p, args: equations.allen_cahn(
                t, u, (p[0], 0.99 * p[1] + 0.01 * lax.stop_gradient(p[1])), args
            )
        ),
        split(),
    )


# --- implicit solves -----------------------------------------------------------------------------------------------------


def stiff() -> pdefit.Functional:
    free, solver = {"a": LOG, "b": LOG}, diffrax.Kvaerno3()
    return flow(equations.van_der_pol, (5.0, 1.0), np.array([2.0, 0.0]), 10.0, 21, 0.025, free, solver=solver)


def _lax_with(solve: Callable, root: Callable = lambda x: x) -> Any:
    """`jax.lax` with another solve of the linear equations in the derivative of a root."""

    def custom_root(f, guess, find, tangent_solve, has_aux=False):
        x, aux = lax.custom_root(f, guess, find, lambda g, b: solve(tangent_solve, g, b), has_aux=has_aux)
        return root(x), aux

    proxy = types.SimpleNamespace(**{name: getattr(lax, name) for name in dir(lax) if not name.startswith("__")})
    proxy.custom_root = custom_root
    return proxy


def in_root(name: str, solve: Callable, root: Callable = lambda x: x) -> None:
    FAULTS[name] = Fault(
        "implicit",
        name,
        lambda: Planted(stiff(), stiff()),
        patches=lambda: [(implicit_tableau, "lax", _lax_with(solve, root))],
    )


in_root("implicit_solve_off_by_1e-3", lambda right, g, b: 1.001 * right(g, b))
in_root("implicit_solve_forgets_the_jacobian", lambda right, g, b: b)
in_root("implicit_solve_sign", lambda right, g, b: -right(g, b))
in_root("implicit_root_stopped", lambda right, g, b: right(g, b), lax.stop_gradient)
in_root("implicit_solve_transposed", lambda right, g, b: jnp.linalg.solve(jax.jacfwd(g)(jnp.zeros_like(b)).T, b))


@fault("implicit", patches=lambda: [(implicit_tableau, "_DONE", 1e13), (implicit_tableau, "_FOUND", 1e14)])
def newton_stops_far_from_the_root():
    return Planted(stiff(), stiff())


# --- explicit solvers ----------------------------------------------------------------------------------------------------


class StoppedStage(pdefit.solvers.RK4):
    """A solver of which a part of each step is not differentiated."""


class _StoppedTableau(ExplicitTableau):
    def one_step(self, system, t, h, y, args):
        end = super().one_step(system, t, h, y, args)
        return jax.tree.map(lambda a, b: a + 0.01 * lax.stop_gradient(b - a) - 0.01 * (b - a), end, y)


@method_of.register
def _(solver: StoppedStage) -> Any:
    return _StoppedTableau(solver)


class TwistedStep(pdefit.solvers.RK4):
    """A solver whose reverse pass is late by a stage."""


class _TwistedTableau(ExplicitTableau):
    def one_step(self, system, t, h, y, args):
        end = super().one_step(system, t, h, y, args)
        return wrong_transpose(lambda ct: jax.tree.map(lambda c: (1 + 1e-4) * c, ct))(end)


@method_of.register
def _(solver: TwistedStep) -> Any:
    return _TwistedTableau(solver)


@fault("solver")
def a_hundredth_of_a_step_stopped():
    return Planted(flow(solver=StoppedStage()), flow())


@fault("solver")
def reverse_step_off_by_1e_4():
    return Planted(flow(solver=TwistedStep()), flow())
