"""Starts: many starting points of one fit."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.controls.priors import LogNormal, Normal
from pdefit.inverse.controls.transforms import Log, Log10, Softplus
from pdefit.inverse.objective.abstract import AbstractObjective

Design = Literal["sobol", "latin_hypercube"]
Within = Literal["bounds", "prior", "spread"]
# the rest of a normal density that no start comes from, at either end
_TAIL = 1e-3
# arrays of all starts in memory
_COPIES = 8


@dataclasses.dataclass(frozen=True)
class Starts:
    """Design of many starts of one fit, spread evenly over the ranges of its scalars.

    For landscapes with wrong minima: oscillations, chaos, guesses wrong by a factor of ten. Not if one fit already
    explains the data. With fields each start costs a whole fit, so take few.

    The first start is the guess itself. The design draws the scalars. Array parameters, such as the weights of a
    network, are drawn from a normal density as wide as the guess. Initial states, node states and smooth fields keep
    their guess.

    **Arguments:**

    - `count`: the number of starts; default 20.
    - `design`: `sobol` points (the default) or a `latin_hypercube`. Both fill the space more evenly than random points.
    - `within`: the density of the starts. `bounds`: between the bounds, uniform in search space. `prior`: the control's
      prior. `spread`: from the guess divided by `factor` to the guess times `factor`. A scalar without bounds, or
      without a prior, is drawn by `spread`. Default `spread`.
    - `factor`: the factor of `spread`; default 10. A scalar of either sign is drawn from the guess plus and minus its
      size, or plus and minus 1 if it is zero.
    - `keep`: the number of starts that are fitted to the end; default 5. The worse half is dropped after 10 evaluations
      on the first quarter of the record, and the rest but `keep` after 10 more on its first half. 0 drops none. If the
      record is cut into segments, or has fewer than 8 frames, all are fitted to the end.
    """

    count: int = 20
    design: Design = "sobol"
    within: Within = "spread"
    factor: float = 10.0
    keep: int = 5

    def __post_init__(self):
        if self.count < 1:
            raise PdefitError(f"starts.count expects 1 or more, but got {self.count}")
        if not self.factor > 1:
            raise PdefitError(f"starts.factor expects a number above 1, but got {self.factor}")
        if self.keep < 0:
            raise PdefitError(f"starts.keep expects 0 for all, or how many are fitted to the end, but got {self.keep}")

    def points(self, functional: AbstractObjective, seed: int) -> Float[Array, "E p"]:
        """The starts in search space.

        **Arguments:**

        - `functional`: the objective at its guess.
        - `seed`: the seed of the design and of random weights.
        """
        controls, theta0 = functional.controls, np.asarray(functional.theta0)
        if size := too_large((self.count, theta0.size, _COPIES)):
            raise PdefitError(
                f"{self.count} starts of {theta0.size} unknowns take {size} of memory; set starts.count smaller"
            )
        numbers = [c for c in controls.items if c.is_number and not c.is_state and c.is_plain]
        single = [c for c in numbers if c.shape == () or len(c.labels) == c.size > 1]
        cube = self._cube(sum(c.size for c in single), seed)
        random, found = np.random.default_rng(seed), np.tile(theta0, (self.count, 1))
        sizes = np.asarray(controls.sizes(functional.theta0))
        column = 0
        for c, span in controls.spans:
            if c in single:
                found[1:, span] = self._numbers(c, theta0[span], sizes[span], cube[:, column : column + c.size])
                column += c.size
            elif c in numbers:
                wide = np.sqrt(np.mean(theta0[span] ** 2)) or 1.0
                found[1:, span] = wide * random.standard_normal((self.count - 1, c.size))
        lower, upper = controls.bounds
        points = np.clip(found, lower, upper)
        if np.array_equal(points, np.broadcast_to(points[:1], points.shape)):
            raise PdefitError(
                "starts vary nothing: states and smooth fields keep their guess, and one start is the guess itself; remove "
                "starts, let a number be unknown, or set starts.count"
            )
        return jax.device_put(points)

    def _cube(self, dimensions: int, seed: int) -> Float[np.ndarray, "n d"]:
        """Points of the unit cube, one for each start except the guess."""
        if not dimensions or self.count == 1:
            return np.zeros((self.count - 1, dimensions))
        # here, because it takes half a second to load
        from scipy.stats import qmc

        if self.design == "latin_hypercube":
            return qmc.LatinHypercube(dimensions, rng=seed).random(self.count - 1)
        # whole powers of two keep the balance of the points
        power = int(np.ceil(np.log2(max(self.count - 1, 1))))
        return qmc.Sobol(dimensions, rng=seed).random_base2(power)[: self.count - 1]

    def _numbers(self, c: BoundControl, guess: np.ndarray, sizes: np.ndarray, cube: np.ndarray) -> np.ndarray:
        """Elements of a control in search space, from points of the unit cube, (E - 1, size)."""
        lower, upper = c.bounds
        if self.within == "bounds" and np.all(np.isfinite(lower) & np.isfinite(upper)):
            return lower + cube * (upper - lower)
        quantile = scipy.special.ndtri(_TAIL + (1 - 2 * _TAIL) * cube)
        if self.within == "prior" and isinstance(c.prior, Normal):
            return np.asarray(c.transform.to_search(jnp.asarray(c.prior.mean + c.prior.deviation * quantile))) / c.scale
        if self.within == "prior" and isinstance(c.prior, LogNormal):
            drawn = c.prior.median * np.exp(c.prior.deviation * quantile)
            return np.asarray(c.transform.to_search(jnp.asarray(drawn))) / c.scale
        # `sizes` is a factor e where the control is positive, and as much as the control itself elsewhere
        positive = isinstance(c.transform, Log | Log10 | Softplus)
        reach = sizes * (np.log(self.factor) if positive else 1.0)
        return guess + (2 * cube - 1) * reach
