"""Quality of a fit of one record: chi2, and whether its residuals are independent noise."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.analysis.goodness.evidence import Quality, far_below
from pdefit.analysis.goodness.explained import suspects
from pdefit.analysis.goodness.noise_shape import Setting, noise_shapes, offsets
from pdefit.analysis.goodness.remainder import Remainder, Residuals, by_frame, grid_axes
from pdefit.analysis.goodness.structure import SURE, structures
from pdefit.data.known import Known
from pdefit.inverse.controls.paths import holder
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import sum_of_squares, value_of
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.held import Held
from pdefit.systems.interpolant import Interpolant
from pdefit.systems.time_series import TimeSeries

# evaluations of the last stage that show whether J still falls, and the part of them that is looked at
_FEWEST, _LAST = 8, 4


class Ending(NamedTuple):
    """The end of a fit, apart from its residuals.

    **Arguments:**

    - `controls`: the number of unknowns at no bound.
    - `converged`, `falling`, `remaining`, `gap`, `heldout`: as in `Quality`.
    """

    controls: int
    converged: bool
    falling: float = float("nan")
    remaining: float = float("nan")
    gap: float = 0.0
    heldout: tuple[float, int] | None = None


def quality_of(
    left: Remainder, known: Known, end: Ending, finer: Sequence[Residuals] = (), held: Sequence[Held] = ()
) -> Quality:
    """The quality of a fit of one record.

    **Arguments:**

    - `left`: the residuals of the fit.
    - `known`: facts about its data.
    - `end`: the end of the fit.
    - `finer`: changes of the residuals with finer steps and with finer cells, which separate discretisation errors from
      errors of the equation.
    - `held`: held values with the changes of residuals that they make, from `held_values` for every recording. Without
      them no held value is suspected.
    """
    of_range, explained = _sizes(left, end.controls)
    quality = Quality(
        **_size_and_structure(left, held, known.sigma_known),
        **end._asdict(),
        sigma_known=known.sigma_known,
        sigma_exact=known.sigma_exact,
        sigma_stated=known.sigma_stated,
        noiseless=known.noiseless,
        of_range=of_range,
        explained=explained,
        counts=known.counts,
        windows_from_data=left.functional.problem.nodes is not None,
        single_precision=jax.tree.leaves(left.functional.problem.y0)[0].dtype == jnp.float32,
    )
    if not finer or not (quality.misses or not quality.at_minimum):
        return quality
    refined = _size_and_structure(left.without_discretisation(finer), held, known.sigma_known)
    return dataclasses.replace(quality, refined=dataclasses.replace(quality, **refined))


def _sizes(left: Remainder, p: int) -> tuple[float, float]:
    """Root mean square of the residuals relative to the range of their variable, and the explained fraction of its variance.

    Each is the largest over all variables. The former is infinite without cells: for particles and species the only
    discretisation error is the time step's, which is tested. Fitted scalars count as degrees of freedom, unless the
    data alone cannot determine so many.
    """
    data, tiny, gridded = left.functional.observations, np.finfo(float).tiny, True
    parts, explained = list[float](), list[float]()
    for name, r in left.residuals.items():
        gridded &= bool(grid_axes(left.functional, name, r.ndim - 2))
        off = by_frame(left.functional, name, r) * np.asarray(data.sigma[name])
        values = np.asarray(data.values[name], float)[np.isfinite(off)]
        if values.size:
            square, free = float(np.nanmean(off**2)), 1 - p / values.size
            parts.append(float(np.sqrt(square) / max(np.ptp(values), tiny)))
            explained.append(1 - square / (free if free >= 0.5 else 1) / max(float(np.var(values)), tiny))
    return max(parts) if parts and gridded else float("inf"), max(explained, default=1.0)


def _size_and_structure(left: Remainder, held: Sequence[Held], sigma_known: bool) -> dict[str, Any]:
    """Size and structure of residuals."""
    functional, count = left.functional, left.functional.observed_values
    setting = setting_of(functional, sigma_known)
    sizes: dict[str, Any] = {"chi2": left.chi2, "values": count, "courses": setting.courses}
    # residuals of round-off and of the last digits of an optimizer are never white, so they are not tested
    if far_below(left.chi2, count, sigma_known):
        return sizes | {"whiteness": None, "structures": (), "noise": (), "suspects": ()}
    tests = [(film, structures(film)) for film in left.films]
    noise = tuple(n for film, found in tests for n in (*noise_shapes(film, setting), *offsets(film, found)))

    def clean(other: Remainder) -> bool:
        one = Quality(left.chi2, count, other.whiteness, functional.controls.size, True)
        return not one.correlated and all(s.excess < SURE for film in other.films for s in structures(film))

    return sizes | {
        "whiteness": left.whiteness,
        "structures": tuple(s for _, found in tests for s in found),
        "noise": noise,
        "suspects": suspects(left, held, sigma_known and not noise, clean),
    }


def setting_of(functional: Functional, sigma_known: bool = True) -> Setting:
    """Facts about a fit that decide the meaning of loud frames."""
    problem, controls = functional.problem, functional.controls
    held = {c.name: holder(problem, c.name) for c in controls.items}
    courses = [n for n, x in held.items() if isinstance(x, TimeSeries | Interpolant) and x.times is not None]
    times = functional.observations.from_first_frame.ts
    return Setting(times, problem.system.time_unit, tuple(courses), bool(controls.states.items), sigma_known)


def falling(found: Fit) -> float:
    """Relative decrease of J over the last quarter of the evaluations of the last stage; NaN if they are few."""
    last = [x.loss for x in found.history if x.stage == found.history[-1].stage]
    if len(last) < _FEWEST:
        return float("nan")
    lowest = np.fmin.accumulate(last)
    return float(1 - lowest[-1] / max(lowest[-1 - len(last) // _LAST], np.finfo(float).tiny))


def size_of_gaps(functional: Functional, theta: Float[Array, " p"], residuals: Mapping[str, np.ndarray]) -> float:
    """Root mean square gap between windows, in standard deviations of a gap; 0 without free node states.

    **Arguments:**

    - `functional`, `theta`: the objective, and the estimate, (p,).
    - `residuals`: the weighted residuals at theta, by variable (S, I, ...).
    """
    if not functional.continuity_values:
        return 0.0
    rest = sum_of_squares(dict(residuals)) + 2 * float(functional.extra_value(theta))
    square = 2 * float(value_of(functional, theta)) - rest
    return float(np.sqrt(max(square, 0.0) / functional.continuity_values))
