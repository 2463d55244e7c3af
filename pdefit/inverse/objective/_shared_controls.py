"""Controls of many recordings: those that all share, and each recording's own."""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit.inverse.controls.vector import BoundControl, Controls
from pdefit.inverse.objective.functional import Functional

# one over the standard deviation of a gauge, in units of the scale of its control
_STIFF = 1e3


@dataclasses.dataclass(frozen=True)
class _Of:
    """A leaf of one recording in the stacked problem."""

    where: Callable[[PyTree], Array]
    recording: int

    def __call__(self, problem: PyTree) -> PyTree:
        return self.where(problem)[self.recording]


def stacked_items(functionals: Sequence[Functional]) -> list[BoundControl]:
    """The controls of all recordings in the order of theta, bound to the stacked problem."""

    def bound(c: BoundControl, e: int) -> BoundControl:
        return dataclasses.replace(c, recording=e if c.own else None, where=_Of(c.where, e))

    shared = [bound(c, 0) for c in functionals[0].controls.items if not c.own]
    own = [bound(c, e) for e, f in enumerate(functionals) for c in f.controls.items if c.own]
    return [*shared, *(c for c in own if not c.is_node), *(c for c in own if c.is_node)]


def theta_columns(controls: Controls, one: Controls, count: int) -> np.ndarray:
    """For each of E recordings the elements of theta that are its own theta of q elements, (E, q)."""
    edges = np.cumsum([0, *(c.size for c in controls.items)])
    found = {c.path: np.arange(a, a + c.size) for c, a in zip(controls.items, edges[:-1], strict=True)}
    rows = [[found[f"{c.path}[{e}]" if c.own else c.path] for c in one.items] for e in range(count)]
    return np.stack([np.concatenate(row) for row in rows])


def gauge_rows(
    controls: Controls, count: int, gauge: Sequence[tuple[str, int | str]], theta0: Array
) -> tuple[np.ndarray, np.ndarray]:
    """The residuals of a gauge: rows (g, p) whose product with theta keeps the values (g,).

    **Arguments:**

    - `controls`: of all recordings, of which there are `count`.
    - `gauge`: paths of own controls, each with `sum` or the number of a recording.
    - `theta0`: the point at the guesses, (p,).
    """
    rows, values, start = [np.zeros((0, controls.size))], [np.zeros(0)], np.asarray(theta0, float)
    edges = np.cumsum([0, *(c.size for c in controls.items)])
    for path, rule in gauge:
        found = {
            c.recording: slice(a, a + c.size) for c, a in zip(controls.items, edges, strict=False) if c.name == path
        }
        if None in found or not found:
            raise unknown("control of scope experiment (gauge)", path, {c.name for c in controls.items if c.own})
        if rule != "sum" and rule not in found:
            raise PdefitError(f"gauge.{path} expects sum, or the number of one of {count} recordings, but got {rule!r}")
        spans = list(found.values()) if rule == "sum" else [found[rule]]
        row = np.zeros((spans[0].stop - spans[0].start, controls.size))
        for span in spans:
            row[:, span] = _STIFF * np.eye(len(row))
        rows.append(row)
        values.append(np.zeros(len(row)) if rule == "sum" else row @ start)
    return np.concatenate(rows), np.concatenate(values)


def without_shared(functional: Functional) -> Functional:
    """The functional without priors and regularizers of shared controls, which count once."""
    items = tuple(c if c.own else dataclasses.replace(c, prior=None) for c in functional.controls.items)
    own = [c.path for c in items if c.own]
    kept = tuple(r for r in functional.regularizers if r.control in own)
    return eqx.tree_at(lambda f: (f.controls, f.regularizers), functional, (Controls(items), kept))


def check_shared(e: int, functional: Functional, first: Functional) -> None:
    """Refuse shared controls that do not start from the same value."""
    one, other = ({c.path: c for c in f.controls.items if not c.own} for f in (first, functional))
    if one.keys() != other.keys():
        raise PdefitError(
            f"Recordings expects the same shared controls in all, but number {e} has {', '.join(other) or 'none'} and "
            f"number 0 {', '.join(one) or 'none'}"
        )
    for path in one:
        guesses = [np.asarray(c[path].where(f.problem)) for c, f in ((one, first), (other, functional))]
        if guesses[0].shape != guesses[1].shape or not np.allclose(*guesses, rtol=1e-6, atol=0):
            raise PdefitError(
                f"The control '{path}' is shared, but its guess in recording {e} is not that in recording 0; give it one "
                f'guess, or scope="experiment"'
            )
