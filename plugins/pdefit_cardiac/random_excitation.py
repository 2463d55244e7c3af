"""Waves from random kicks: a state in which every parameter leaves its trace."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

import pdefit
from pdefit_cardiac.boxes import weighted_sum
from pdefit_cardiac.tissue import AbstractTissue


class Kick(eqx.Module):
    """Adds `strength` to u in squares (segments, cubes) of `size` cells whose first cells are `corners`, not in blocks."""

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
    """From rest, or with `turning` from a wave that turns, `rounds` times: u gains `strength` in random squares, then the
    tissue runs for `interval`. One more kick and the time `last` follow, so that fronts move through whatever comes next:
    without, the tissue is often quiet after so long, and parameters of the front leave no trace. `last=None` leaves that
    kick out.

    **Arguments:** `squares` in each kick, `last_squares` in the last one (None: as many), each of `size` cells along every
    axis (segments along a cable); cells in several of them are kicked once. `interval`, `last` in ms. Squares of one key are
    at the same places on every grid, but smaller on a finer one: multiply `size` by its refinement. Good values: 20 squares
    of 3 cells at 128 x 128, 50 of 5 at 512 x 512. From rest, tissue that is not many wavelengths wide soon falls silent (the
    set TUTORIAL at 128 x 128 within half a second): for activity that lasts begin with a turning wave, and kick it in few
    places, which bends it without putting it out.
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
        """The kicks are modules with the same arrays: compiled once for all rounds."""
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
    """Tissue at rest, for a `Stimulus` to wake."""

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
