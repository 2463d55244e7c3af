"""Cells in several wells whose spread and growth are free functions of their density."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractStable, AbstractVerifiable, Example, FieldCoords
from pdefit.terms import AbstractTerm, Formula
from pdefit_reaction._slope import largest_slope

# days of a lag that is none
_NO_LAG = 1e-9


class State(NamedTuple):
    """The density of cells in every well, in cells/mm^2."""

    u: Float[Array, "well x"]


class FreeInvasion(pdefit.AbstractSystem, AbstractStable, AbstractVerifiable):
    """Invasion of free space by cells: u_t = div(D(u) grad u) + w f(u), with two unknown functions of the density.

    All wells form one state, without exchange. D and f are terms: a series or a spline to be fitted, or a formula.
    Fisher's equation has constant D and f = r u (1 - u / K). With a lag, growth starts slowly, w = 1 - exp(-t / lag). A
    face between cells has the mean D of both. D must be positive at all densities that occur: take a series that is
    `positive`.

    **Arguments:**

    - `grid`: the columns across the scratch, with lengths in mm.
    - `D`, `growth`: terms of u, in mm^2/day and cells/mm^2/day, with u in cells/mm^2; by default Fisher's equation.
    - `lag`: the time scale of the start of growth, in days; default 0.
    - `wells`: the number of wells; default 1.

    Source: W. Jin et al., J. Theor. Biol. 390:136 (2016), for the special cases,
    doi:10.1016/j.jtbi.2015.10.040.
    """

    time_unit: ClassVar[str] = "day"
    grid: pdefit.CartesianGrid
    D: AbstractTerm = pdefit.parameter(
        default_factory=lambda: Formula("D0", ("u",), {"D0": 0.012}),
        unit="length^2/time",
        doc="diffusivity at a density",
    )
    growth: AbstractTerm = pdefit.parameter(
        default_factory=lambda: Formula("r * u * (1 - u / K)", ("u",), {"r": 1.2, "K": 1700.0}),
        unit="cells/mm^2/day",
        doc="growth at a density",
    )
    lag: Array = pdefit.parameter(default=0.0, unit="day", doc="time after which growth has woken up")
    wells: int = eqx.field(default=1, static=True)

    def vector_field(self, t, y, args):
        spread = jax.vmap(lambda D, u: pdefit.diffuse(self.grid, D, u))(self.D(y.u), y.u)
        return State(spread - jnp.expm1(-t / jnp.maximum(self.lag, _NO_LAG)) * self.growth(y.u))

    def init(self, key):
        """A scratch in every well: a third of the width is empty."""
        x, width = self.grid.mesh()[0], self.grid.extent[0]
        full = 0.05 + 0.35 * (jnp.abs(x - self.grid.corner[0] - width / 2) > width / 6)
        return State(jnp.outer(jnp.linspace(1000.0, 1700.0, self.wells), full))

    def coords(self):
        # so far apart that no smoothing reaches from one well to the next
        places = {"well": 1000.0 * self.grid.extent[0] * np.arange(self.wells), "x": self.grid.axis(0)}
        units = dict.fromkeys(places, self.grid.length_unit)
        return {"u": FieldCoords(("well", "x"), places, "cells/mm^2", "density of cells", units)}

    def stable_step(self, y):
        spread = 4 * float(jnp.max(self.D(y.u))) * sum(1 / h**2 for h in self.grid.spacing)
        return 2 / (spread + largest_slope(self.growth, y.u))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(2 * resolution,), extent=(1.9,), length_unit="mm")
        D = Formula("a + b * u", ("u",), {"a": 0.006, "b": 4e-6})
        growth = Formula("r * u * (1 - u / K)", ("u",), {"r": 1.2, "K": 1700.0})
        system = cls(grid=grid, D=D, growth=growth, lag=jnp.asarray(0.3), wells=2)
        wave = jnp.cos(2 * jnp.pi * grid.mesh()[0] / 1.9)
        y = State(jnp.stack([850 * (1 + 0.8 * wave), 500 * (1 - 0.5 * wave)]))
        return Example(
            system, y, np.linspace(0.0, 1.0, 4), 0.2 * grid.spacing[0] ** 2 / 0.012, space_order=2, time_order=4
        )
