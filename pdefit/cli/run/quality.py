"""Quality of a fit: chi2, whiteness, held-out frames, the verdict, and residuals over time."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from pdefit.analysis.goodness.correlated import correlated
from pdefit.analysis.goodness.evidence import Evidence, Quality, Verdict, far_below
from pdefit.analysis.goodness.holdout import heldout_score
from pdefit.analysis.goodness.quality import judge, residual_films
from pdefit.analysis.goodness.verdict import FITTED, UNFINISHED, decide, distrust
from pdefit.cli.run.discretisation import Discretisation
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.runtime.terminal import say
from pdefit.data.noise import rounding_step
from pdefit.inverse.controls.paths import PARTS
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.fit.reweight import ByPrediction
from pdefit.inverse.objective.compiled import VALUE, sum_of_squares
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.smooth_tangents import inexact_bias
from pdefit.inverse.uncertainty.control_values import moved as shifted
from pdefit.inverse.uncertainty.held import Held, held_values
from pdefit.inverse.uncertainty.influences import independent_errors, influences, numbers, remaining
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.inverse.uncertainty.marginal_likelihood import likelihood_sums, log_likelihoods

# an estimated sigma with a larger relative standard error is not taken for known
_KNOWN_TO = 0.1
# tests of structure that summary.json keeps
_MOST = 20
# residuals of so many steps of the numbers in the data are rounding, and a number is nearly zero below this part of its guess
_ROUNDED, _FALLEN = 2.0, 1e-3


class Judgement(NamedTuple):
    """The quality of a fit, and what follows from it.

    **Arguments:**

    - `sections`: the section `fit` of summary.json of every recording.
    - `verdict`: the verdict on all.
    - `widened`: by number the ends of its interval that count the correlation of residuals; empty where they have none.
    - `effective_values`: the number of independent values that would determine a mean as well; None as of `widened`.
    """

    sections: list[dict[str, Any]]
    verdict: Verdict
    widened: dict[str, tuple[float, float]]
    effective_values: float | None


def fit_quality(exp: Experiment, found: Fit, moved: Discretisation, known: Intervals | None) -> Judgement:
    """The quality of a fit. Priors and regularizers do not count in chi2.

    **Arguments:**

    - `exp`, `found`: the experiment and its fit.
    - `moved`: shifts of the estimate with finer steps and cells.
    - `known`: intervals; None without any.
    """
    along = [[] for _ in exp.each] if known is None else influences(found, known)
    scored = any(one.held.size for one in exp.each.values())
    errors = [[] for _ in exp.each] if known is None or not scored else independent_errors(found, known)
    # residuals without noise suspect nothing
    held, missed = ([[] for _ in exp.each], []) if _noiseless(exp, found) else held_values(found)
    left = float("nan") if known is None else remaining(found, known)
    judged = {
        name: _judged(one, part, left, along[k], errors[k], [changes[k] for changes in moved.changes.values()], held[k])
        for k, ((name, one), part) in enumerate(zip(exp.each.items(), found.recordings, strict=True))
    }
    names = [*exp.first.observed]
    squares = np.array([[np.sum(part.residuals[n] ** 2) for n in names] for part in found.recordings])
    sums = np.stack([likelihood_sums(part.functional) for part in found.recordings])
    estimated = {names.index(n): shared for n, shared in exp.estimated.items()}
    for (section, _), value in zip(judged.values(), log_likelihoods(squares, sums, estimated), strict=True):
        section["log_likelihood"], section["not_tested"] = float(value), missed
    numbered = bool(found.functional.controls.numbers.any())
    evidence = Evidence(
        {name: quality for name, (_, quality) in judged.items()},
        shift=str(moved) if moved.decides else "",
        doubt=distrust(FITTED, exp.source.noiseless) if numbered else "",
        limit=moved.limit,
        rounding=_rounding(found),
        numbers=(*_unstated(exp, found), *about_numbers(found, known)),
        bound=found.functional.controls.numbers_at_bound(found.theta),
    )
    counted = None
    if known is not None and any(quality.correlated or quality.structured for _, quality in judged.values()):
        parts = zip(found.recordings, along, strict=True)
        counted = correlated([film for part, a in parts for film in residual_films(part.functional, part.residuals, a)])
    if known is None or counted is None:
        return Judgement([section for section, _ in judged.values()], decide(evidence), {}, None)
    factors = np.zeros(len(known.reach))
    chosen = numbers(found, known)
    factors[chosen] = counted.factors
    reach = np.where(factors > 0, known.reach, 0.0) * factors
    ends = [np.asarray(shifted(found.functional.controls, found.theta, jnp.asarray(x))) for x in (-reach, reach)]
    widened = {known.names[k]: (float(ends[0][k]), float(ends[1][k])) for k in chosen}
    return Judgement([section for section, _ in judged.values()], decide(evidence), widened, counted.effective_values)


def _noiseless(exp: Experiment, found: Fit) -> bool:
    """Test for residuals far below sigma in all recordings."""
    return all(
        far_below(sum_of_squares(part.residuals), part.functional.observed_values, _sigma_known(one, part.functional))
        for one, part in zip(exp.each.values(), found.recordings, strict=True)
    )


def _judged(
    exp: Experiment,
    found: Fit,
    left: float,
    directions: list[dict[str, np.ndarray]],
    errors: list[np.ndarray],
    finer: list[dict[str, np.ndarray]],
    asked: list[Held],
) -> tuple[dict[str, Any], Quality]:
    """The section `fit` of one recording, and its quality."""
    window = exp.source.record.at(slice(0, exp.fitted))
    held = heldout_score(found.functional, found.theta, window, exp.held, errors) if exp.held.size else None
    known = _sigma_known(exp, found.functional)
    quality = judge(
        found,
        sigma_known=known,
        sigma_exact=known and exp.source.sigma_exact,
        sigma_stated=exp.sigma_stated,
        counts=of_counts(exp),
        heldout=held,
        remaining=left,
        directions=directions,
        finer=finer,
        held=asked,
    )
    white = quality.whiteness
    section = {
        "chi2": quality.chi2,
        "values": quality.values,
        "chi2_per_value": quality.chi2_per_value,
        "whiteness": None
        if white is None
        else {name: {axis: c._asdict() for axis, c in axes.items()} for name, axes in white.items()},
        "suspects": [s._asdict() for s in quality.suspects],
        "heldout": None if held is None else {"chi2_per_value": held[0], "values": held[1], "frames": exp.held.size},
        "structure": [s._asdict() for s in sorted(quality.structures, key=lambda s: -s.excess)[:_MOST]],
    }
    return section, quality


def of_counts(exp: Experiment) -> dict[str, float]:
    """By variable whose stated variance is that of counts the values for one count."""
    rules = [stage.reweight for stage in exp.stages if isinstance(stage.reweight, ByPrediction)]
    return {n: v.gain for rule in rules for n, v in rule.variables if v.gain and v.relative == 0}


def _unstated(exp: Experiment, found: Fit) -> tuple[str, ...]:
    """Sentence about the size of residuals, if nobody stated the sigma of a single variable."""
    (name, *more), functional = exp.first.observed, found.functional
    free = functional.observed_values - np.count_nonzero(functional.controls.free(found.theta))
    if more or free < 1 or any(name not in one.source.unstated for one in exp.each.values()):
        return ()
    sigma = np.mean([np.mean(np.asarray(part.functional.observations.sigma[name])) for part in found.recordings])
    size = sigma * np.sqrt(sum(sum_of_squares(part.residuals) for part in found.recordings) / free)
    return (f"residuals of {name} have a standard deviation of {size:.3g}",)


def _rounding(found: Fit) -> str:
    """Sentence about the digits of the data, where residuals are no larger than what they round; empty otherwise."""
    worst, digits = 0.0, ""
    for one in found.recordings:
        for name, r in one.residuals.items():
            data = one.functional.observations
            values = np.asarray(data.values[name], float)[np.asarray(data.mask[name])]
            step, found_digits = rounding_step(values)
            sigma = float(np.sqrt(np.mean(np.square(np.asarray(data.sigma[name], float)))))
            size = sigma * np.sqrt(np.mean(np.square(r)))
            # one of many recordings may lack a variable
            worst = max(worst, size / step if step else np.inf if values.size else 0.0)
            digits = found_digits or digits
    if not worst <= _ROUNDED:
        return ""
    return f"residuals are {worst:.2g} times the step of the numbers in the data ({digits}), so they say nothing more"


def about_numbers(found: Fit, known: Intervals | None) -> tuple[str, ...]:
    """Sentences about numbers that fall to zero, or are not determined."""
    functional, lines, fallen = found.functional, list[str](), list[str]()
    theta, guess, names = np.asarray(found.theta), np.asarray(functional.theta0), functional.controls.names()
    for control, span in functional.controls.spans:
        # one weight of a network says nothing
        root, _, inside = control.name.partition(".")
        if not control.is_number or (inside and root not in PARTS):
            continue
        now, before = (np.ravel(np.asarray(control.to_physical(jnp.asarray(x[span])))) for x in (theta, guess))
        least = _FALLEN * np.abs(before)
        # a search variable that no number below zero has, or a bound, keeps it positive; else its interval must say so
        below = np.asarray(control.transform.to_search(jnp.asarray(-least)))
        sure = np.inf if known is None else np.fmax(np.abs(known.low[span]), np.abs(known.high[span]))
        near = ~np.isfinite(below) | (np.asarray(control.lower) >= 0) | (sure < least)
        fallen += [names[span.start + k] for k in np.flatnonzero(near & (np.abs(now) < least))]
    if fallen:
        grows = any(
            _grows(np.asarray(x), np.asarray(one.functional.observations.mask[name]))
            for one in found.recordings
            for name, x in one.functional.observations.values.items()
        )
        why = " while the observed fields grow: is a source missing?" if grows else " (less than a thousandth is left)"
        lines.append(f"{' and '.join(fallen[:4])} {'fall' if len(fallen) > 1 else 'falls'} to zero{why}")
    if known is not None and known.unidentifiable:
        few = known.unidentifiable[:4]
        more = f" and {len(known.unidentifiable) - 4} others" if len(known.unidentifiable) > 4 else ""
        lines.append(
            f"not identifiable from these data: {', '.join(few)}{more} (give a prior, hold it, or observe where it acts; "
            "pdefit sensitivity ranks parameters)"
        )
    return tuple(lines)


def _grows(values: np.ndarray, mask: np.ndarray) -> bool:
    """Test for a field that varies more in its last frames than in its first."""
    third = max(len(values) // 3, 1)
    first, last = (
        np.std(values[part][mask[part]]) if np.any(mask[part]) else np.nan
        for part in (slice(third), slice(-third, None))
    )
    return bool(last > first)


def _sigma_known(exp: Experiment, functional: Functional) -> bool:
    """Whether sigma was stated, or well estimated, before the fit.

    A sigma made from residuals makes chi2 about 1, which proves nothing.
    """
    unidentifiable = [name for name, n in exp.source.noise.items() if n.error > _KNOWN_TO]
    return not exp.estimated and not any(name in unidentifiable for name in functional.observed)


def outcome(found: Fit, verdict: Verdict) -> str:
    """The course of the loss in words that agree with the verdict."""
    first = f"{found.loss_initial:.4g}" if np.isfinite(found.loss_initial) else "not finite at the guess"
    ended = "" if found.converged else " (not converged)" if verdict.word in UNFINISHED else " (stopped)"
    return f"loss {first} -> {found.loss:.4g} in {found.iterations} iterations{ended}"


def switch_bias(found: Fit, known: Intervals | None, console: Console) -> dict[str, Any] | None:
    """Distance of the estimate from the minimum, in search space and in standard errors, for summary.json.

    None where tangents are exact, and where J is too rough for differences to show the distance.

    **Arguments:**

    - `found`: the fit.
    - `known`: its intervals; None without any.
    """
    functional = found.functional
    if not found.recordings[0].functional.smooth_tangents:
        return None
    bias, names = inexact_bias(functional, jnp.asarray(found.theta)), functional.controls.names()
    error = np.full(bias.size, np.nan)
    theta = jnp.asarray(found.theta)
    if not float(VALUE(functional, theta + jnp.asarray(bias))) < found.loss:
        line = (
            "smooth tangents of hard switches: the distance to the minimum is unknown, because J is too rough at that scale "
            "(thresholds are crossed somewhere within a step); set a smaller dt"
        )
        say(console, line)
        return None
    if known is not None:
        bias, error = known.at_points(bias), known.error
    k = int(np.argmax(np.abs(bias)))
    line = (
        f"smooth tangents of hard switches: by differences the minimum lies at most {abs(bias[k]):.1e} away in search space "
        f"({names[k]}), {abs(bias[k]) / error[k]:.2g} standard errors"
    )
    say(console, line)
    return {n: {"bias": float(b), "standard_error": float(e)} for n, b, e in zip(names, bias, error, strict=True)}
