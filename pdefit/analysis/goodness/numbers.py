"""Sentences of a verdict about fitted scalars, the size of residuals, and the digits of the data."""

from collections.abc import Iterable, Mapping

import jax
import numpy as np

from pdefit.data.known import Known
from pdefit.data.noise import rounding_step
from pdefit.inverse.controls.paths import PARTS
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import sum_of_squares
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.control_values import moved
from pdefit.inverse.uncertainty.intervals import Intervals

# residuals of so many steps of the numbers in the data are rounding, and a number is nearly zero below this part of its guess
_ROUNDED, _FALLEN = 2.0, 1e-3


def size_of_residuals(found: Fit, known: Iterable[Known]) -> tuple[str, ...]:
    """Sentence about the size of residuals, if no variable has a stated sigma."""
    (name, *more), functional = found.recordings[0].functional.observed, found.functional
    free = functional.observed_values - np.count_nonzero(functional.controls.bounds.free(found.theta))
    if more or free < 1 or any(name not in one.unstated for one in known):
        return ()
    sigma = np.mean([np.mean(np.asarray(part.functional.observations.sigma[name])) for part in found.recordings])
    size = sigma * np.sqrt(sum(sum_of_squares(part.residuals) for part in found.recordings) / free)
    return (f"residuals of {name} have a standard deviation of {size:.3g}",)


def rounding(parts: Iterable[tuple[Functional, Mapping[str, np.ndarray]]]) -> str:
    """Sentence about the digits of the data, if residuals are no larger than the rounding of the data; empty otherwise.

    **Arguments:** `parts`: the objective of every recording with its weighted residuals.
    """
    worst, digits = 0.0, ""
    for functional, residuals in parts:
        data = functional.observations
        for name, r in residuals.items():
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
    """Sentences about scalars that fall to zero or are not determined."""
    functional, lines, fallen = found.functional, list[str](), list[str]()
    theta, guess, names = np.asarray(found.theta), np.asarray(functional.theta0), functional.controls.names()
    each = [np.asarray(moved(functional.controls, x, np.zeros_like(theta))) for x in (theta, guess)]
    for control, span in functional.controls.spans:
        # one weight of a network says nothing
        root, _, inside = control.name.partition(".")
        if not control.is_number or (inside and root not in PARTS):
            continue
        now, before = (x[span] for x in each)
        least = _FALLEN * np.abs(before)
        # a search variable that no number below zero has, or a bound, keeps it positive; else its interval must say so
        below = np.asarray(control.transform.to_search(jax.device_put(-least)))
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
    """True if a field varies more in its last frames than in its first."""
    third = max(len(values) // 3, 1)
    first, last = (
        np.std(values[part][mask[part]]) if np.any(mask[part]) else np.nan
        for part in (slice(third), slice(-third, None))
    )
    return bool(last > first)
