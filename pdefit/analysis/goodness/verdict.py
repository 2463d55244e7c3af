"""The verdict on a fit: the only place that decides it, and its sentences."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from pdefit.analysis.goodness._sentences import (
    ENOUGH,
    evidence_of,
    excess,
    more_than_counts,
    next_step,
    no_structure,
    other_sigma,
)
from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.evidence import Quality, Verdict, far_below
from pdefit.analysis.goodness.structure import LARGE

FITTED = "fitted to the noise"
BOUNDED = "converged but a number is at its bound"
LIMITED = "fitted to the discretisation"
ROUNDED = "fitted to the precision of the data"
NOISY = "converged but the noise is not as stated"
EMPTY = "converged but the model explains little"
MISSES = "converged but the model misses structure"
STOPPED = "not converged"
STOPPED_AND_MISSES = "not converged, and the model misses structure"
BLOWN_UP = "the model blows up"
UNFINISHED = (STOPPED, STOPPED_AND_MISSES)
# from the best to the worst
WORDS = (FITTED, LIMITED, ROUNDED, BOUNDED, NOISY, EMPTY, MISSES, *UNFINISHED, BLOWN_UP)

# chi2 per value of residuals so small that sigma must be too large
_SMALLEST = 0.5
# a fit whose J falls by less than this in the last quarter of its evaluations is near its end
_STANDS_STILL = 0.05
# tests that stay below this many standard deviations, several at once, show nothing
_QUIET = 3.0
# neighbours below this many standard deviations leave few counts without a hint of structure
_HINT = 2.0
# a model that explains less than this part of the variance, where sigma is as large as the residuals, explains nothing
_LITTLE = 0.1
# residuals below this part of the range of the data are no noise of an instrument
_NOISELESS = 1e-4
# numbers at a bound that a sentence names
_NAMED = 4
# the part of chi2 that finer steps and cells must take away where the rest is no noise either
_EXPLAINED = 0.5
# why the intervals of a fit with such a verdict are not to be trusted
_DOUBTS = {
    **dict.fromkeys((*UNFINISHED, BLOWN_UP), "the fit has not converged"),
    MISSES: "the model misses structure, so its residuals are not independent noise",
    EMPTY: "the model explains little of the data, so its residuals are more than noise",
    NOISY: "the noise is not as stated",
    BOUNDED: "a number is held at its bound, which may be wrong",
    LIMITED: "residuals are errors of the discretisation, and no noise",
    ROUNDED: "residuals are the rounding of the data, and no noise",
}


def decide(evidence: Assessment) -> Verdict:
    """Verdict on a fit: the verdict on its worst recording, with the doubts about its intervals."""
    each = {name: _on_recording(one, evidence) for name, one in evidence.recordings.items()}
    name, worst = max(each.items(), key=lambda one: WORDS.index(one[1].word))
    reasons = worst.reasons
    fit = evidence.recordings[name]
    if not fit.joined:
        reasons = (f"trajectories do not join: gaps between windows are {fit.gap:.2g} times their sigma", *reasons)
    if not fit.converged and fit.at_minimum:
        near = f"the optimizer was stopped, but a Newton step moves no number by more than {fit.remaining:.1g} standard errors"
        reasons += (near,)
    if name and worst.word != FITTED:
        reasons = (f"recording {name}: {reasons[0]}", *reasons[1:])
    if name and worst.word == FITTED:
        chi2 = [one.chi2_per_value for one in evidence.recordings.values()]
        sizes = f", with chi2 per value from {min(chi2):.3g} to {max(chi2):.3g}"
        reasons = (f"all {len(chi2)} recordings{sizes if fit.sigma_known else f': {worst.reasons[0]}'}",)
    if evidence.shift and worst.word != LIMITED:
        reasons += (evidence.shift,)
    # any other verdict casts doubt on the intervals by itself
    if evidence.doubt and worst.word == FITTED:
        reasons += (evidence.doubt if evidence.shift else f"intervals are not to be trusted: {evidence.doubt}",)
    word, remedy = worst.word, worst.next
    if evidence.bound:
        few, more = evidence.bound[:_NAMED], len(evidence.bound) - _NAMED
        ends = [f"{one.name} ends at its bound {one.value:.4g}" for one in few] + [f"so do {more} more"] * (more > 0)
        wider = f"widen the bounds of {' and '.join(one.name for one in few)}"
        # a bound alone makes a right model miss
        good = word in (FITTED, LIMITED, ROUNDED)
        word, reasons = (BOUNDED, (*ends, *reasons)) if good else (word, (*reasons, *ends))
        remedy = wider if fit.misses else (not good and remedy) or f"{wider}, or hold it there"
    if evidence.shift and word == FITTED:
        remedy = remedy or "refine what moves the estimate (cells or steps), and fit again"
    explored = filter(None, [evidence.explored])
    return Verdict(word, (*reasons, *evidence.numbers, *explored), remedy)


def distrust(word: str, noiseless: bool) -> str:
    """Reason to distrust all intervals of a fit with this verdict; empty if there is none.

    **Arguments:** `noiseless`: whether the data have no noise.
    """
    no_noise = "the data have no noise, so residuals are errors of the discretisation and of rounding"
    return _DOUBTS.get(word, no_noise if noiseless else "")


def _on_recording(fit: Quality, evidence: Assessment) -> Verdict:
    """Verdict on the fit of one recording from all evidence, with all findings that apply.

    - Residuals miss structure if chi2 per value, a correlation, a test of smooth structure or held-out frames exceed
      their limits (`Quality.misses`).
    - Structure that vanishes with finer steps and cells is discretisation error; residuals at the data's digits are
      rounding.
    - Structure in time alone or in space alone, and size without structure, belong to the noise.
    - The rest is a misfit of the model. Without convergence this holds only if J stands still and has lately fallen by
      less than the structure holds.
    """
    doubtful = fit.misses or not fit.at_minimum
    if not np.isfinite(fit.chi2):
        return Verdict(BLOWN_UP, ("no evaluation is finite",), "start nearer, or take smaller steps")
    if evidence.rounding and doubtful:
        return Verdict(ROUNDED, (evidence.rounding, *filter(None, [evidence.limit])), "")
    if doubtful and _is_discretisation(fit):
        return Verdict(LIMITED, _limited(fit, evidence), "take finer steps or cells, and look again")
    if not fit.sigma_stated and fit.of_range < _NOISELESS and doubtful:
        small = f"residuals are {fit.of_range:.1g} of the range of the data: there is no noise to compare them with"
        finer = "take finer steps or cells where more digits are needed"
        return Verdict(LIMITED, (small, *filter(None, [evidence.limit])), finer)
    if not fit.at_minimum:
        return _not_converged(fit)
    if not fit.misses:
        return _fitted(fit, "" if evidence.shift else evidence.limit)
    return _noise_alone(fit) or Verdict(MISSES, evidence_of(fit), next_step(fit))


def _is_discretisation(fit: Quality) -> bool:
    """True if finer steps and cells remove the structure of the residuals."""
    if fit.refined is None:
        return False
    return fit.refined.chi2 < (1 - _EXPLAINED) * fit.chi2 or (fit.misses and not fit.refined.misses)


def _limited(fit: Quality, evidence: Assessment) -> tuple[str, ...]:
    """Sentences about a fit whose residuals are discretisation errors."""
    share = 0.0 if fit.refined is None else 1 - fit.refined.chi2 / fit.chi2
    how = f"finer steps and cells take away {share:.0%} of the squared residuals"
    if share < _EXPLAINED:
        how = (
            "finer steps and cells take the structure of the residuals away; a small missing term would hide beneath it"
        )
    return how, *filter(None, [evidence.limit])


def _fitted(fit: Quality, limit: str) -> Verdict:
    """Verdict on residuals without structure; `limit` is the sentence on shifts with finer steps and cells."""
    chi2 = fit.chi2_per_value
    if not fit.joined:
        wider = "question the equation, or state the error that it may make in a window (formulation.continuity)"
        return Verdict(MISSES, (f"chi2 per value {chi2:.3g}, because each window begins anew",), wider)
    if far_below(fit.chi2, fit.values, fit.sigma_known):
        far = f"residuals are far below sigma (chi2 per value {chi2:.1e})"
        # as many unknowns as values leave nothing over
        if fit.noiseless or fit.values <= fit.controls:
            return Verdict(FITTED, (far, *filter(None, [limit])))
        return Verdict(NOISY, (f"{far}: sigma is larger than the scatter of the data",), other_sigma(chi2))
    named = tuple(n.words for n in fit.noise)
    loud = [n for n in fit.noise if n.kind in ("frame", "stiff", "signal")]
    if loud:
        remedies = [more_than_counts(fit) if n.kind == "signal" and fit.counts else n.remedy for n in loud]
        return Verdict(NOISY, (*named, f"chi2 per value {chi2:.3g}"), "; ".join(remedies))
    start = "; ".join(n.remedy for n in fit.noise)
    unknown = "sigma was not known beforehand, so the size of residuals is no test"
    if not fit.sigma_known and fit.explained < _LITTLE:
        little = f"the model explains {max(fit.explained, 0.0):.0%} of the variance of the data"
        wanted = "state a sigma (data.sigma), or observe where the model says that the data vary"
        return Verdict(EMPTY, (little, unknown, *named), wanted)
    if not fit.sigma_known:
        return Verdict(FITTED, (f"{no_structure(fit)}; {unknown}", *named), start)
    if chi2 < _SMALLEST * (1 - fit.controls / max(fit.values, 1)) and fit.values > ENOUGH:
        smaller = f"residuals show no structure, but are {np.sqrt(chi2):.2g} times sigma: sigma is too large"
        return Verdict(NOISY, (smaller, *named), other_sigma(chi2))
    return Verdict(FITTED, (f"chi2 per value {chi2:.3g}, {no_structure(fit)}", *excess(fit), *named), start)


def _noise_alone(fit: Quality) -> Verdict | None:
    """Verdict if residuals show only noise of another kind than stated; None otherwise."""
    chi2, named = fit.chi2_per_value, tuple(n.words for n in fit.noise)
    remedies = "; ".join(n.remedy for n in fit.noise if n.kind != "start")
    if fit.unheld or fit.eventful or fit.suspects:
        return None
    if not fit.correlated and not fit.structured:
        # a few values would hide structure of any kind, and an exact sigma is not to be doubted; counts often scatter more
        scatter = bool(fit.counts) and (fit.values >= ENOUGH or _strength(fit, "time") < _HINT)
        if not np.isfinite(chi2) or not scatter and (fit.sigma_exact or fit.values < ENOUGH):
            return None
        if scatter:
            larger = f"counts scatter {np.sqrt(chi2):.2g} times as much as Poisson's law allows: noise is larger than Poisson's"
            return Verdict(NOISY, (larger, no_structure(fit), *named), more_than_counts(fit))
        why = f"residuals show no structure, but are {np.sqrt(chi2):.2g} times sigma"
        return Verdict(NOISY, (*named, why), remedies or other_sigma(chi2))
    in_time, in_space = _strength(fit, "time"), _strength(fit, "space")
    # a memory enlarges slow footprints, too
    along = max((s.excess for s in fit.structured if not s.axes), default=0.0)
    if along > max(in_time, in_space) or chi2 > LARGE or min(in_time, in_space) > _QUIET:
        return None
    fit = dataclasses.replace(fit, noise=tuple(n for n in fit.noise if n.kind != "offset"))
    if in_time > in_space:
        remedy = "take the intervals that count the correlation; thin the frames, and compare"
        why = "neighbours in space share nothing, so the noise has a memory"
        return Verdict(NOISY, (*evidence_of(fit), why), remedy)
    remedy = "take the intervals that count the correlation; thin the points, and compare"
    why = "frames share nothing, so neighbouring values share their noise (overlapping windows, a filter)"
    return Verdict(NOISY, (*evidence_of(fit), why), remedy)


def _strength(fit: Quality, kind: str) -> float:
    """The most significant correlation in time alone or in space alone, in standard deviations; infinite without a test."""

    def chosen(axes: Iterable[str]) -> bool:
        return all((axis == "time") == (kind == "time") for axis in axes)

    signs = [abs(c.value) / c.spread for by in (fit.whiteness or {}).values() for a, c in by.items() if chosen([a])]
    signs += [s.excess for s in fit.structures if s.axes and chosen(s.axes)]
    return max(signs, default=np.inf)


def _not_converged(fit: Quality) -> Verdict:
    """Verdict if the optimizer did not converge."""
    still = fit.falling < _STANDS_STILL
    why = "the optimizer recognised no minimum"
    if fit.falling == fit.falling:
        why += f": J fell by {fit.falling:.1%} in the last quarter of the evaluations"
    wider = ", or dtype=float64" if fit.single_precision else ""
    longer = f"allow more iterations, another stage or optimizer{wider}"
    if fit.misses and still:
        if not _may_vanish(fit):
            # whether a term is missing shows at the minimum
            further = next_step(fit) if fit.windows_from_data else longer
            return Verdict(STOPPED_AND_MISSES, (why, *evidence_of(fit)), further)
        seen = evidence_of(dataclasses.replace(fit, noise=()))
        fell = "the last evaluations lowered chi2 by more than this structure holds, so it may vanish, too"
        return Verdict(STOPPED, (why, *seen, fell), f"go on with more iterations{wider}")
    chi2 = fit.chi2_per_value
    if not fit.misses and still:
        may_be = f"chi2 per value {chi2:.3g}, {no_structure(fit)}: it may be one"
        return Verdict(STOPPED, (why, may_be), f"go on with more iterations{wider}")
    return Verdict(STOPPED, (why, *([f"chi2 per value {chi2:.3g}"] if fit.misses else [])), longer)


def _may_vanish(fit: Quality) -> bool:
    """True if the structure holds less of chi2 than the last quarter of the evaluations removed."""
    found = [s.excess for s in (*fit.structured, *fit.suspects)] + [c.value / c.spread for _, _, c in fit.correlated]
    return not (fit.large or fit.unheld or fit.eventful) and bool(np.max(np.square(found)) < fit.falling * fit.chi2)
