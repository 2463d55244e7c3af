"""Sentences of a verdict: the findings about residuals, and the next step."""

import numpy as np
import scipy

from pdefit.analysis.goodness.evidence import Quality
from pdefit.analysis.goodness.structure import LARGE, SURE, told_from
from pdefit.inverse.controls.bound_control import FEW

# values from which on tests of structure would see what makes chi2 large
ENOUGH = 100


def no_structure(fit: Quality) -> str:
    """Sentence about residuals without structure, and about the misfit that few values would hide."""
    if fit.values >= ENOUGH:
        return "residuals show no structure"
    # chi2 alone tells a misfit, too
    least = min(told_from(max(fit.values, 1)), np.sqrt(fit.largest_chi2 - 1) if fit.sigma_known else np.inf)
    hidden = f"show it reliably only beyond {least:.2g} sigma" if least < np.inf else "are too few to show any"
    return f"residuals show no structure ({fit.values} values {hidden})"


def more_than_counts(fit: Quality) -> str:
    """Next step if counts scatter by more than Poisson's law."""
    stated = ", ".join(f"{name}: {{gain: {gain:g}, relative: auto}}" for name, gain in fit.counts.items())
    return f"state the variance of the negative binomial (data.sigma={{{stated}}}), and compare"


def excess(fit: Quality) -> tuple[str, ...]:
    """Sentence about a chi2 per value beyond its chance range, though too near 1 to decide alone."""
    # unknowns take up at most as many values as they are
    left = max(fit.values - fit.controls, 0)
    # the quantile of chi2 with so many degrees of freedom
    least = 2 * float(scipy.special.gammaincinv(left / 2, scipy.special.ndtr(-SURE))) if left else 0.0
    if fit.sigma_known and fit.chi2 < least:
        below = f"chi2 is {fit.chi2 / left:.3g} per degree of freedom, where chance allows {least / left:.3g}"
        return (f"{below}: sigma is larger than the scatter of the data",)
    # of the values of an unknown field data determine some, and only those take up chi2
    free = fit.values - fit.controls if fit.controls <= min(FEW, fit.values / 10) else fit.values
    beyond = (fit.chi2 / free - 1) * np.sqrt(free / 2)
    if not fit.sigma_known or beyond < SURE:
        return ()
    larger = 100 * (np.sqrt(fit.chi2 / free) - 1)
    above = f"chi2 is {beyond:.1f} standard deviations above 1"
    return (f"{above}: sigma is larger by {larger:.2g} %, or a small term is missing",)


def other_sigma(chi2: float) -> str:
    """Next step if residuals are larger or smaller than sigma."""
    return f"state a sigma {np.sqrt(chi2):.2g} times as large, or sigma: auto"


def evidence_of(fit: Quality) -> tuple[str, ...]:
    """All evidence against independent noise, in order of weight."""
    lines, chi2 = [n.words for n in fit.noise if n.kind in ("frame", "stiff", "event")], fit.chi2_per_value
    first = len(lines)
    noisy_starts = "; windows that start from noisy data cause that too" if fit.windows_from_data else ""
    if fit.large and chi2 > LARGE:
        knots = f", {' and '.join(fit.courses)} bends between its knots" if fit.courses else ""
        cause = f": the equation lacks a term{knots}, or the search ended in a wrong minimum"
        cause += ", or counts scatter by more than Poisson's law" if fit.counts else ""
        # a search that goes on has neither ended nor shown that the equation is wrong
        size = f"{np.sqrt(chi2):.2g} times sigma (chi2 per value {chi2:.3g}){cause if fit.at_minimum else ''}"
        lines.append(f"residuals are {size}{noisy_starts}")
    elif fit.large:
        lines.append(f"residuals are larger than sigma (chi2 per value {chi2:.3g}){noisy_starts}")
    if fit.correlated:
        name, axis, c = fit.correlated[0]
        lines.append(f"residuals of {name} are correlated along {axis} ({c.value:.2f} ± {c.spread:.2f}{noisy_starts})")
    # beside a large correlation, weak structure says nothing new; a footprint says what the term may be
    footprint = [s for s in fit.structured if not s.axes]
    told = bool(lines[first:])
    for s in (fit.structured[:1] if not told else []) + [s for s in footprint[:1] if told or s != fit.structured[0]]:
        size = f"{s.size:.2g} sigma ({s.excess:.1f} standard deviations)"
        lines.append(f"residuals of {s.variable} {s.where} hold a misfit of {size}")
    if fit.unheld and fit.heldout is not None:
        lines.append(f"held-out frames have chi2 per value {fit.heldout[0]:.3g}, the fitted ones {chi2:.3g}")
    if fit.suspects:
        named = " or ".join(map(str, fit.suspects))
        lines.append(f"a change of {named} explains it ({fit.suspects[0].excess:.1f} standard deviations)")
    others = [n.words for n in fit.noise if n.kind in ("start", "offset")]
    return *lines, *(() if fit.large else excess(fit)), *others


def next_step(fit: Quality) -> str:
    """Next step if residuals show that the model misses structure."""
    if fit.windows_from_data:
        return (
            "fit the whole record, or free the states at the starts of windows (nodes), from where this fit has ended"
        )
    if fit.suspects:
        return f"free {fit.suspects[0].name}, with a prior of what is known of it, and compare"
    if named := [n.remedy for n in fit.noise if n.kind in ("frame", "stiff", "event", "offset")]:
        return named[0]
    if fit.counts and fit.large and not fit.structured:
        return f"{more_than_counts(fit)}; try other starts (starts=auto)"
    if fit.courses and fit.large:
        return f"give {' and '.join(fit.courses)} more knots at the times at which residuals are large, and compare"
    if fit.chi2_per_value > LARGE and fit.large:
        return "try other starts first (starts=auto), then question the equation where the residuals of the report are large"
    return (
        "see in the report where residuals are large; free what is held, or add a source or another term, and compare"
    )
