"""Changes of the residuals with values that a fit holds, for a score test of these values."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pdefit.inverse.controls.paths import leaf, possible
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.compiled import sum_of_squares, weighted
from pdefit.inverse.objective.spread import given_devices, over_cores

# tests, at most: each costs one or two forward runs; and tests times values, which are held
_MOST, _MOST_HELD = 30, 50_000_000
# values of an array that are tested one by one, at most, and patches of a field along an axis
_SINGLE, _PATCHES = 12, 4
# the first relative change of a value, and the norms of the answer between which it is linear and beyond round-off
_FIRST, _LEAST, _LARGEST = 1e-3, 0.03, 3.0


class Held(NamedTuple):
    """A value that a fit holds, and the change of the residuals of one recording with it.

    **Arguments:**

    - `path`: of its array.
    - `name`: `u0`, `gm.2`, or a field and the cells of a patch: `s[0:4]`.
    - `value`: the held value in the first recording, or the mean of a patch.
    - `change`: the change of it that the residuals answer to. Other recordings change by the same part of theirs.
    - `residuals`: the changes of the weighted residuals, by variable (S, I, ...).
    """

    path: str
    name: str
    value: float
    change: float
    residuals: dict[str, np.ndarray]


def held_values(found: Fit) -> tuple[list[list[Held]], list[str]]:
    """Values that a fit holds with the changes of the residuals of every recording, and the paths that were left out.

    Held are parameters of system and instrument, and a given initial state, that no control moves. Numbers come one by
    one and fields by patches, 30 in all, or fewer where their residuals would fill memory. A value without an effect on
    the residuals is left out.

    **Arguments:**

    - `found`: the fit.
    """
    parts = found.functional.parts(found.theta)
    now = [one.residuals for one in found.recordings]
    first, tests, missed = parts[0][0], [list[Held]() for _ in parts], list[str]()
    left = min(_MOST, _MOST_HELD // max(found.functional.observed_values, 1))
    taken = {control.path for control in first.controls.items}

    def answer(where: Callable, piece: tuple[Any, ...], step: float) -> list[dict[str, np.ndarray]]:
        changes = []
        for (part, own), before in zip(parts, now, strict=True):
            x = np.array(where(part.problem))
            x[piece] += step * _unit(x[piece])
            moved = eqx.tree_at(lambda f: where(f.problem), part, jnp.asarray(x))
            after = weighted(over_cores(moved, given_devices(found.functional), least=0.0), own)
            changes.append({n: r - before[n] for n, r in after.items()})
        return changes

    for path in possible(first.problem):
        where = leaf(first.problem, path)
        x = np.asarray(where(first.problem))
        pieces = [] if path in taken else list(_pieces(path, x.shape))
        if len(pieces) > left:
            missed.append(path)
            continue
        left -= len(pieces)
        for name, piece in pieces:
            if (found_step := _linear(partial(answer, where, piece))) is not None:
                step, changes = found_step
                value, change = float(np.mean(x[piece])), step * _unit(x[piece])
                for each, own in zip(tests, changes, strict=True):
                    each.append(Held(path, name, value, change, own))
    return tests, missed


def _unit(x: np.ndarray) -> float:
    """The size of some values, or 1 where they are zero."""
    return float(np.mean(np.abs(x))) or 1.0


def _linear(answer: Callable[[float], list[dict[str, np.ndarray]]]) -> tuple[float, list[dict[str, np.ndarray]]] | None:
    """A relative change and its answer, which is linear in it and beyond round-off; None without an effect."""
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
    """The elements of a small array, or the patches of a large one: their names and places."""
    single = np.prod(shape) <= _SINGLE
    ends = [np.linspace(0, n, (n if single else min(n, _PATCHES)) + 1).round().astype(int) for n in shape]
    for piece in itertools.product(*(list(itertools.pairwise(e)) for e in ends)):
        cells = ".".join(str(a) for a, _ in piece) if single else "[" + ", ".join(f"{a}:{b}" for a, b in piece) + "]"
        yield path + ("." * bool(single and shape)) + cells, (..., *(slice(a, b) for a, b in piece))
