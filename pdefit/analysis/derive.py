"""Quantities derived from the numbers of a fit, such as a basic reproduction number or a half-life, with intervals."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.discretisation import DECIDES
from pdefit.analysis.goodness.judge import judge
from pdefit.analysis.goodness.verdict import distrust
from pdefit.inverse.controls.paths import leaf
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.members.result import MemberFits
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.inverse.uncertainty.quantities import Quantity, quantities, read_formulas, values_and_slopes
from pdefit.systems.terms.expression import Expression

Formulas = Mapping[str, str | Expression]
Truth = Float[np.ndarray, "*e p"] | None
# the intervals of a fit, its elements of theta at no bound, and whether intervals are trusted if they shift little
_Uncertain = tuple[Intervals | None, np.ndarray, bool]


@dataclasses.dataclass(frozen=True)
class DerivedQuantity:
    """A quantity derived from the numbers of a fit.

    **Arguments:**

    - `name`, `unit`: its name, and its unit: "1" if no number in it has a unit, the unit of a number alone, else empty.
    - `scale`: the transform to the scale on which its interval is symmetric, e.g. `log`.
    - `guess`, `estimate`: its values at the guess and at the estimate.
    - `truth`, `relative_error`: NaN if the truth is unknown; the error is estimate / truth - 1.
    - `low`, `high`: the ends of its 95 % interval; the whole range of its scale if the data do not determine it, and NaN
      without an interval.
    - `z_score`: (estimate - truth) in standard errors on its scale; NaN if unknown.
    - `at_bound`: whether it depends on a number at a bound, and so has no interval.
    - `shift`: its shift by finer steps or cells, in half widths of its interval; NaN if unknown.
    - `trusted`: whether its interval is trusted; None without one.
    - `formula`: its formula as text.
    """

    name: str
    unit: str
    scale: str
    guess: float
    estimate: float
    truth: float
    relative_error: float
    low: float
    high: float
    z_score: float
    at_bound: bool
    shift: float
    trusted: bool | None
    formula: str


def derive(
    found: Fit, formulas: Formulas, assessed: Assessment | None = None, truth: Truth = None
) -> list[DerivedQuantity]:
    """Quantities derived from the numbers of a fit, with 95 % intervals by the delta method.

        pdefit.derive(fit, {"R0": "beta / gamma", "half_life": "log(2) / k"})

    An interval is computed to first order from the covariance of `pdefit.intervals`. It is symmetric for the logarithm
    if the formula is positive for all values of its numbers; numbers with a logarithmic transform are positive. A
    number alone has its own interval. The data may determine a combination of numbers, but not the numbers themselves.

    For many recordings, a formula of own numbers has one quantity for each recording.

    **Arguments:**

    - `found`: the fit of one record, or of many recordings.
    - `formulas`: by name, formulas of estimated scalars, named as in tables (`k`, `gm.Mars`, `k[1]` of one recording),
      and of known scalar parameters.
    - `assessed`: the result of `pdefit.judge` for the fit; by default it is made.
    - `truth`: the true theta, (p,), NaN for unknown elements; default unknown.

    **Errors:** PdefitError if a formula cannot be read or names no scalar, or if a quantity has the name of a parameter.
    """
    functional, theta = found.functional, np.asarray(found.theta)
    if not (bound := quantities(functional, read_formulas(formulas))):
        return []
    assessed = judge(found) if assessed is None else assessed
    points = np.stack([functional.theta0, theta, np.full_like(theta, np.nan) if truth is None else truth])
    trusted = not distrust(assessed.verdict.word, any(one.noiseless for one in found.known.values()))
    fits = [(assessed.intervals, functional.controls.bounds.free(theta), trusted)]
    return _derived(bound, functional.controls, points[:, None], fits, [*assessed.discretisation.shifts.values()])[0]


def derive_each(
    found: MemberFits, formulas: Formulas, assessed: Sequence[Assessment] | None = None, truth: Truth = None
) -> list[list[DerivedQuantity]]:
    """Derived quantities of each of many members, as in `derive`.

    **Arguments:**

    - `found`: the fits of many members.
    - `formulas`: as in `derive`.
    - `assessed`: the results of `pdefit.judge`; by default they are made.
    - `truth`: the true theta of each, (E, p), NaN for unknown elements; default unknown.
    """
    members, first = found.members, found.members.first
    if not (bound := quantities(first, read_formulas(formulas))):
        return [[] for _ in range(members.count)]
    if isinstance(first, Functional):
        # members may differ in what is known
        where = {n: leaf(first.problem, n) for q in bound for n in q.known}
        known = {n: members.stack.part(lambda f, at=at: at(f.problem), members.count) for n, at in where.items()}
        bound = [q._replace(known={n: known[n] for n in q.known}) for q in bound]
    stated, controls, fits = found.known.sigma_stated, first.controls, list[_Uncertain]()
    spans, about = found.intervals(sigma_stated=stated), (tuple(controls.names()), controls.units(), controls)
    for e, one in enumerate(judge(found) if assessed is None else assessed):
        known, free, degrees = None, found.free[e], int(spans.degrees[e])
        if found.matrix is not None and np.isfinite(found.matrix[e]).all():
            inverse = determined_inverse(found.matrix[e], free).matrix
            sizes = inverse * max(found.chi2[e] / degrees, float(stated)), spans.error[e], spans.reach[e]
            ends = spans.estimate[e], spans.low[e], spans.high[e]
            known = Intervals("", *sizes, *ends, degrees, inverse, found.gradient[e], (), *about, free)
        fits.append((known, free, not distrust(one.verdict.word, found.known.noiseless)))
    points = [members.theta0, found.theta, np.full_like(found.theta, np.nan) if truth is None else truth]
    return _derived(bound, controls, np.stack(points), fits, [])


def _derived(
    bound: list[Quantity], controls: Controls, points: np.ndarray, fits: list[_Uncertain], shifts: list[np.ndarray]
) -> list[list[DerivedQuantity]]:
    """Quantities of each of many fits.

    **Arguments:**

    - `bound`: the formulas.
    - `controls`: the controls of theta.
    - `points`: the guess, the estimate and the truth of each, (3, E, p).
    - `fits`: the uncertainty of each.
    - `shifts`: the shifts of a single fit by finer steps and by finer cells, as in `Discretisation`, (p,) each.
    """
    values, slopes = values_and_slopes(bound, controls, points)
    out = [list[DerivedQuantity]() for _ in fits]
    for k, q in enumerate(bound):
        scale, rows = q.transform, slopes[1, :, k]
        sizes = [x.along(row, scale) if x else (np.nan, np.nan) for (x, *_), row in zip(fits, rows, strict=True)]
        error, reach = np.array(sizes).T
        here, there = np.asarray(scale.to_search(jnp.asarray(values[1:, :, k])))
        low, high = np.asarray(scale.to_physical(jnp.asarray([here - reach, here + reach]))).tolist()
        for e, ((known, free, trusted), row) in enumerate(zip(fits, rows, strict=True)):
            (guess, estimate, true), used = values[:, e, k].tolist(), row != 0
            z = float((here[e] - there[e]) / error[e]) if 0 < error[e] < np.inf else np.nan
            by = [row[used] @ (x * known.reach)[used] / reach[e] for x in shifts if known and 0 < reach[e] < np.inf]
            shift = float(max(by, key=abs, default=np.nan))
            sure = None if np.isnan(low[e]) else trusted and not abs(shift) > DECIDES
            off, held = estimate / true - 1 if true else np.nan, not free[used].all()
            of = q.name, q.unit, type(scale).__name__.lower(), guess, estimate, true, off, low[e], high[e], z
            out[e].append(DerivedQuantity(*of, held, shift, sure, str(q.formula)))
    return out
