"""The verdict on a fit: one function for the command line and for Python."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, overload

import jax.numpy as jnp
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.correlated import correlated
from pdefit.analysis.goodness.discretisation import discretisation
from pdefit.analysis.goodness.evidence import Quality, far_below
from pdefit.analysis.goodness.holdout import heldout_score
from pdefit.analysis.goodness.judge_members import judge_members
from pdefit.analysis.goodness.numbers import about_numbers, rounding, size_of_residuals
from pdefit.analysis.goodness.quality import Ending, falling, quality_of, size_of_gaps
from pdefit.analysis.goodness.remainder import Remainder
from pdefit.analysis.goodness.verdict import FITTED, decide, distrust
from pdefit.data.fit_section import CorrelationEntry, FitSection, HeldOut, StructureEntry
from pdefit.data.known import Known
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.fit.stages import tangents_cost
from pdefit.inverse.members.result import MemberFits
from pdefit.inverse.uncertainty.control_values import moved as shifted
from pdefit.inverse.uncertainty.held import held_values
from pdefit.inverse.uncertainty.influences import independent_errors, influences, numbers, remaining
from pdefit.inverse.uncertainty.intervals import Intervals, intervals
from pdefit.inverse.uncertainty.marginal_likelihood import likelihood_sums, log_likelihoods

# tests of structure that a section keeps
_MOST = 20


@overload
def judge(found: Fit, **facts: Any) -> Assessment: ...
@overload
def judge(found: MemberFits, **facts: Any) -> list[Assessment]: ...
def judge(
    found: Fit | MemberFits, *, with_intervals: bool | None = None, **facts: Any
) -> Assessment | list[Assessment]:
    """Verdict on a fit with its evidence, equal to the verdict that `pdefit fit` prints.

    Many recordings have one verdict, many members one each. The fit of an experiment (`load_experiment(NAME).fit()`)
    holds the facts about its data. For a functional built by hand, state them by `facts`. Priors and regularizers do
    not count. The cost: the intervals, one forward run for each fitted scalar and each held value, and two for finer
    steps and cells.

    Members are judged only by the size and structure of their residuals, the digits of their data and their bounds.

    **Arguments:**

    - `found`: the fit of one record, of many recordings, or of many members.
    - `with_intervals`: whether intervals are computed; by default unless the fit has not converged and they would cost
      more than the fit. Without them, weak structure and discretisation errors are not reported.
    - `facts`: entries of `Known` that hold for all recordings, such as `sigma_known=False`, `noiseless=True` or
      `counts={"u": 1.0}`.
    """
    if isinstance(found, MemberFits):
        return judge_members(found, dataclasses.replace(found.known, **facts))
    known = _known(found, facts)
    noiseless = any(one.noiseless for one in known.values())
    spans, unknown = _intervals(found, known, with_intervals)
    finer = discretisation(found, spans, same_cells=any(one.same_cells for one in known.values()), noiseless=noiseless)
    parts = found.recordings
    along = [[] for _ in parts] if spans is None else influences(found, spans)
    left = [Remainder(part.functional, part.residuals, a) for part, a in zip(parts, along, strict=True)]
    scored = spans is not None and any(one.held.size for one in known.values())
    errors = independent_errors(found, spans) if spans is not None and scored else [[] for _ in parts]
    # residuals without noise suspect nothing
    quiet = all(
        far_below(one.chi2, one.functional.observed_values, about.sigma_known)
        for about, one in zip(known.values(), left, strict=True)
    )
    held, missed = ([[] for _ in parts], []) if quiet else held_values(found)
    each = {
        name: quality_of(
            left[k],
            one,
            Ending(
                controls=int(part.functional.controls.bounds.free(part.theta).sum()),
                converged=found.converged and found.status == "done",
                falling=falling(found),
                remaining=float("nan") if spans is None else remaining(found, spans),
                gap=size_of_gaps(part.functional, jnp.asarray(part.theta), part.residuals),
                heldout=_heldout(part, one, errors[k]),
            ),
            finer=[changes[k] for changes in finer.changes.values()],
            held=held[k],
        )
        for k, ((name, one), part) in enumerate(zip(known.items(), parts, strict=True))
    }
    controls = found.functional.controls
    assessed = Assessment(
        each,
        shift=str(finer) if finer.decides else "",
        doubt=distrust(FITTED, noiseless) if controls.numbers.any() else "",
        limit=finer.limit,
        rounding=rounding((part.functional, part.residuals) for part in parts),
        numbers=(*size_of_residuals(found, known.values()), *about_numbers(found, spans)),
        bound=controls.numbers_at_bound(found.theta),
        explored=found.explored,
        intervals=spans,
        unknown=unknown,
        discretisation=finer,
        sections=_sections(found, each, known, missed),
    )
    if spans is not None and any(one.correlated or one.structured for one in each.values()):
        assessed = _widened(assessed, found, spans, left)
    return dataclasses.replace(assessed, verdict=decide(assessed))


def affordable(found: Fit) -> bool:
    """True if the fit has converged, or its intervals cost no more than the fit."""
    return found.converged or tangents_cost(found.functional) <= found.iterations * found.cost


def _known(found: Fit, facts: Mapping[str, Any]) -> dict[str, Known]:
    """Facts about the data of every recording; unnamed recordings are numbered."""
    count = len(found.recordings)
    given = found.known or {"" if count == 1 else str(e): Known() for e in range(count)}
    # a sigma that a stage has estimated was not known before
    settled = {"sigma_known": False, "sigma_stated": False} if found.estimated else {}
    return {name: dataclasses.replace(one, **{**facts, **settled}) for name, one in given.items()}


def _intervals(found: Fit, known: Mapping[str, Known], wanted: bool | None) -> tuple[Intervals | None, str]:
    """The intervals of the scalars, or the reason for their absence if it is worth reporting."""
    if not found.functional.controls.tabulated.items or not (affordable(found) if wanted is None else wanted):
        return None, ""
    stated = all(one.sigma_stated for one in known.values())
    try:
        return intervals(found.functional, found.theta, sigma_stated=stated, equations=found.equations), ""
    except PdefitError as error:
        return None, str(error)


def _heldout(found: Fit, known: Known, errors: Sequence[np.ndarray]) -> tuple[float, int] | None:
    """chi2 per value of the held-out frames, and the number of their values; None without such frames."""
    if not known.held.size or known.record is None:
        return None
    return heldout_score(found.functional, found.theta, known.record, known.held, errors)


def _sections(
    found: Fit, each: Mapping[str, Quality], known: Mapping[str, Known], missed: Sequence[str]
) -> dict[str, FitSection]:
    """The section `fit` of the summary of every recording."""
    parts, unstated = found.recordings, {n for one in known.values() for n in one.unstated}
    names = [*parts[0].functional.observed]
    squares = np.array([[np.sum(part.residuals[n] ** 2) for n in names] for part in parts])
    sums = np.stack([likelihood_sums(part.functional) for part in parts])
    # a sigma that nobody stated is one of all recordings
    estimated = {k: n in unstated for k, n in enumerate(names) if n in unstated or n in found.estimated}
    likely = log_likelihoods(squares, sums, estimated)
    return {
        name: FitSection(
            chi2=one.chi2,
            values=one.values,
            chi2_per_value=one.chi2_per_value,
            whiteness=None
            if one.whiteness is None
            else {n: {axis: CorrelationEntry(*c) for axis, c in axes.items()} for n, axes in one.whiteness.items()},
            suspects=[s._asdict() for s in one.suspects],
            heldout=one.heldout and HeldOut(*one.heldout, known[name].held.size),
            structure=[
                StructureEntry(s.variable, s.where, [*s.axes], float(s.excess), float(s.size))
                for s in sorted(one.structures, key=lambda s: -s.excess)[:_MOST]
            ],
            log_likelihood=float(value),
            not_tested=[*missed],
        )
        for (name, one), value in zip(each.items(), likely, strict=True)
    }


def _widened(assessed: Assessment, found: Fit, known: Intervals, left: Sequence[Remainder]) -> Assessment:
    """The assessment with intervals widened for correlated residuals, if the correlation can be estimated."""
    counted = correlated([film for one in left for film in one.films])
    if counted is None:
        return assessed
    chosen, factors = numbers(found, known), np.zeros(len(known.reach))
    factors[chosen] = counted.factors
    reach = np.where(factors > 0, known.reach, 0.0) * factors
    ends = [np.asarray(shifted(found.functional.controls, found.theta, x)) for x in (-reach, reach)]
    widened = {known.names[k]: (float(ends[0][k]), float(ends[1][k])) for k in chosen}
    return dataclasses.replace(assessed, widened=widened, effective_values=counted.effective_values)
