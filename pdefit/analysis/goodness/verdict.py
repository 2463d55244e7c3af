"""Verdict on a fit: the one place that decides, and its sentences."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from pdefit.analysis.goodness.evidence import FAR_BELOW, SURE, Evidence, Quality, Verdict
from pdefit.inverse.controls.vector import FEW

FITTED = "fitted to the noise"
LIMITED = "fitted to the discretisation"
ROUNDED = "fitted to the precision of the data"
NOISY = "converged but the noise is not as stated"
MISSES = "converged but the model misses structure"
STOPPED = "not converged"
STOPPED_AND_MISSES = "not converged, and the model misses structure"
# from the best to the worst
WORDS = (FITTED, LIMITED, ROUNDED, NOISY, MISSES, STOPPED, STOPPED_AND_MISSES)

# chi2 per value of residuals so small that sigma must be too large
_SMALLEST = 0.5
# chi2 per value of residuals twice sigma, which no small term leaves
_LARGE = 4.0
# a fit whose J falls by less than this in the last quarter of its evaluations is near its end
_STANDS_STILL = 0.05
# tests that stay below this many standard deviations, several at once, show nothing
_QUIET = 3.0
# values from which on tests of structure would see what makes chi2 large
_ENOUGH = 100
# residuals below this part of the range of the data are no noise of an instrument
_NOISELESS = 1e-4
# the part of chi2 that finer steps and cells must take away where the rest is no noise either
_EXPLAINED = 0.5


def decide(evidence: Evidence) -> Verdict:
    """Verdict on a fit: that on its worst recording, with the doubts about its intervals."""
    each = {name: _on_recording(one, evidence) for name, one in evidence.recordings.items()}
    name, worst = max(each.items(), key=lambda one: WORDS.index(one[1].word))
    reasons = worst.reasons
    fit = evidence.recordings[name]
    if not fit.converged and fit.at_minimum:
        near = f"the optimizer was stopped, but a Newton step moves no number by more than {fit.remaining:.1g} standard errors"
        reasons += (near,)
    if name and worst.word != FITTED:
        reasons = (f"recording {name}: {reasons[0]}", *reasons[1:])
    if name and worst.word == FITTED:
        chi2 = [one.chi2_per_value for one in evidence.recordings.values()]
        reasons = (f"all {len(chi2)} recordings, with chi2 per value from {min(chi2):.3g} to {max(chi2):.3g}",)
    if evidence.shift and worst.word != LIMITED:
        reasons += (evidence.shift,)
    # any other verdict casts doubt on the intervals by itself
    if evidence.doubt and worst.word == FITTED:
        reasons += (evidence.doubt if evidence.shift else f"intervals are not to be trusted: {evidence.doubt}",)
    remedy, names = worst.next, " and ".join(evidence.bound)
    if evidence.bound:
        reasons += (f"{names} at a bound",)
        # a bound alone makes a right model miss
        remedy = (
            f"widen the bounds of {names}" if fit.misses else remedy or f"widen the bounds of {names}, or hold it there"
        )
    if evidence.shift and worst.word == FITTED:
        remedy = remedy or "refine what moves the estimate (cells or steps), and fit again"
    return dataclasses.replace(worst, reasons=(*reasons, *evidence.numbers), next=remedy)


def distrust(word: str, noiseless: bool) -> str:
    """Reason to distrust all intervals of a fit with this verdict; empty without one.

    **Arguments:** `noiseless` is whether the data have no noise.
    """
    if word in (STOPPED, STOPPED_AND_MISSES):
        return "the fit has not converged"
    if word == MISSES:
        return "the model misses structure, so its residuals are not independent noise"
    if word == NOISY:
        return "the noise is not as stated"
    if noiseless or word in (LIMITED, ROUNDED):
        return "the data have no noise, so residuals are errors of the discretisation and of rounding"
    return ""


def _on_recording(fit: Quality, evidence: Evidence) -> Verdict:
    """Verdict on the fit of one recording. All evidence is weighed; what is true at once is said at once.

    - Residuals miss structure where chi2 per value, a correlation, a test of smooth structure or held-out frames are
      beyond their limits (`Quality.misses`).
    - Structure that finer steps and cells take away is the discretisation's, and data that end at a digit end there.
    - Structure in time alone or in space alone, and size without structure, are the noise's.
    - Whatever remains is the model's. Where the optimizer recognised no minimum, it is so only if J stands still, and
      fell lately by less than the structure holds.
    """
    doubtful = fit.misses or not fit.at_minimum
    if evidence.rounding and doubtful:
        return Verdict(ROUNDED, (evidence.rounding, *_also(evidence.limit)), "")
    if doubtful and _is_discretisation(fit):
        return Verdict(LIMITED, _limited(fit, evidence), "take finer steps or cells, and look again")
    if not fit.sigma_stated and fit.of_range < _NOISELESS and doubtful:
        small = f"residuals are {fit.of_range:.1g} of the range of the data: there is no noise to compare them with"
        return Verdict(
            LIMITED, (small, *_also(evidence.limit)), "take finer steps or cells where more digits are needed"
        )
    if not fit.at_minimum:
        return _not_converged(fit)
    if not fit.misses:
        return _fitted(fit, "" if evidence.shift else evidence.limit)
    noise = _noise_alone(fit)
    if noise is not None:
        return noise
    return Verdict(MISSES, _evidence(fit), _remedy(fit))


def _also(*sentences: str) -> tuple[str, ...]:
    return tuple(filter(None, sentences))


def _is_discretisation(fit: Quality) -> bool:
    """Test for residuals whose structure finer steps and cells take away."""
    if fit.refined is None:
        return False
    return fit.refined.chi2 < (1 - _EXPLAINED) * fit.chi2 or (fit.misses and not fit.refined.misses)


def _limited(fit: Quality, evidence: Evidence) -> tuple[str, ...]:
    """Sentences about a fit whose residuals are errors of the discretisation."""
    share = 0.0 if fit.refined is None else 1 - fit.refined.chi2 / fit.chi2
    how = f"finer steps and cells take away {share:.0%} of the squared residuals"
    if share < _EXPLAINED:
        how = (
            "finer steps and cells take away the structure of the residuals; a small missing term would hide beneath it"
        )
    return how, *_also(evidence.limit)


def _fitted(fit: Quality, limit: str) -> Verdict:
    """Verdict on residuals without structure; `limit` says how far finer steps and cells move the estimates."""
    chi2 = fit.chi2_per_value
    if fit.sigma_known and chi2 < FAR_BELOW:
        return Verdict(FITTED, (f"residuals are far below sigma (chi2 per value {chi2:.1e})", *_also(limit)))
    named = tuple(n.words for n in fit.noise)
    loud = [n for n in fit.noise if n.kind in ("frame", "stiff", "signal")]
    if loud:
        return Verdict(NOISY, (*named, f"chi2 per value {chi2:.3g}"), "; ".join(n.remedy for n in loud))
    start = "; ".join(n.remedy for n in fit.noise)
    if not fit.sigma_known:
        unknown = "residuals show no structure (sigma was not known beforehand, so their size is no test)"
        return Verdict(FITTED, (unknown, *named), start)
    if chi2 < _SMALLEST * (1 - fit.controls / max(fit.values, 1)) and fit.values > _ENOUGH:
        smaller = f"residuals show no structure, but are {np.sqrt(chi2):.2g} times sigma: sigma is too large"
        return Verdict(NOISY, (smaller, *named), _other_sigma(chi2))
    return Verdict(FITTED, (f"chi2 per value {chi2:.3g}, residuals show no structure", *_excess(fit), *named), start)


def _excess(fit: Quality) -> tuple[str, ...]:
    """Sentence about chi2 that exceeds 1 by more than chance allows, and by less than decides alone."""
    # of the values of an unknown field data determine some, and only those take up chi2
    free = fit.values - fit.controls if fit.controls <= min(FEW, fit.values / 10) else fit.values
    beyond = (fit.chi2 / free - 1) * np.sqrt(free / 2)
    if not fit.sigma_known or beyond < SURE:
        return ()
    larger = 100 * (np.sqrt(fit.chi2 / free) - 1)
    return (
        f"chi2 is {beyond:.1f} standard deviations above 1: sigma is larger by {larger:.2g} %, or a small term is "
        f"missing",
    )


def _noise_alone(fit: Quality) -> Verdict | None:
    """Verdict where all that residuals show is noise of another kind than stated; None where it is not."""
    chi2, named = fit.chi2_per_value, tuple(n.words for n in fit.noise)
    remedies = "; ".join(n.remedy for n in fit.noise if n.kind != "start")
    if fit.unheld or fit.suspects:
        return None
    if not fit.correlated and not fit.structured:
        # a few values would hide structure of any kind, and an exact sigma is not to be doubted
        if fit.sigma_exact or fit.values < _ENOUGH or not np.isfinite(chi2):
            return None
        why = f"residuals show no structure, but are {np.sqrt(chi2):.2g} times sigma"
        return Verdict(NOISY, (*named, why), remedies or _other_sigma(chi2))
    in_time, in_space = _strength(fit, "time"), _strength(fit, "space")
    # a memory enlarges slow footprints, too
    along = max((s.excess for s in fit.structured if not s.axes), default=0.0)
    if along > max(in_time, in_space) or chi2 > _LARGE or min(in_time, in_space) > _QUIET:
        return None
    fit = dataclasses.replace(fit, noise=tuple(n for n in fit.noise if n.kind != "offset"))
    if in_time > in_space:
        remedy = "take the intervals that count the correlation; thin the frames, and compare"
        return Verdict(NOISY, (*_evidence(fit), "neighbours in space share nothing, so the noise has a memory"), remedy)
    remedy = "take the intervals that count the correlation; thin the points, and compare"
    why = "frames share nothing, so neighbouring values share their noise (overlapping windows, a filter)"
    return Verdict(NOISY, (*_evidence(fit), why), remedy)


def _other_sigma(chi2: float) -> str:
    """The next step where residuals have another size than sigma."""
    return f"state a sigma {np.sqrt(chi2):.2g} times as large, or sigma: auto"


def _strength(fit: Quality, kind: str) -> float:
    """The surest sign of correlation in time alone or in space alone, in standard deviations; infinite without a test."""

    def chosen(axes: Iterable[str]) -> bool:
        return all((axis == "time") == (kind == "time") for axis in axes)

    signs = [abs(c.value) / c.spread for by in (fit.whiteness or {}).values() for a, c in by.items() if chosen([a])]
    signs += [s.excess for s in fit.structures if s.axes and chosen(s.axes)]
    return max(signs, default=np.inf)


def _evidence(fit: Quality) -> tuple[str, ...]:
    """All that speaks against independent noise, in order of weight."""
    lines, chi2 = [n.words for n in fit.noise if n.kind in ("frame", "stiff")], fit.chi2_per_value
    first = len(lines)
    if fit.large and chi2 > _LARGE:
        lines.append(
            f"residuals are {np.sqrt(chi2):.2g} times sigma (chi2 per value {chi2:.3g}): the equation lacks a term, or the "
            f"search ended in a wrong minimum"
        )
    elif fit.large:
        lines.append(f"residuals are larger than sigma (chi2 per value {chi2:.3g})")
    noisy_starts = "; windows that start from noisy data cause that too" if fit.windows_from_data else ""
    if lines[first:]:
        lines[first] += noisy_starts
    if fit.correlated:
        name, axis, c = fit.correlated[0]
        lines.append(f"residuals of {name} are correlated along {axis} ({c.value:.2f} ± {c.spread:.2f}{noisy_starts})")
    # beside a large correlation, weak structure says nothing new; a footprint says what the term may be
    footprint = [s for s in fit.structured if not s.axes]
    told = bool(lines[first:])
    for s in (fit.structured[:1] if not told else []) + [s for s in footprint[:1] if told or s != fit.structured[0]]:
        lines.append(
            f"residuals of {s.variable} {s.where} hold a misfit of {s.size:.2g} sigma ({s.excess:.1f} standard deviations)"
        )
    if fit.unheld and fit.heldout is not None:
        lines.append(f"held-out frames have chi2 per value {fit.heldout[0]:.3g}, the fitted ones {chi2:.3g}")
    if fit.suspects:
        named = " or ".join(map(str, fit.suspects))
        lines.append(f"a change of {named} explains it ({fit.suspects[0].excess:.1f} standard deviations)")
    return (
        *lines,
        *(() if fit.large else _excess(fit)),
        *(n.words for n in fit.noise if n.kind in ("start", "offset")),
    )


def _remedy(fit: Quality) -> str:
    """The next step where residuals show that the model misses structure."""
    if fit.windows_from_data:
        return (
            "fit the whole record, or free the states at the starts of windows (nodes), from where this fit has ended"
        )
    if fit.suspects:
        return f"free {fit.suspects[0].name}, with a prior of what is known of it, and compare"
    if named := [n.remedy for n in fit.noise if n.kind in ("frame", "stiff", "offset")]:
        return named[0]
    if fit.chi2_per_value > _LARGE and fit.large:
        return "try other starts first (starts=auto), then question the equation where the residuals of the report are large"
    return (
        "see in the report where residuals are large; free what is held, or add a source or another term, and compare"
    )


def _not_converged(fit: Quality) -> Verdict:
    """Verdict where the optimizer recognised no minimum."""
    still = fit.falling < _STANDS_STILL
    why = "the optimizer recognised no minimum"
    if fit.falling == fit.falling:
        why += f": J fell by {fit.falling:.1%} in the last quarter of the evaluations"
    wider = ", or dtype=float64" if fit.single_precision else ""
    if fit.misses and still:
        if not _may_vanish(fit):
            return Verdict(STOPPED_AND_MISSES, (why, *_evidence(fit)), _remedy(fit))
        seen = _evidence(dataclasses.replace(fit, noise=()))
        fell = "the last evaluations lowered chi2 by more than this structure holds, so it may vanish, too"
        return Verdict(STOPPED, (why, *seen, fell), f"go on with more iterations{wider}")
    chi2 = fit.chi2_per_value
    if not fit.misses and still:
        return Verdict(
            STOPPED,
            (why, f"chi2 per value {chi2:.3g} and no structure: it may be one"),
            f"go on with more iterations{wider}",
        )
    remedy = f"allow more iterations, another stage or optimizer{wider}"
    return Verdict(STOPPED, (why, *([f"chi2 per value {chi2:.3g}"] if fit.misses else [])), remedy)


def _may_vanish(fit: Quality) -> bool:
    """Test for structure that holds less of chi2 than the last quarter of the evaluations took away."""
    found = [s.excess for s in fit.structured] + [c.value / c.spread for _, _, c in fit.correlated]
    return not (fit.large or fit.unheld) and bool(np.max(np.square(found)) < fit.falling * fit.chi2)
