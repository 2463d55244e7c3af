"""Three species that diffuse and react: A + B makes C, and falls apart again."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit


class Species(NamedTuple):
    """Concentrations of the two partners and of what they make, each of the grid's shape."""

    A: Float[Array, "*grid"]
    B: Float[Array, "*grid"]
    C: Float[Array, "*grid"]


class Association(
    pdefit.AbstractSystem,
    pdefit.AbstractVerifiable,
    pdefit.AbstractGridded,
    pdefit.AbstractRefinable,
    pdefit.AbstractStable,
    pdefit.AbstractSplit,
):
    """Reversible association with sources, decay and diffusion, in one, two or three dimensions.

        A_t = D lap A + a(x) - k_A A - k_on A B + k_off C
        B_t = D lap B + b    - k_B B - k_on A B + k_off C
        C_t = D lap C + c    - k_C C + k_on A B - k_off C

    All start from nothing. The source a may be a number or a field of the grid's shape: where A is made is what one usually
    does not know. Good values: `one_sided_source`; the rates are 1 and D is 100, so that diffusion over one of its
    128 x 128 cells is a thousand times faster than the reactions: a case for RKC or IMEX.

    Source: C. Rackauckas et al., Universal differential equations for scientific machine learning (2020),
    arXiv:2001.04385, and the tutorial on partial differential equations of DifferentialEquations.jl.
    """

    time_unit: ClassVar[str] = "s"

    grid: pdefit.CartesianGrid
    D: Array = pdefit.parameter(unit="um^2/s", positive=True, doc="diffusivity")
    a: Array = pdefit.parameter(unit="mol/L/s", doc="source of A", dims=("x", "y", "z"))
    b: Array = pdefit.parameter(unit="mol/L/s", default=1.0, doc="source of B")
    c: Array = pdefit.parameter(unit="mol/L/s", default=1.0, doc="source of C")
    k_A: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="decay rate of A")
    k_B: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="decay rate of B")
    k_C: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="decay rate of C")
    k_on: Array = pdefit.parameter(unit="L/mol/s", positive=True, default=1.0, doc="association rate")
    k_off: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="dissociation rate")

    def vector_field(self, t, y, args):
        return self._rates(y, *(pdefit.diffuse(self.grid, self.D, u) for u in y))

    def explicit(self, t, y, args):
        return self._rates(y, *(self._wall(u) for u in y))

    def linear(self, y):
        return Species(*(pdefit.diffuse(self.grid, self.D, u) - self._wall(u) for u in y))

    def linear_solve(self, y, h):
        return Species(*(pdefit.diffusion_solve(self.grid, self.D, h, u) for u in y))

    def _wall(self, u: Array) -> Array:
        """What a Dirichlet value brings in, whatever u is."""
        return pdefit.diffuse(self.grid, self.D, jnp.zeros_like(u))

    def _rates(self, y: Species, of_A: Array, of_B: Array, of_C: Array) -> Species:
        """Sources and reactions on top of something else."""
        p = pdefit.with_rows(self, y.A)
        made = p.k_on * y.A * y.B - p.k_off * y.C
        return Species(
            of_A + p.a - p.k_A * y.A - made, of_B + p.b - p.k_B * y.B - made, of_C + p.c - p.k_C * y.C + made
        )

    def init(self, key):
        nothing = jnp.zeros(self.grid.shape, self.D.dtype)
        return Species(nothing, nothing, nothing)

    def stable_step(self, y):
        spread = 4 * float(jnp.max(self.D)) * sum(1 / h**2 for h in self.grid.spacing)
        # the eigenvalues of the exchange alone are 0 and its trace; decay adds its fastest rate at most
        decay = float(jnp.max(jnp.stack([self.k_A, self.k_B, self.k_C])))
        exchange = float(jnp.max(self.k_on * jnp.maximum(y.A + y.B, 0.0)) + self.k_off)
        return 2 / (spread + decay + exchange)

    def coords(self):
        return {name: self.grid.coords(unit="mol/L", long_name=f"concentration of {name}") for name in "ABC"}

    def coarsen(self, y, factor):
        return Species(*(self.grid.coarsen(u, factor) for u in y))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(resolution,), extent=(4.0,), length_unit="um")
        x = grid.axis(0)
        numbers = {"D": 0.3, "a": 2.0, "k_A": 0.8, "k_B": 1.3, "k_C": 0.6, "k_on": 1.5, "k_off": 0.7}
        system = cls(grid, **{name: jnp.asarray(value) for name, value in numbers.items()})
        # fronts of two partners that meet
        A, B = 2 / (1 + np.exp((x - 1.5) / 0.3)), 1.5 / (1 + np.exp((2.5 - x) / 0.3))
        y0 = Species(*map(jnp.asarray, (A, B, 0.2 + 0.1 * np.cos(x))))
        return pdefit.Example(system, y0, np.linspace(0.0, 1.0, 5), 0.02, space_order=2, time_order=4)


def one_sided_source(
    grid: pdefit.CartesianGrid, edge: float = 80.0, D: float = 100.0, **parameters: Any
) -> Association:
    """The benchmark of Rackauckas et al.: A is made at a rate of 1 where x > `edge`, in the box [0, 100]^2; D = 100, and all
    other numbers are 1."""
    a = np.where(grid.axis(0) > edge, 1.0, 0.0).reshape(-1, *(1,) * (grid.ndim - 1))
    return Association(grid, **{"D": D, "a": np.broadcast_to(a, grid.shape), **parameters})
