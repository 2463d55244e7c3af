"""Preparations of heart tissue: waves from random kicks, which depend on every parameter, and rest."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

import pdefit
from pdefit_cardiac.boxes import weighted_sum
from pdefit_cardiac.tissue import AbstractTissue


class Kick(eqx.Module):
    """A kick that adds `strength` to u in some squares (segments, cubes), except in blocks.

    **Arguments:**

    - `corners`: the first cell of each square, (squares, axes).
    - `strength`: the increase of u, once for each cell, even if squares overlap.
    - `tissue`: 1 where there is tissue and 0 in blocks, or None.
    - `size`: the number of cells of a square along every axis.
    """

    corners: Int[Array, "squares axes"]
    strength: Float[Array, ""]
    tissue: Array | None
    size: int = eqx.field(static=True)

    def __call__(self, y: Any) -> Any:
        parts = []
        for i, n in enumerate(y.u.shape):
            away = jnp.arange(n)[None] - self.corners[:, i, None]
            parts.append(((away >= 0) & (away < self.size)).astype(y.u.dtype))
        hit = weighted_sum(jnp.ones(self.corners.shape[0], y.u.dtype), parts) > 0
        if self.tissue is not None:
            hit &= self.tissue > 0
        return y._replace(u=y.u + jnp.where(hit, self.strength.astype(y.u.dtype), 0))


class RandomExcitation(pdefit.AbstractPreparation):
    """Preparation of heart tissue by kicks in random squares.

    A round adds `strength` to u in random squares and then runs the tissue for `interval`; there are `rounds` of them.

    It begins at rest, or with `turning` from a rotating wave. One more kick and a run of length `last` follow, so that
    fronts move in the data that follow. Without them the tissue is often quiet by then, and parameters of the front
    have no influence.

    Squares of one key are at the same places on every grid, but smaller on a finer one: multiply `size` by its
    refinement. Good values: 20 squares of 3 cells at 128 x 128, 50 of 5 at 512 x 512. From rest, tissue only a few
    wavelengths wide soon becomes quiet (the set TUTORIAL at 128 x 128 within half a second). For lasting activity
    begin with a rotating wave, and kick it in few places, which bends it without extinguishing it.

    **Arguments:**

    - `rounds`: the number of kicks before the last one; default 30.
    - `interval`: the time after each of these kicks, in ms; default 150.
    - `squares`: the number of squares of a kick; default 20. They may overlap.
    - `size`: the cells of a square along every axis (a segment along a cable); default 3.
    - `strength`: the increase of u; default 1.
    - `last`: the time after the last kick, in ms; default 5. With None there is no last kick.
    - `last_squares`: the number of squares of the last kick; by default `squares`.
    - `turning`: whether it begins with a rotating wave; default False.
    """

    rounds: int = 30
    interval: float = 150.0
    squares: int = 20
    size: int = 3
    strength: float = 1.0
    last: float | None = 5.0
    last_squares: int | None = None
    turning: bool = False

    def __check_init__(self):
        least = (("rounds", self.rounds, 0), ("squares", self.squares, 1), ("size", self.size, 1))
        for name, x, smallest in (*least, ("last_squares", self.last_squares, 1)):
            if x is not None and x < smallest:
                raise ValueError(f"RandomExcitation expects {name} of at least {smallest}, but got {x}")
        for name, time in (("interval", self.interval), ("last", self.last)):
            if time is not None and not 0 < time < float("inf"):
                raise ValueError(f"RandomExcitation expects {name} to be a time above 0, but got {time}")
        if self.last is None and self.rounds == 0:
            raise ValueError("RandomExcitation with rounds = 0 and no last kick does nothing; give one of them")

    def start(self, system, key):
        return system.init(key) if self.turning else _tissue(system).rest()

    def kicks(self, system, key):
        """The kicks, as modules with arrays of equal shape, so that one compiled program serves all rounds."""
        keys = jax.random.split(key, self.rounds + 1)
        kicks: list[tuple[Kick, float]] = [(self._kick(system, k, self.squares), self.interval) for k in keys[:-1]]
        if self.last is not None:
            kicks.append((self._kick(system, keys[-1], self.last_squares or self.squares), self.last))
        return kicks

    def _kick(self, system: Any, key: Array, squares: int) -> Kick:
        shape = _tissue(system).grid.shape
        if self.size > min(shape):
            raise ValueError(
                f"RandomExcitation expects squares within the grid, but size = {self.size} and the grid {shape}"
            )
        # the same parts of the way along each axis on every grid
        places = jax.random.uniform(key, (squares, len(shape)))
        corners = jnp.floor(places * (jnp.asarray(shape) - self.size + 1)[None]).astype(int)
        return Kick(corners, jnp.asarray(self.strength, float), system.tissue, self.size)


class Rest(pdefit.AbstractPreparation):
    """Preparation at rest, to be excited by a `Stimulus`."""

    def start(self, system, key):
        return _tissue(system).rest()

    def kicks(self, system, key):
        return []


def _tissue(system: Any) -> AbstractTissue:
    if not isinstance(system, AbstractTissue):
        raise pdefit.PdefitError(
            f"This initial state is one of heart tissue (cardiac/bocf, cardiac/aliev_panfilov), not {type(system).__name__}"
        )
    return system
