"""Changes of the residuals with values that a fit holds, for a score test of these values."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit.inverse.controls.paths import leaf, possible
from pdefit.inverse.controls.theta import AtBound
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import sum_of_squares, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.spread import given_devices, over_cores

# tests, at most: each costs one or two forward runs; and tests times values, which are held
_MOST, _MOST_HELD = 30, 50_000_000
# values of an array that are tested one by one, at most, and patches of a field along an axis
_SINGLE, _PATCHES = 12, 4
# the first relative change of a value, and the norms of the answer between which it is linear and beyond round-off
_FIRST, _LEAST, _LARGEST = 1e-3, 0.03, 3.0


# recordings, each with its part of theta
Parts = list[tuple[Functional, Array]]


class Held(NamedTuple):
    """A value that a fit holds, and the change of one recording's residuals with it.

    **Arguments:**

    - `path`: the path of its array.
    - `name`: `u0`, `gm.2`, or a field and the cells of a patch: `s[0:4]`.
    - `value`: the held value in the first recording, or the mean of a patch.
    - `change`: the change of the value that causes the change of residuals. Other recordings change by the same
      fraction.
    - `residuals`: the changes of the weighted residuals, by variable (S, I, ...).
    - `at_bound`: whether it is a scalar that ended at its bound.
    """

    path: str
    name: str
    value: float
    change: float
    residuals: dict[str, np.ndarray]
    at_bound: bool = False


def held_values(found: Fit) -> tuple[list[list[Held]], list[str]]:
    """Held values with the changes of the residuals of every recording, and the paths that were left out.

    Held values are parameters of system and instrument, and a given initial state, that are not controls; and fitted
    scalars that ended at a bound. Scalars are taken one by one and fields by patches, 30 in all, or fewer if their
    residuals would fill memory. A value without an effect on the residuals is left out.

    **Arguments:**

    - `found`: the fit.
    """
    functional, theta = found.functional, jnp.asarray(found.theta)
    parts = functional.parts(theta)
    now = [one.residuals for one in found.recordings]
    first, tests, missed = parts[0][0], [list[Held]() for _ in parts], list[str]()
    most = min(_MOST, _MOST_HELD // max(functional.observed_values, 1))
    taken = {control.path for control in first.controls.items}

    def answer(moved: Callable[[float], Parts], step: float) -> list[dict[str, np.ndarray]]:
        there = (weighted(over_cores(f, given_devices(functional), least=0.0), own) for f, own in moved(step))
        return [{n: r - before[n] for n, r in after.items()} for after, before in zip(there, now, strict=True)]

    values = [_bounded(functional, theta, one) for one in functional.controls.numbers_at_bound(theta)[:most]]
    for path in possible(first.problem):
        where = leaf(first.problem, path)
        x = np.asarray(where(first.problem))
        pieces = [] if path in taken else list(_pieces(path, x.shape))
        if len(values) + len(pieces) > most:
            missed.append(path)
            continue
        for name, piece in pieces:
            value = Held(path, name, float(np.mean(x[piece])), _unit(x[piece]), {})
            values.append((value, partial(_moved, parts, where, piece)))
    for value, moved in values:
        if (found_step := _linear(partial(answer, moved))) is not None:
            step, changes = found_step
            for each, own in zip(tests, changes, strict=True):
                each.append(value._replace(change=step * value.change, residuals=own))
    return tests, missed


def _bounded(functional: AbstractObjective, theta: Array, one: AtBound) -> tuple[Held, Callable[[float], Parts]]:
    """A scalar at its bound with its unit, and recordings with it moved into its admissible range."""
    unit = _unit(np.asarray(one.value)) * (1 if one.lowest else -1)

    def moved(step: float) -> Parts:
        search = one.control.transform.to_search(jnp.asarray(one.value + step * unit))
        return functional.parts(theta.at[one.element].set(search / one.control.scale))

    return Held(one.control.name, one.name, one.value, unit, {}, at_bound=True), moved


def _moved(parts: Parts, where: Callable, piece: tuple[Any, ...], step: float) -> Parts:
    """Recordings with a piece of an array changed by a fraction of its size."""
    out = Parts()
    for part, own in parts:
        x = np.array(where(part.problem))
        x[piece] += step * _unit(x[piece])
        out.append((eqx.tree_at(lambda f: where(f.problem), part, jax.device_put(x)), own))
    return out


def _unit(x: np.ndarray) -> float:
    """The size of some values, or 1 if they are zero."""
    return float(np.mean(np.abs(x))) or 1.0


def _linear(answer: Callable[[float], list[dict[str, np.ndarray]]]) -> tuple[float, list[dict[str, np.ndarray]]] | None:
    """A relative change and its response, linear and beyond round-off; None without an effect."""
    step = _FIRST
    changes = answer(step)
    norm = float(np.sqrt(sum(map(sum_of_squares, changes))))
    if not 0 < norm < np.inf:
        return None
    if not _LEAST <= norm <= _LARGEST:
        step /= norm
        changes = answer(step)
    return step, changes


def _pieces(path: str, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Elements of a small array, or patches of a large one: their names and indices."""
    single = np.prod(shape) <= _SINGLE
    ends = [np.linspace(0, n, (n if single else min(n, _PATCHES)) + 1).round().astype(int) for n in shape]
    for piece in itertools.product(*(list(itertools.pairwise(e)) for e in ends)):
        cells = ".".join(str(a) for a, _ in piece) if single else "[" + ", ".join(f"{a}:{b}" for a, b in piece) + "]"
        yield path + ("." * bool(single and shape)) + cells, (..., *(slice(a, b) for a, b in piece))
