"""The state of profile likelihoods: the sides of all profiles advance together, one point at a time."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Float, Int

from pdefit._util.errors import refusing
from pdefit._util.packed_state import pack, unpack
from pdefit._util.run_state import RunState
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.members._member_run import MemberRun
from pdefit.inverse.members.fit_members import AT_ONCE
from pdefit.inverse.members.member_state import MemberProgress
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import normal_equations, value_of
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.optimizers.gauss_newton_cg import GaussNewtonCG
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.uncertainty.control_values import moved

# a profile is followed as far as this many sizes of its number: a factor of 150, or five times the number itself
_REACH = 5.0
# points on one side, at most; evaluations of each
_POINTS, _MOST = 24, 60
# steps in the square root of the rise, as a part of that of the limit, and how well the limit is met
_STEP, _MET = 0.3, 0.02
# the Newton decrement that all unknowns together may be left with
_LEFT = 0.1
# how much longer, or shorter, the next step may be
_LONGER, _SHORTER = 3.0, 0.3

# what ends a side; a state holds the place in this list, of which the first is for one that goes on
_ENDS = GOES_ON, LIMIT, BOUND, FLAT, BLOWN_UP, ENDLESS = "", "limit", "bound", "flat", "blown up", "endless"


@dataclasses.dataclass(frozen=True)
class Profile:
    """Profile likelihood of one scalar: J minimised over the remaining unknowns, at held values of the scalar.

    **Arguments:**

    - `control`: the name of the scalar.
    - `values`: the held values in physical units, increasing, with the estimate among them, (n,).
    - `rise`: twice the increase of J there, (n,).
    - `theta`: the fitted points, (n, p).
    - `limit`: the increase at the ends of the interval.
    - `low`, `high`: the ends of the interval; for a side without an end, the furthest value tried.
    - `ends`: the reason for the end of the lower and the upper side. `limit`: noise cannot explain more. `bound`: the
      control's bound. `flat`: the data do not limit it. `blown up`: the model blows up beyond. `endless`: too many
      steps.
    """

    control: str
    values: Float[np.ndarray, " n"]
    rise: Float[np.ndarray, " n"]
    theta: Float[np.ndarray, "n p"]
    limit: float
    low: float
    high: float
    ends: tuple[str, str]

    @property
    def is_lower(self) -> bool:
        """True if J falls below the estimate's, which is then not a minimum."""
        return bool(self.rise.min() < -1e-2 * self.limit)


class _Sides(NamedTuple):
    """State of all sides.

    **Arguments:**

    - `at`, `before`: the present and the previous point of each side, (2 k, p).
    - `rises`: twice the increase of J there.
    - `step`, `last`: the next and the last step of the scalar.
    - `ended`, `tried`: the reason for each end, as an index of `_ENDS`, and the number of points tried.
    - `outside`: the position and increase of the nearest point beyond the limit, (2 k, 2); infinite without one.
    """

    at: Float[np.ndarray, "s p"]
    before: Float[np.ndarray, "s p"]
    rises: Float[np.ndarray, " s"]
    step: Float[np.ndarray, " s"]
    last: Float[np.ndarray, " s"]
    ended: Int[np.ndarray, " s"]
    tried: Int[np.ndarray, " s"]
    outside: Float[np.ndarray, "s 2"]


class _Points(NamedTuple):
    """Fitted points, (n, p), the side of each, and twice the increase of J there."""

    theta: Float[np.ndarray, "n p"]
    owners: Int[np.ndarray, " n"]
    heights: Float[np.ndarray, " n"]

    def with_points(
        self, theta: Float[np.ndarray, "m p"], owners: Int[np.ndarray, " m"], heights: Float[np.ndarray, " m"]
    ) -> "_Points":
        """The points with further ones appended."""
        return _Points(*(np.concatenate(x) for x in zip(self, (theta, owners, heights), strict=True)))


class ProfileRun:
    """Profiles in progress. A side is one of the two directions from the estimate, for one scalar."""

    def __init__(
        self,
        functional: AbstractObjective,
        theta: Float[np.ndarray, " p"],
        numbers: Int[np.ndarray, " k"],
        optimizer: AbstractOptimizer | None,
        devices: tuple[Any, ...],
        callback: Callable[[MemberProgress], None] | None,
    ):
        self.functional, self.estimate, self.numbers = functional, theta, numbers
        self.devices, self.callback = devices, callback
        few = functional.tangents <= FEW and functional.runner.adjoint.has_tangents
        # J is compared with the limit, so that what a state may be left with counts as a whole
        whole = GaussNewtonCG(decrement=_LEFT / theta.size)
        self.optimizer = optimizer or (LevenbergMarquardt() if few else whole)
        lower, upper = functional.controls.bounds
        sides, p = 2 * len(numbers), theta.size
        self.element, self.sign = np.repeat(numbers, 2), np.tile([-1.0, 1.0], len(numbers))
        self.bound = np.where(self.sign < 0, lower[self.element], upper[self.element])
        sizes = np.asarray(functional.controls.sizes(jnp.asarray(theta)))[self.element]
        self.reach = _REACH * sizes
        self.value, self.chi2, self.way, self.error = self._linear(few)
        far, zeros = np.full((sides, 2), np.inf), np.zeros(sides)
        step = np.where(np.isfinite(self.error), _STEP * 2 * self.error, 0.1 * sizes)
        none = np.zeros(sides, int)
        self.sides = _Sides(
            np.tile(theta, (sides, 1)), np.tile(theta, (sides, 1)), zeros, step, zeros.copy(), none, none.copy(), far
        )
        self.found = _Points(np.zeros((0, p)), np.zeros(0, int), np.zeros(0))
        self.inner: MemberRun | None = None

    def _linear(self, few: bool) -> tuple[float, float, np.ndarray, np.ndarray]:
        """J, chi2, the derivative of theta with each scalar, and the standard errors of the scalars for the stated sigma."""
        k, p = self.element, self.estimate.size
        at, way = jnp.asarray(self.estimate), np.zeros((k.size, p))
        way[np.arange(k.size), k] = 1.0
        error = np.full(k.size, np.inf)
        value = float(value_of(self.functional, at))
        if few:
            matrix = np.asarray(normal_equations(self.functional, at)[2])
            found = determined_inverse(matrix)
            inverse, error = found.matrix, found.errors[k]
            known = np.isfinite(error)
            way[known] = inverse[k[known]] / inverse[k, k][known, None]
        return value, 2 * (value - float(self.functional.extra_value(at))), way, error

    def limit(self, level: float, sigma_stated: bool) -> float:
        """Twice the increase of J at the ends of an interval."""
        degrees = max(self.functional.observed_values - self.functional.controls.bounds.free(self.estimate).sum(), 1)
        found = float(scipy.special.stdtrit(degrees, (1 + level) / 2)) ** 2 * self.chi2 / degrees
        return max(found, float(scipy.special.ndtri((1 + level) / 2)) ** 2) if sigma_stated else found

    @property
    def active(self) -> np.ndarray:
        return self.sides.ended == 0

    def advance(self, limit: float) -> None:
        """Fit one more point of every side, and choose the next step of each."""
        goal, sides = np.sqrt(limit), np.arange(self.element.size)
        origin = self.estimate[self.element]
        place = self.sides.at[sides, self.element]
        if self.inner is None:
            self.sides.last[:] = np.where(self.active, self._next(place, limit), 0.0)
            begun = self.sides.at + self._ahead() * self.sides.last[:, None]
            begun[sides, self.element] = place + self.sides.last
            self._begin(begun)
        inner = self.inner
        assert inner is not None
        inner.minimise()
        target = np.asarray(inner.own.theta0)[sides, self.element]
        rise, now = 2 * (inner.now.loss - self.value), self.sides
        root, before = (np.sqrt(np.maximum(x, 0.0)) for x in (rise, now.rises))
        fine = self.active & np.isfinite(rise)
        inside = fine & (rise <= limit)
        outside = self.active & ~inside
        now.tried[self.active] += 1
        self.found = self.found.with_points(inner.now.theta[fine], np.flatnonzero(fine), rise[fine])
        grown = root - before
        longer = np.clip(_STEP * goal / np.where(grown > 0, grown, np.nan), _SHORTER, _LONGER)
        now.step[inside] = (np.abs(now.last) * np.where(grown > 0, longer, _LONGER))[inside]
        now.before[inside], now.at[inside], now.rises[inside] = now.at[inside], inner.now.theta[inside], rise[inside]
        now.outside[outside] = np.stack([target, np.where(fine, rise, np.inf)], axis=1)[outside]
        cases = {
            LIMIT: fine & (np.abs(root - goal) <= _MET * goal),
            BOUND: inside & (target == self.bound),
            FLAT: inside & (np.abs(target - origin) >= self.reach),
            GOES_ON: now.tried < _POINTS,
            BLOWN_UP: np.isfinite(now.outside[:, 0]) & np.isinf(now.outside[:, 1]),
        }
        kinds = np.select([*cases.values()], [_ENDS.index(kind) for kind in cases], _ENDS.index(ENDLESS))
        now.ended[self.active] = kinds[self.active]
        self.inner = None

    def _next(self, place: np.ndarray, limit: float) -> np.ndarray:
        """Next step of each side, with its sign: to the predicted position of the limit, if known, else further."""
        room = np.minimum(self.sides.step, np.abs(self.bound - place))
        far, height = self.sides.outside[:, 0] - place, self.sides.outside[:, 1]
        low, high, goal = np.sqrt(np.maximum(self.sides.rises, 0.0)), np.sqrt(height), np.sqrt(limit)
        part = np.where(np.isfinite(height), (goal - low) / np.where(high > low, high - low, 1.0), 0.5)
        between = np.abs(np.where(np.isfinite(far), far, 0.0)) * np.clip(part, 0.1, 0.9)
        return self.sign * np.where(np.isfinite(far), between, room)

    def _ahead(self) -> np.ndarray:
        """Derivative of theta with the scalar of each side: from its last step, or at the estimate from the matrix."""
        moved = self.sides.at - self.sides.before
        own = moved[np.arange(self.element.size), self.element]
        return np.where((own != 0)[:, None], moved / np.where(own != 0, own, 1.0)[:, None], self.way)

    # --- the fits of one point of each side ----------------------------------------------------------------------------

    def _begin(self, theta: np.ndarray) -> None:
        self.inner = self._fits(theta, self.element[:, None], self._report)

    def _fits(
        self, theta: np.ndarray, held: Int[np.ndarray, "E h"], callback: Callable[[MemberProgress], None] | None
    ) -> MemberRun:
        members = Members.from_points(self.functional, jnp.asarray(theta)).holding(held)
        return MemberRun(members, [Stage(self.optimizer, _MOST)], AT_ONCE, self.devices, callback)

    def fitted(
        self, theta: Float[np.ndarray, "E p"], held: Int[np.ndarray, "E h"], resume: RunState | None
    ) -> Float[np.ndarray, " E"]:
        """J at many points, minimised over the elements of theta that are not held.

        **Arguments:**

        - `theta`: the points.
        - `held`: the held elements of each point.
        - `resume`: a state that the callback saved in an earlier call.
        """
        inner = self._fits(theta, held, self.callback)
        if resume is not None:
            inner.restore(resume)
        inner.minimise()
        return inner.now.loss

    def _report(self, progress: MemberProgress) -> None:
        if self.callback is not None:
            done = int((~self.active).sum())
            told = {"finished": done, "members": self.active.size, "state": self.state}
            self.callback(dataclasses.replace(progress, **told))

    def state(self) -> RunState:
        """The state from which the profiles can be resumed."""
        inner = RunState({}, {}) if self.inner is None else self.inner.state()
        begun = None if self.inner is None else np.asarray(self.inner.own.theta0)
        arrays = pack(sides=self.sides, found=self.found, begun=begun)
        return RunState({**inner.numbers, "under_way": self.inner is not None}, arrays | inner.arrays)

    @refusing("these profiles, whose folder 'profiles' may be removed")
    def restore(self, saved: RunState) -> None:
        """Adopt the state of saved profiles."""
        self.sides = unpack("sides", self.sides, saved.arrays)
        # points grow in number
        count = len(saved.arrays["found.owners"])
        like = jax.tree.map(lambda x: np.zeros((count, *x.shape[1:]), x.dtype), self.found)
        self.found = unpack("found", like, saved.arrays)
        if saved.numbers["under_way"]:
            self._begin(saved.arrays["begun"])
            assert self.inner is not None
            self.inner.restore(saved)

    # --- the result ------------------------------------------------------------------------------------------------------

    def profile(self, number: int, limit: float) -> Profile:
        """The profile of one scalar."""
        k = int(self.numbers[number])
        own = np.isin(self.found.owners, (2 * number, 2 * number + 1))
        theta = np.concatenate([self.estimate[None], self.found.theta[own]])
        rise = np.concatenate([[0.0], self.found.heights[own]])
        order = np.argsort(theta[:, k], kind="stable")
        ends, kinds = [], []
        for side in (2 * number, 2 * number + 1):
            kinds.append(_ENDS[int(self.sides.ended[side])])
            ends.append(self._crossing(side, k, limit) if kinds[-1] == LIMIT else self.sides.at[side, k])
        edges = np.tile(self.estimate, (2, 1))
        edges[:, k] = ends
        low, high = sorted(self.physical(edges, k).tolist())
        values = self.physical(theta, k)
        control = self.functional.controls.names()[k]
        return Profile(control, values[order], rise[order], theta[order], limit, low, high, (kinds[0], kinds[1]))

    def physical(self, points: Float[np.ndarray, "n p"], k: int) -> Float[np.ndarray, " n"]:
        """Element k of some points in physical units.

        **Arguments:** `points`, `k`: the points, and the index of the element.
        """
        nothing = jnp.zeros(self.estimate.size)
        return np.asarray(_VALUES(self.functional.controls, jnp.asarray(points), nothing))[:, k]

    def _crossing(self, side: int, k: int, limit: float) -> float:
        """Position at which the increase of a side equals the limit, between the two points around it."""
        own = self.found.owners == side
        places = np.append(self.found.theta[own, k], self.estimate[k])
        roots = np.append(np.sqrt(np.maximum(self.found.heights[own], 0.0)), 0.0)
        order = np.argsort(roots)
        return float(np.interp(np.sqrt(limit), roots[order], places[order]))


_VALUES = eqx.filter_jit(jax.vmap(moved, in_axes=(None, 0, None)))
