"""A staggered velocity and a centred field that do not move."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import pdefit
from pdefit.capabilities import FieldCoords


class Fields(NamedTuple):
    u: jax.Array
    v: jax.Array
    c: jax.Array


class Staggered(pdefit.AbstractSystem):
    """u' = v' = c' = 0, each component of the velocity on its faces."""

    time_unit: ClassVar[str] = "s"
    grid: pdefit.CartesianGrid

    def vector_field(self, t, y, args):
        return jax.tree.map(jnp.zeros_like, y)

    def init(self, key):
        shapes = [tuple(c.coords[d].size for d in c.dims) for c in self.coords().values()]
        return Fields(*(jax.random.uniform(k, s) for k, s in zip(jax.random.split(key, 3), shapes, strict=True)))

    def made(self, field):
        """The state whose fields are values of one function of x and y."""
        places = [np.meshgrid(*(c.coords[d] for d in c.dims), indexing="ij") for c in self.coords().values()]
        return Fields(*(jnp.asarray(field(*p)) for p in places))

    def coords(self):
        grid = self.grid
        faces = [
            c + h * np.arange(0 if wraps else 1, n)
            for c, h, n, wraps in zip(grid.corner, grid.spacing, grid.shape, grid.periodic, strict=True)
        ]
        x, y = grid.axis(0), grid.axis(1)
        return {
            "u": self._on(("x_face", "y"), (faces[0], y)),
            "v": self._on(("x", "y_face"), (x, faces[1])),
            "c": self._on(("x", "y"), (x, y)),
        }

    def _on(self, dims, places):
        return FieldCoords(dims, dict(zip(dims, places, strict=True)), coord_units=dict.fromkeys(dims, "mm"))
