"""Quality of a fit of one record: chi2, and whether what the fit leaves over looks like independent noise."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.analysis.goodness.evidence import Correlation, Quality, far_below
from pdefit.analysis.goodness.explained import suspects, without_discretisation
from pdefit.analysis.goodness.noise_shape import Setting, noise_shapes, offsets
from pdefit.analysis.goodness.structure import SURE, ResidualFilm, structures
from pdefit.data.known import Known
from pdefit.inverse.controls.paths import holder
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import VALUE, sum_of_squares
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.uncertainty.held import Held
from pdefit.systems.interpolant import Interpolant
from pdefit.systems.time_series import TimeSeries

# evaluations of the last stage that show whether J still falls, and the part of them that is looked at
_FEWEST, _LAST = 8, 4


def quality_of(
    functional: Functional,
    residuals: Mapping[str, np.ndarray],
    known: Known,
    *,
    fitted: int,
    converged: bool,
    falling: float = float("nan"),
    remaining: float = float("nan"),
    gap: float = 0.0,
    heldout: tuple[float, int] | None = None,
    directions: Sequence[Mapping[str, np.ndarray]] = (),
    finer: Sequence[Mapping[str, np.ndarray]] = (),
    held: Sequence[Held] = (),
) -> Quality:
    """The quality of a fit of one record.

    **Arguments:**

    - `functional`, `residuals`: its objective, and the weighted residuals at the estimate, by variable (S, I, ...).
    - `known`: facts about its data.
    - `fitted`: the number of unknowns at no bound.
    - `converged`: whether the optimizer found a minimum.
    - `falling`: as of `falling`; default NaN.
    - `remaining`: the largest change of a number that a Newton step would make, in standard errors; default NaN.
    - `gap`: as of `size_of_gaps`; default 0.
    - `heldout`: chi2 per value of frames that were kept out of the fit, and the number of their values.
    - `directions`: changes of the residuals with the fitted numbers, as `influences` returns them; without them weak
      structure is hidden behind what the numbers took up.
    - `finer`: changes of the residuals with finer steps, and with finer cells. With them errors of the discretisation
      are told from errors of the equation.
    - `held`: held values with the changes of the residuals that they make, as `held_values` returns them for every recording.
      Without them no held value is suspected.
    """
    of_range, explained = _sizes(functional, residuals, fitted)
    quality = Quality(
        **_size_and_structure(functional, residuals, directions, held, known.sigma_known),
        controls=fitted,
        converged=converged,
        sigma_known=known.sigma_known,
        sigma_exact=known.sigma_exact,
        sigma_stated=known.sigma_stated,
        noiseless=known.noiseless,
        of_range=of_range,
        explained=explained,
        counts=known.counts,
        heldout=heldout,
        windows_from_data=functional.problem.nodes is not None,
        single_precision=jax.tree.leaves(functional.problem.y0)[0].dtype == jnp.float32,
        remaining=remaining,
        gap=gap,
        falling=falling,
    )
    if not finer or not (quality.misses or not quality.at_minimum):
        return quality
    left = without_discretisation(residuals, directions, finer)
    refined = dataclasses.replace(quality, **_size_and_structure(functional, left, directions, held, known.sigma_known))
    return dataclasses.replace(quality, refined=refined)


def _sizes(functional: Functional, residuals: Mapping[str, np.ndarray], p: int) -> tuple[float, float]:
    """Root mean square of the residuals as a part of the range of their variable, and the part of its variance explained.

    The largest of all variables. The part of the range is infinite if there are no cells: particles and species have no
    errors but the errors of the step, which is tried. Fitted numbers count as degrees of freedom, unless data alone
    cannot determine so many.
    """
    data, tiny, gridded = functional.observations, np.finfo(float).tiny, True
    parts, explained = list[float](), list[float]()
    for name, r in residuals.items():
        gridded &= bool(_grid_axes(functional, name, r.ndim - 2))
        left = by_frame(functional, name, r) * np.asarray(data.sigma[name])
        values = np.asarray(data.values[name], float)[np.isfinite(left)]
        if values.size:
            square, free = float(np.nanmean(left**2)), 1 - p / values.size
            parts.append(float(np.sqrt(square) / max(np.ptp(values), tiny)))
            explained.append(1 - square / (free if free >= 0.5 else 1) / max(float(np.var(values)), tiny))
    return max(parts) if parts and gridded else float("inf"), max(explained, default=1.0)


def _size_and_structure(
    functional: Functional,
    residuals: Mapping[str, np.ndarray],
    directions: Sequence[Mapping[str, np.ndarray]],
    held: Sequence[Held],
    sigma_known: bool,
) -> dict[str, Any]:
    """Size and structure of residuals."""
    chi2, count = sum_of_squares(dict(residuals)), functional.observed_values
    # residuals of round-off and of the last digits of an optimizer are never white, so they are not tested
    tiny = far_below(chi2, count, sigma_known)
    films = [] if tiny else residual_films(functional, residuals, directions)
    tests, setting = [(film, structures(film)) for film in films], setting_of(functional, sigma_known)
    noise = tuple(n for film, found in tests for n in (*noise_shapes(film, setting), *offsets(film, found)))

    def clean(left: Mapping[str, np.ndarray]) -> bool:
        one = Quality(chi2, count, whiteness(functional, left), functional.controls.size, True)
        beside = (s for film in residual_films(functional, left, directions) for s in structures(film))
        return not one.correlated and all(s.excess < SURE for s in beside)

    return {
        "chi2": chi2,
        "values": count,
        "whiteness": None if tiny else whiteness(functional, residuals),
        "structures": tuple(s for _, found in tests for s in found),
        "noise": noise,
        "courses": setting.courses,
        "suspects": () if tiny else suspects(residuals, directions, held, sigma_known and not noise, clean),
    }


def setting_of(functional: Functional, sigma_known: bool = True) -> Setting:
    """The part of a fit that decides what loud frames mean."""
    problem, controls = functional.problem, functional.controls
    held = {c.name: holder(problem, c.name) for c in controls.items}
    courses = [n for n, x in held.items() if isinstance(x, TimeSeries | Interpolant) and x.times is not None]
    times = functional.observations.from_first_frame.ts
    return Setting(times, problem.system.time_unit, tuple(courses), bool(controls.states.items), sigma_known)


def falling(found: Fit) -> float:
    """The part of J by which the last quarter of the evaluations of the last stage lowered it; NaN if they are few."""
    last = [x.loss for x in found.history if x.stage == found.history[-1].stage]
    if len(last) < _FEWEST:
        return float("nan")
    lowest = np.fmin.accumulate(last)
    return float(1 - lowest[-1] / max(lowest[-1 - len(last) // _LAST], np.finfo(float).tiny))


def size_of_gaps(functional: Functional, theta: Float[Array, " p"], residuals: Mapping[str, np.ndarray]) -> float:
    """The root mean square gap between windows, in standard deviations of a gap; 0 without free node states.

    **Arguments:**

    - `functional`, `theta`: the objective, and the estimate, (p,).
    - `residuals`: the weighted residuals there, by variable (S, I, ...).
    """
    if not functional.continuity_values:
        return 0.0
    rest = sum_of_squares(dict(residuals)) + 2 * float(functional.extra_value(theta))
    square = 2 * float(VALUE(functional, theta)) - rest
    return float(np.sqrt(max(square, 0.0) / functional.continuity_values))


def by_frame(functional: Functional, name: str, values: np.ndarray) -> np.ndarray:
    """Values of a variable (S, I, ...) at the times of the record (T, ...), NaN if nothing was fitted."""
    layout = functional.layout
    fitted = np.asarray(functional.fitted(name))[layout.counts]
    out = np.full((functional.observations.ts.size, *values.shape[2:]), np.nan)
    out[layout.index[layout.counts]] = np.where(fitted, values[layout.counts], np.nan)
    return out


def residual_films(
    functional: Functional,
    residuals: Mapping[str, np.ndarray],
    directions: Sequence[Mapping[str, np.ndarray]] = (),
) -> list[ResidualFilm]:
    """Weighted residuals of every variable frame by frame, with the predictions that they belong to.

    **Arguments:**

    - `functional`: the objective of the fit.
    - `residuals`: its weighted residuals at the estimate, by variable (S, I, ...).
    - `directions`: changes of them, in the same layout.
    """
    films, first = list[ResidualFilm](), functional.observations.first_frame
    seen = functional.observations.from_first_frame
    for name, values in residuals.items():
        r = by_frame(functional, name, values)[first:]
        if not np.any(np.isfinite(r)):
            continue
        data, sigma = (np.asarray(x[name]) for x in (seen.values, seen.sigma))
        axes = _grid_axes(functional, name, r.ndim - 1)
        shape = r.shape if axes or r.ndim == 1 else (len(r), -1)
        changes = [by_frame(functional, name, d[name])[first:].reshape(shape) for d in directions]
        films.append(
            ResidualFilm(
                name,
                ("time", *axes),
                r.reshape(shape),
                (data + sigma * r).reshape(shape),
                np.stack(changes) if changes else np.zeros((0, *r.reshape(shape).shape)),
            )
        )
    return films


def whiteness(functional: Functional, residuals: Mapping[str, np.ndarray]) -> dict[str, dict[str, Correlation]]:
    """Correlations of neighbouring residuals of each observed variable, along `time` and along every axis of a grid.

        value = sum a b / sqrt(sum a^2 sum b^2),    spread = sqrt(sum a^2 b^2 / (sum a^2 sum b^2))

    The sums run over neighbours a, b in one window that were both observed and fitted. No mean is subtracted, because
    an offset is structure too. The spread supposes that residuals are independent, not that they are of equal size.
    Neighbours in time are successive frames, however far apart. Axes with labels (bodies) have no neighbours.

    Fitting p controls to n values lowers a correlation by up to p / n. Windows that start from noisy data raise it.

    **Arguments:**

    - `functional`: the objective of the fit.
    - `residuals`: its weighted residuals at the estimate, by variable (S, I, ...).

    Source of the spread: H. White, Econometrica 48:817 (1980), doi:10.2307/1912934.
    """
    correlations: dict[str, dict[str, Correlation]] = {}
    for name, values in residuals.items():
        fitted = np.asarray(functional.fitted(name))
        axes = {"time": 1, **{dim: k + 2 for k, dim in enumerate(_grid_axes(functional, name, fitted.ndim - 2))}}
        along = {dim: _correlation(values, fitted, axis) for dim, axis in axes.items()}
        correlations[name] = {dim: c for dim, c in along.items() if c is not None}
    return correlations


def _grid_axes(functional: Functional, name: str, ndim: int) -> tuple[str, ...]:
    """Names of the axes along which a field has neighbours in space; empty for lists and fields without a grid."""
    system = functional.problem.system
    where = system.coords().get(name)
    if where is None or len(where.dims) != ndim or any(where.coords[d].dtype.kind not in "fiu" for d in where.dims):
        return ()
    return where.dims


def _correlation(values: np.ndarray, fitted: np.ndarray, axis: int) -> Correlation | None:
    """Correlation between neighbours along an axis; None if there are none, or all residuals are zero."""
    values, fitted = np.moveaxis(values, axis, 0), np.moveaxis(fitted, axis, 0)
    both = fitted[:-1] & fitted[1:]
    a, b = values[:-1][both], values[1:][both]
    size = np.sqrt(np.sum(a**2) * np.sum(b**2))
    if a.size < 2 or not size > 0:
        return None
    return Correlation(float(np.sum(a * b) / size), float(np.sqrt(np.sum((a * b) ** 2)) / size), int(a.size))
