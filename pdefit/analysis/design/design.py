"""Experimental design: expected intervals, and the further observations that shorten them."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.analysis.design._information import FINER, Information, information
from pdefit.analysis.design._places import described
from pdefit.analysis.design.result import Cadence, Candidate, Design
from pdefit.analysis.identifiability.identify import HALF, relative_sizes
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.linear.determined_inverse import standard_errors
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents
from pdefit.inverse.shooting.formulation import Single
from pdefit.inverse.uncertainty.control_values import moved

# from matrices (..., p, p) to half the widths of the intervals, (..., p)
Halves = Callable[[np.ndarray], np.ndarray]
# the information of a time that tells nothing, as a part of the most
_NOTHING = 1e-12


def design(objective: Functional, theta: Float[Array, " p"], *, target: str | None = None) -> Design:
    """Optimal design: the expected intervals of an experiment, and the further observations that would shorten them.

    The Gauss-Newton matrix is a sum over frames, variables and places. One tangent solve on a schedule with four times
    as many frames, half as long again, and with all fields seen, gives every part of it. Everything else is linear
    algebra. Sigma is as stated, and no data values are used. A frame between two frames of the record takes the
    variables and sigma of the nearest one.

    For the plan of an experiment with few unknowns, at values near the true ones. Not for unknown fields, and not for a
    model that is strongly nonlinear within an interval (`pdefit.profiles` after a fit). A record in segments is taken as
    one trajectory.

    **Arguments:**

    - `objective`: the objective of one record; its times, variables and sigma are used, its values are not.
    - `theta`: the point, (p,).
    - `target`: the name of the unknown whose interval should shrink; by default the one with the widest relative
      interval.

    Source: A. C. Atkinson, A. N. Donev, R. D. Tobias, Optimum Experimental Designs, with SAS (Oxford, 2007), chapters 9
    and 17.
    """
    if not objective.observed_values:
        raise PdefitError(
            "A design expects observations that are fitted, but there are none; give times and what is seen"
        )
    functional, theta = _one_trajectory(with_tangents(objective), jnp.asarray(theta))
    if theta.size > FEW:
        raise PdefitError(
            f"A design is for few unknowns, up to {FEW}, but there are {theta.size}; leave the fields out of controls "
            f"(~controls.y0 holds the initial state), or use pdefit identify, which works by products"
        )
    found, controls = information(functional, theta), functional.controls
    every = found.of_times
    if not np.all(np.isfinite(every[found.useful])):
        raise PdefitError("The model is not finite at this point; see pdefit doctor, or choose another guess")
    scale = _sizes(controls, theta)

    def halves(matrix: np.ndarray) -> np.ndarray:
        return HALF * standard_errors(matrix) / scale

    data = every[found.useful].sum(axis=0)
    now = halves(data + found.prior)
    reach = now * scale
    values = [np.asarray(moved(controls, theta, jnp.asarray(by))) for by in (np.zeros(theta.size), -reach, reach)]
    names = controls.names()
    candidates, parts = zip(*_candidates(functional, found), strict=True)
    matrices = data + found.prior + np.stack(parts)
    halved = halves(matrices)
    each = [dataclasses.replace(c, half=h) for c, h in zip(candidates, halved, strict=True)]
    again = _repeated(controls, data, found.prior, scale)
    goal = _target(names, target, now, values[0], np.stack([*halved, again]))
    pairs = _pairs(each, matrices, np.stack(parts), halves, goal)
    each = [c for c in each if not np.isnan(c.half).any()]
    ordered = sorted(each, key=lambda c: (c.kind, np.round(c.half[goal] / _finite(now[goal]), 9)))
    repeat = Candidate("recording", "one more recording of the same kind", again)
    return Design(
        names=tuple(names),
        units=controls.units(),
        estimate=values[0],
        low=values[1],
        high=values[2],
        half=now,
        target=goal,
        candidates=(*ordered, repeat, *pairs),
        cadences=_cadences(found, every, halves),
        ts=np.asarray(functional.observations.ts),
        time_unit=functional.problem.system.time_unit,
    )


def _sizes(controls: Controls, theta: Array) -> np.ndarray:
    """The step in each element of theta that changes its value by its own magnitude, or by 1 if it is 0."""
    nothing = jnp.zeros(theta.size)
    value, slope = map(np.asarray, jax.jvp(lambda by: moved(controls, theta, by), (nothing,), (jnp.ones(theta.size),)))
    return np.where((value == 0) & (slope != 0), 1 / np.where(slope != 0, slope, 1.0), relative_sizes(controls, theta))


def _one_trajectory(functional: Functional, theta: Array) -> tuple[Functional, Array]:
    """The functional of one trajectory over the whole record, with theta converted to it."""
    if isinstance(functional.formulation, Single) and not functional.formulation.partial:
        return functional, theta
    changed = functional.reformulated(Single(), theta)
    return changed, changed.theta0


def _finite(x: float) -> float:
    return float(x) if np.isfinite(x) and x > 0 else 1.0


def _target(names: Sequence[str], target: str | None, now: np.ndarray, value: np.ndarray, after: np.ndarray) -> int:
    """Index of the target: the named unknown, else one that a candidate would determine, or the widest."""
    if target is not None:
        if target not in names:
            raise unknown("unknown of this design", target, names)
        return names.index(target)
    gained = ~np.isfinite(now) & np.any(np.isfinite(after), axis=0)
    if gained.any():
        return int(np.argmin(np.where(gained, np.where(np.isfinite(after), after, np.inf).min(axis=0), np.inf)))
    comparable = np.isfinite(now) & (value != 0)
    comparable = comparable if comparable.any() else np.isfinite(now)
    return int(np.argmax(np.where(comparable, now, -1.0)))


def _candidates(functional: Functional, found: Information) -> list[tuple[Candidate, np.ndarray]]:
    """Candidate observations with their contributions to the matrix, (p, p). Their intervals are still empty."""
    empty, record, of_times = np.zeros(0), found.useful, found.of_times
    parts = [
        (Candidate("frame", f"One more frame at t = {t:.5g}", empty, time=float(t)), of_times[i])
        for i, t in enumerate(found.times.ts)
    ]
    for name, each in found.frames.items():
        now = name in found.observed
        words = f"{name} a second time, in every frame" if now else f"{name}, which is not observed now, in every frame"
        parts.append((Candidate("field", words, empty, name), each[record].sum(axis=0)))
    shapes = {
        n: x.shape
        for n, x in (*named_fields(functional.problem.y0).items(), *functional.observed.items())
        if n in found.places
    }
    for name, places in described(functional, shapes).items():
        for place, matrix in zip(places, found.places[name], strict=True):
            words = f"{name} at {place.words}{', a second time' * (name in found.observed)}"
            parts.append((Candidate("place", words, empty, name, place=place.middle, axes=place.axes), matrix))
    return parts


def _pairs(
    each: list[Candidate], matrices: np.ndarray, parts: np.ndarray, halves: Halves, goal: int
) -> list[Candidate]:
    """The best candidate of each kind, paired with the best second one of the same kind.

    **Arguments:**

    - `each`: the candidates with their intervals.
    - `matrices`, `parts`: for each candidate the matrix with it, and its contribution, (n, p, p).
    - `halves`, `goal`: as in `design`.
    """
    pairs = []
    for kind in dict.fromkeys(c.kind for c in each):
        own = [i for i, c in enumerate(each) if c.kind == kind and np.isfinite(c.half).any()]
        if not own:
            continue
        best = min(own, key=lambda i: each[i].half[goal])
        both = halves(matrices[best] + parts[own])
        k = int(np.argmin(np.where(np.isfinite(both[:, goal]), both[:, goal], np.inf)))
        second = each[own[k]].words
        words = f"and then {second[:1].lower()}{second[1:]}" if kind == "frame" else f"and then {second}"
        pairs.append(dataclasses.replace(each[own[k]], words=words, half=both[k], is_second=True))
    return pairs


def _repeated(controls: Controls, data: np.ndarray, prior: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Half widths with a second recording that has its own initial state, unknown if the first one's is."""
    own = np.flatnonzero(controls.mask(lambda c: c.is_state))
    p = len(data)
    both = np.zeros((p + own.size, p + own.size))
    both[:p, :p] = data + prior
    columns = np.arange(p)
    columns[own] = p + np.arange(own.size)
    both[np.ix_(columns, columns)] += data
    both[p:, p:] += prior[np.ix_(own, own)]
    return HALF * standard_errors(both)[:p] / scale


def _cadences(found: Information, every: np.ndarray, halves: Halves) -> tuple[Cadence, ...]:
    """Cadences with four times to an eighth of the frames, as long as two frames are left."""
    size = np.trace(np.nan_to_num(every), axis1=1, axis2=2)
    tells = size > _NOTHING * size.max()
    inside = np.flatnonzero(found.times.finer > 0)
    chosen = {1 / n: inside[found.times.finer[inside] <= n] for n in (FINER, 2) if n in found.times.finer}
    record = found.useful
    chosen |= {float(n): record[::n] for n in (1, 2, 4, 8, 16) if record[::n].size > 2 or n == 1}
    rows = [(n, int(tells[i].sum()), halves(every[i].sum(axis=0) + found.prior)) for n, i in chosen.items()]
    frames, now = next((f, h) for n, f, h in rows if n == 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return tuple(
            Cadence(n, f, h, np.nan_to_num(h / now / np.sqrt(frames / max(f, 1)), nan=1.0, posinf=np.inf))
            for n, f, h in rows
        )
