"""Three species that diffuse and react: A + B makes C, which dissociates again."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit


class Species(NamedTuple):
    """The state: concentrations A and B of two partners and C of their product, in mol/L, of the grid's shape."""

    A: Float[Array, "*grid"] = pdefit.field(unit="mol/L", doc="concentration of A", diffusivity="D")
    B: Float[Array, "*grid"] = pdefit.field(unit="mol/L", doc="concentration of B", diffusivity="D")
    C: Float[Array, "*grid"] = pdefit.field(unit="mol/L", doc="concentration of C", diffusivity="D")


class Association(pdefit.ReactionDiffusion, pdefit.capabilities.AbstractVerifiable):
    """Reversible association with sources, decay and diffusion, in one, two or three dimensions.

        A_t = D lap A + a(x) - k_A A - k_on A B + k_off C
        B_t = D lap B + b    - k_B B - k_on A B + k_off C
        C_t = D lap C + c    - k_C C + k_on A B - k_off C

    All concentrations are zero initially. Good values: `one_sided_source`, where the rates are 1 and D is 100.
    Diffusion over one of its 128 x 128 cells is then a thousand times faster than the reactions, which suits RKC or
    IMEX.

    **Arguments:**

    - `grid`: the cells, with lengths in um.
    - `D`: the diffusivity of all species, in um^2/s.
    - `a`: the source of A, in mol/L/s: a number or a field of the grid's shape. It is usually the unknown.
    - `b`, `c`: the sources of B and C, in mol/L/s; default 1.
    - `k_A`, `k_B`, `k_C`: the decay rates, in 1/s; default 1.
    - `k_on`, `k_off`: the rates of association, in L/mol/s, and of dissociation, in 1/s; default 1.

    Source: C. Rackauckas et al., Universal differential equations for scientific machine learning (2020),
    arXiv:2001.04385, and the tutorial on partial differential equations of DifferentialEquations.jl.
    """

    time_unit: ClassVar[str] = "s"

    D: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity")
    a: Array = pdefit.parameter(unit="mol/L/s", doc="source of A", dims=("x", "y", "z"))
    b: Array = pdefit.parameter(unit="mol/L/s", default=1.0, doc="source of B")
    c: Array = pdefit.parameter(unit="mol/L/s", default=1.0, doc="source of C")
    k_A: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="decay rate of A")
    k_B: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="decay rate of B")
    k_C: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="decay rate of C")
    k_on: Array = pdefit.parameter(unit="L/mol/s", positive=True, default=1.0, doc="association rate")
    k_off: Array = pdefit.parameter(unit="1/s", positive=True, default=1.0, doc="dissociation rate")

    def reaction(self, t, y, args):
        made = self.k_on * y.A * y.B - self.k_off * y.C
        return Species(self.a - self.k_A * y.A - made, self.b - self.k_B * y.B - made, self.c - self.k_C * y.C + made)

    def init(self, key):
        nothing = jnp.zeros(self.grid.shape, self.D.dtype)
        return Species(nothing, nothing, nothing)

    def stiffness(self, y):
        # the eigenvalues of association alone are 0 and its trace, and decay adds its fastest rate at most
        decay = jnp.max(jnp.stack([self.k_A, self.k_B, self.k_C]))
        return decay + jnp.max(self.k_on * jnp.maximum(y.A + y.B, 0.0)) + self.k_off

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(resolution,), extent=(4.0,), length_unit="um")
        x = grid.axis(0)
        numbers = {"D": 0.3, "a": 2.0, "k_A": 0.8, "k_B": 1.3, "k_C": 0.6, "k_on": 1.5, "k_off": 0.7}
        system = cls(grid, **{name: jnp.asarray(value) for name, value in numbers.items()})
        # fronts of two partners that meet
        A, B = 2 / (1 + np.exp((x - 1.5) / 0.3)), 1.5 / (1 + np.exp((2.5 - x) / 0.3))
        y0 = Species(*map(jnp.asarray, (A, B, 0.2 + 0.1 * np.cos(x))))
        return pdefit.capabilities.Example(system, y0, np.linspace(0.0, 1.0, 5), 0.02, space_order=2, time_order=4)


def one_sided_source(
    grid: pdefit.CartesianGrid, edge: float = 80.0, D: float = 100.0, **parameters: Any
) -> Association:
    """The benchmark of Rackauckas et al.: a source of A of rate 1 at x > `edge`, in the box [0, 100]^2.

    **Arguments:**

    - `grid`: the cells, with lengths in um.
    - `edge`: the left end of the source of A, in um; default 80.
    - `D`: the diffusivity, in um^2/s; default 100.
    - `parameters`: other arguments of `Association`; by default all are 1.
    """
    a = np.where(grid.axis(0) > edge, 1.0, 0.0).reshape(-1, *(1,) * (grid.ndim - 1))
    return Association(grid, **{"D": D, "a": np.broadcast_to(a, grid.shape), **parameters})
