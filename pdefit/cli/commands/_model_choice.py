"""Model selection among several runs, from summary.json and the films, as columns and sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdefit.analysis.goodness.information import (
    Candidate,
    HeldOut,
    akaike_weights,
    conclusion,
    criteria_of,
    evidences,
    held_out,
    independent_values,
    sigma_is_known,
)
from pdefit.output.pictures.compare import Misfit
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.summary import IntervalsSection, LikelihoodSection


def candidate(fit: RunFiles, name: str, numbers: int | None) -> Candidate:
    """The candidate of one run. A run of an older version has no likelihood: all of its scalars count."""
    summary, stored = fit.summary, fit.summary.likelihood or LikelihoodSection()
    assert summary.fit.chi2 is not None and summary.fit.values is not None
    return Candidate(
        name,
        summary.fit.chi2,
        summary.fit.values,
        float(numbers or 0 if stored.effective_unknowns is None else stored.effective_unknowns),
        summary.verdict,
        # noise that was estimated stands in a section of its own
        not summary.noise,
        stored.log_evidence,
        stored.log_evidence_noise,
        (summary.intervals or IntervalsSection()).effective_values,
        stored.log_sigma,
    )


def judged(
    candidates: Sequence[Candidate], fits: Sequence[RunFiles], comparable: bool, ahead: Sequence[Mapping[str, Misfit]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Table columns of each run, and the sentences of the conclusion.

    **Arguments:**

    - `candidates`, `fits`: the runs.
    - `comparable`: whether all runs fitted the same values.
    - `ahead`: misfits of each run at the frames that all runs forecast, by recording and quantity.
    """
    columns: list[dict[str, Any]] = [{} for _ in fits]
    held, rms = _held_out(candidates, fits, ahead)
    for of, sizes in zip(columns, rms, strict=True):
        of |= sizes
    said = conclusion(candidates, comparable, held)
    if not comparable:
        return columns, said
    known, fewer = sigma_is_known(candidates), independent_values(candidates)
    each, evidence = criteria_of(candidates), evidences(candidates)
    best, weights = np.min(each, axis=0), akaike_weights([one.aic for one in each])
    top = max((x for x in evidence if x is not None), default=0.0)
    for of, named, one, fit, weight, log in zip(columns, candidates, each, fits, weights, evidence, strict=True):
        of["sigma_in_the_criteria"] = "as stated" if known else "one factor estimated along"
        of["independent_values"] = fewer
        of |= {f"{name.upper()}_above_the_best": float(x) for name, x in zip(one._fields, one - best, strict=True)}
        of["Akaike_weight"] = float(weight)
        of["ln_evidence"], of["ln_evidence_below_the_best"] = log, None if log is None else top - log
        stored = fit.summary.likelihood or LikelihoodSection(
            reason="this run stores none; pdefit resume it with intervals=always"
        )
        of["effective_unknowns"] = stored.effective_unknowns
        of["prior"] = "; ".join(f"{name}: {word}" for name, word in stored.prior.items()) or None
        of["no_evidence_because"] = stored.reason or None
        said += [f"{named.name} has no evidence: {of['no_evidence_because']}"] if of["no_evidence_because"] else []
    return columns, said


def _held_out(
    candidates: Sequence[Candidate], fits: Sequence[RunFiles], ahead: Sequence[Mapping[str, Misfit]]
) -> tuple[HeldOut | None, list[dict[str, Any]]]:
    """Misfits at frames that no run was fitted to, relative to the best run, and their root mean squares by quantity."""
    quantities: dict[str, list[str]] = {}
    for key in (key for key in ahead[0] if all(key in of for of in ahead)):
        quantities.setdefault(ahead[0][key].quantity.label, []).append(key)
    squares, rms = [[np.zeros(0)] for _ in fits], [dict[str, Any]() for _ in fits]
    for name, keys in quantities.items():
        values = [np.concatenate([np.ravel(of[key].values) for key in keys]) for of in ahead]
        there = np.all(np.isfinite(values), axis=0)
        sizes = [float(np.sqrt(np.mean(x[there] ** 2))) if np.any(there) else np.nan for x in values]
        for of, square, x, size in zip(rms, squares, values, sizes, strict=True):
            of[f"forecast_rms_of_{name}"] = size
            square.append((x[there] / (min(sizes) or 1.0)) ** 2)
    every = [np.concatenate(of) for of in squares]
    fewer = independent_values(candidates)
    share = 1.0 if fewer is None else fewer / min(c.values for c in candidates)
    return (held_out(every, share) if every[0].size else _kept_out(fits)), rms


def _kept_out(fits: Sequence[RunFiles]) -> HeldOut | None:
    """Misfits at the frames of `holdout`, from the chi2 of each run; None if the frames differ, or there are none."""
    parts = [[of.fit for of in f.summary.recordings.values()] or [f.summary.fit] for f in fits]
    held = [[of.heldout for of in part if of.heldout is not None] for part in parts]
    counts = [sum(of.values or 0 for of in part) for part in held]
    if not counts[0] or len({*counts}) > 1:
        return None
    means = np.asarray([sum((of.chi2_per_value or 0.0) * (of.values or 0) for of in part) / counts[0] for part in held])
    # as if the residuals of two models were independent, which makes it too large rather than too small
    error = np.where(means > means.min(), 2 * means.min() / np.sqrt(counts[0]), 0.0)
    return HeldOut(means, error)
