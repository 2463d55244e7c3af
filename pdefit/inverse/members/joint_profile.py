"""Joint profile likelihoods: two scalars are held on a grid of values, and the remaining unknowns are fitted again."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit._util.run_state import RunState
from pdefit.inverse.members._advance_profiles import ProfileRun
from pdefit.inverse.members.member_state import MemberProgress
from pdefit.inverse.members.profile import check_profile, elements
from pdefit.inverse.objective.abstract import AbstractObjective

# how far the grid reaches, in half widths of the joint region by the matrix, and as a part of the size of a number that
# the data do not tell
_REACH, _UNKNOWN = 1.6, 0.5


@dataclasses.dataclass(frozen=True)
class JointProfile:
    """Joint profile likelihood of two scalars: J minimised over the remaining unknowns on a grid of their values.

    **Arguments:**

    - `controls`: the names of both scalars.
    - `first`, `second`: the held values in physical units, increasing, (n,).
    - `rise`: twice the increase of J there, (n, n); infinite if the model blows up.
    - `limit`: the increase at the edge of the joint region.
    - `estimate`, `units`: the estimates and units of both scalars.
    """

    controls: tuple[str, str]
    first: Float[np.ndarray, " n"]
    second: Float[np.ndarray, " n"]
    rise: Float[np.ndarray, "n n"]
    limit: float
    estimate: tuple[float, float]
    units: tuple[str, str]

    def rows(self) -> list[dict[str, Any]]:
        """Table rows, one for each pair of values."""
        first, second = self.controls
        return [
            {"first": first, "value": x, "second": second, "other": y, "rise": r, "limit": self.limit}
            for x, row in zip(self.first.tolist(), self.rise.tolist(), strict=True)
            for y, r in zip(self.second.tolist(), row, strict=True)
        ]

    def record(self) -> dict[str, Any]:
        """The content of joint_profiles.json, in units of the limit."""
        entry = {name: getattr(self, name) for name in ("controls", "first", "second", "estimate", "units")}
        # not finite where the model blows up
        return {"profiles": [entry | {"rise": self.rise / self.limit}]}


def joint_profile(
    functional: AbstractObjective,
    theta: Float[Array, " p"],
    pair: Sequence[str],
    *,
    points: int = 15,
    level: float = 0.95,
    sigma_stated: bool = False,
    devices: Sequence[Any] = (),
    callback: Callable[[MemberProgress], None] | None = None,
    resume: RunState | None = None,
) -> JointProfile:
    """Joint profile likelihood of two scalars; its region shows their compensation: straight, bent, or open.

    For two scalars that `identify` names as partners. Not for a single scalar (`profiles`), which takes far fewer fits.

    **Arguments:**

    - `functional`, `theta`: the fit and its estimate, (p,).
    - `pair`: the names of the two scalars.
    - `points`: the number of values of each, at least 3; all pairs are fitted in one program.
    - `level`: the probability of the joint region; default 0.95.
    - `sigma_stated`, `devices`, `callback`: as in `profiles`.
    - `resume`: a state that a callback saved in an earlier call with the same arguments.

    **Errors:** PdefitError for names that are not two scalars, and as in `profiles`.

    Source: W. Meeker, L. Escobar, Am. Stat. 49:48 (1995), doi:10.1080/00031305.1995.10476112.
    """
    numbers = elements(functional, pair)
    if numbers.size != 2 or points < 3:
        raise PdefitError(
            f"A joint profile expects two numbers and three points or more, but got {', '.join(pair)}, {points}"
        )
    check_profile(functional)
    run = ProfileRun(functional, np.asarray(theta), numbers, None, tuple(devices), callback)
    # for one number F is the square of t: the limit of two by the ratio of their quantiles
    ratio = scipy.special.chdtri(2, 1 - level) / scipy.special.chdtri(1, 1 - level)
    limit = float(run.limit(level, sigma_stated) * ratio)
    lower, upper = functional.controls.bounds
    sizes, at = np.asarray(functional.controls.sizes(jnp.asarray(theta))), run.estimate
    axes = []
    for i, k in enumerate(numbers):
        half = _REACH * np.sqrt(limit) * run.error[2 * i]
        half = half if np.isfinite(half) else _UNKNOWN * sizes[k]
        axes.append(np.linspace(max(at[k] - half, lower[k]), min(at[k] + half, upper[k]), points))
    places = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")], -1)
    begun = at + _together(run.way[::2], numbers, places - at[numbers])
    begun[:, numbers] = places
    found = run.fitted(begun, np.tile(numbers, (len(begun), 1)), resume)
    rise = np.where(np.isfinite(found), 2 * (found - run.value), np.inf).reshape(points, points)
    first, second = (run.physical(begun, int(k)).reshape(points, points) for k in numbers)
    names, units = functional.controls.names(), functional.controls.units()
    k, j = map(int, numbers)
    estimate = float(run.physical(at[None], k)[0]), float(run.physical(at[None], j)[0])
    return JointProfile((names[k], names[j]), first[:, 0], second[0], rise, limit, estimate, (units[k], units[j]))


def _together(
    ways: Float[np.ndarray, "2 p"], numbers: np.ndarray, steps: Float[np.ndarray, "m 2"]
) -> Float[np.ndarray, "m p"]:
    """Changes of all unknowns predicted by the matrix for two scalars, from those for each alone."""
    # way i moves number i by 1, and the other one with it
    mixed = ways[:, numbers]
    return steps @ np.linalg.pinv(mixed) @ ways
