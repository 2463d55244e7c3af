"""Bootstrap: the spread of estimates over resampled data, beside the intervals of the Gauss-Newton matrix."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit._util.run_state import RunState
from pdefit.inverse.fit.refused_combinations import Choices, refuse
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.members._drawn_recordings import refits
from pdefit.inverse.members.fit_members import AT_ONCE, fit_members, plan_of
from pdefit.inverse.members.member_state import MemberProgress
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.uncertainty.control_values import moved, moved_each
from pdefit.inverse.uncertainty.intervals import Intervals

# evaluations of a repetition, which begins at the estimate
_MOST = 50


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """Settings of a bootstrap: repeated fits of resampled data, as a measure of uncertainty.

    For scalars whose Gauss-Newton interval is doubtful: bounds, strong curvature, few data. Not for fields, and not for
    a model whose misfit noise cannot explain.

    **Arguments:**

    - `count`: the number of repetitions; default 200.
    - `kind`: `parametric` (the default) adds new noise of the stated sigma to the fit. `blocks` adds the fit's own
      residuals in random blocks of successive frames, which preserves their size, and their correlation within a block.
      `recordings` draws whole recordings with replacement, and gives intervals of shared scalars. It is valid if the
      model errs differently in each recording, and needs twenty recordings or more.
    - `block`: the number of frames in a block; by default the cube root of the number of frames, but at least 1.
    - `steps`: the number of evaluations of a repetition, which then counts wherever it ends. For fits at a minimum with
      expensive evaluations. By default only repetitions that end in a minimum count.

    Sources: B. Efron, Ann. Statist. 7:1 (1979), doi:10.1214/aos/1176344552; for blocks H. Kuensch, Ann. Statist. 17:1217
    (1989), doi:10.1214/aos/1176347265; for few steps D. Andrews, Econometrica 70:119 (2002), doi:10.1111/1468-0262.00270.
    """

    count: int = 200
    kind: Literal["parametric", "blocks", "recordings"] = "parametric"
    block: int | None = None
    steps: int | None = None

    def __post_init__(self):
        if self.count < 2:
            raise PdefitError(f"bootstrap.count expects 2 or more, but got {self.count}")
        if self.block is not None and self.block < 1:
            raise PdefitError(f"bootstrap.block expects a number of frames, 1 or more, but got {self.block}")
        if self.steps is not None and self.steps < 2:
            raise PdefitError(f"bootstrap.steps expects 2 evaluations or more, or null, but got {self.steps}")

    def data(self, functional: Functional, theta: Float[Array, " p"], seed: int) -> dict[str, Float[Array, "E T ..."]]:
        """Values of every variable for all repetitions.

        **Arguments:**

        - `functional`, `theta`: a fit of one trajectory from the initial state, and its estimate, (p,).
        - `seed`: the seed of the noise.
        """
        refuse(Choices.of(functional, (), "bootstrap", resampled=self.kind))
        random, made = np.random.default_rng(seed), dict[str, Array]()
        # residuals are smaller than the noise, because numbers were fitted to it
        values = functional.observed_values
        larger = np.sqrt(values / max(values - functional.controls.bounds.free(theta).sum(), 1))
        for name, residuals in weighted(functional, theta).items():
            r = residuals[0]
            observed, sigma = (
                np.asarray(x[name]) for x in (functional.observations.values, functional.observations.sigma)
            )
            fitted = observed + r * sigma
            if self.kind == "parametric":
                drawn = random.standard_normal((self.count, *r.shape))
            else:
                drawn = larger * self._blocks(r, random)
            made[name] = jnp.asarray(fitted - drawn * sigma, functional.observations.values[name].dtype)
        return made

    def _blocks(self, r: Float[np.ndarray, "T ..."], random: np.random.Generator) -> Float[np.ndarray, "E T ..."]:
        """Residuals in blocks of successive frames, which start anywhere and wrap around at the end of the record."""
        frames = r.shape[0]
        length = self.block or max(1, round(frames ** (1 / 3)))
        starts = random.integers(frames, size=(self.count, -(-frames // length)))
        index = (starts[:, :, None] + np.arange(length)).reshape(self.count, -1)[:, :frames] % frames
        return (r - r.mean(axis=0))[index]


@dataclasses.dataclass(frozen=True)
class Bootstrapped:
    """Result of a bootstrap: the estimates of all repetitions, and intervals.

    **Arguments:**

    - `theta`: the estimates of all valid repetitions, (n, p); for recordings, of the p shared scalars.
    - `values`: the estimates as physical values, (n, p).
    - `low`, `high`: the ends of the intervals, (p,), in physical units; NaN for scalars at a bound.
    - `failed`: the number of invalid repetitions.
    - `names`: the names of the elements.
    - `kind`: the kind of the repetitions, as in `Bootstrap`.
    - `tabulated`: the indices of the elements in tables.
    - `matrix`: intervals from the Gauss-Newton matrix, for the tables; default None.
    """

    theta: Float[np.ndarray, "n p"]
    values: Float[np.ndarray, "n p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]
    failed: int
    names: tuple[str, ...]
    kind: str
    tabulated: list[int]
    matrix: Intervals | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Rows of bootstrap.csv: the intervals of each scalar."""
        spread, matrix, rows = self.values.std(axis=0, ddof=1), self.matrix, []
        for i in self.tabulated:
            row = {"control": self.names[i], "repetitions": len(self.theta), "standard_deviation": spread[i]}
            row |= {"ci95_low": self.low[i], "ci95_high": self.high[i]}
            if matrix is not None:
                k = matrix.names.index(self.names[i])
                row |= {"matrix_ci95_low": matrix.low[k], "matrix_ci95_high": matrix.high[k]}
            rows.append(row)
        return rows

    def record(self) -> dict[str, Any]:
        """Its section of summary.json, with the ratios of its interval widths to those from the matrix."""
        ratio, matrix = None, self.matrix
        if matrix is not None:
            at = [matrix.names.index(self.names[i]) for i in self.tabulated]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = ((self.high - self.low)[self.tabulated] / (matrix.high - matrix.low)[at]).tolist()
        own = {"kind": self.kind, "repetitions": len(self.theta), "failed": self.failed}
        return own | {"width_over_matrix": ratio}


def check_bootstrap(functional: AbstractObjective, repetitions: Bootstrap) -> None:
    """Refuse a fit that no bootstrap can repeat.

    **Arguments:** as in `bootstrap`.
    """
    if not isinstance(functional, Recordings):
        plan_of(Members.from_points(functional, functional.theta0[None]), [LevenbergMarquardt()])
    refuse(Choices.of(functional, (), "bootstrap", resampled=repetitions.kind))


def bootstrap(
    functional: Functional | Recordings,
    theta: Float[Array, " p"],
    repetitions: Bootstrap | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
    at_once: int = AT_ONCE,
    devices: Sequence[Any] = (),
    callback: Callable[[MemberProgress], None] | None = None,
    resume: RunState | None = None,
) -> Bootstrapped:
    """Bootstrap intervals, from repeated fits that start at the estimate.

    Intervals are pivotal: in search space, the quantiles of (repetition - estimate) replace the quantiles of
    (estimate - truth).

    **Arguments:**

    - `functional`, `theta`: the fit and its estimate, (p,). The kind `recordings` expects `Recordings`.
    - `repetitions`: the number and kind of repetitions; default `Bootstrap()`.
    - `level`: the confidence level; default 0.95.
    - `seed`: the seed of the noise.
    - `at_once`, `devices`, `callback`, `resume`: as in `fit_members`.

    **Errors:** PdefitError if the record is cut into segments.
    """
    chosen, estimate = repetitions or Bootstrap(), np.asarray(theta)
    optimizer, most, controls = LevenbergMarquardt(), chosen.steps or _MOST, functional.controls
    told = np.ones(estimate.size, bool)
    check_bootstrap(functional, chosen)
    if isinstance(functional, Recordings):
        each, told = len(functional.columns), _shared_numbers(functional)
        draws = np.random.default_rng(seed).multinomial(each, np.full(each, 1 / each), chosen.count)

        def done(repetitions: int, evaluations: int) -> None:
            if callback is not None:
                callback(MemberProgress(0, 1, repetitions, chosen.count, evaluations, lambda: RunState({}, {})))

        ends, losses, counted = refits(functional, theta, draws, optimizer, most, done)
    else:
        start = jnp.tile(jnp.asarray(theta), (chosen.count, 1))
        members = Members.from_points(functional, start).with_data(chosen.data(functional, theta, seed))
        given = {"at_once": at_once, "devices": devices, "callback": callback, "resume": resume}
        found = fit_members(members, [Stage(optimizer, most)], **given)
        ends, losses, counted = found.theta, found.loss, found.converged
    good = ends[np.isfinite(losses) & (counted | (chosen.steps is not None))]
    if len(good) < 2:
        raise PdefitError("No repetition of the bootstrap ended in a minimum; the estimate may be none either")
    # at a bound repetitions lie on one side, and tell of no interval
    pivot = np.where(controls.bounds.free(theta), good - estimate, np.nan)
    upper, lower = (np.quantile(pivot, q, axis=0) for q in ((1 - level) / 2, (1 + level) / 2))
    low, high = (np.asarray(moved(controls, theta, -by))[told] for by in (lower, upper))
    values = np.asarray(moved_each(controls, good, np.zeros_like(good)))[:, told]
    names = tuple(np.array(controls.names())[told].tolist())
    listed = [i for i, name in enumerate(names) if name in {*controls.tabulated.names()}]
    failed = chosen.count - len(good)
    return Bootstrapped(good[:, told], values, low, high, failed, names, chosen.kind, listed)


def _shared_numbers(functional: Recordings) -> np.ndarray:
    """Mask of the elements of theta that are shared scalars, (p,)."""
    return functional.controls.mask(lambda c: c.is_number and not c.own)
