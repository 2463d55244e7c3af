"""Controls of many recordings: those that all share, and each recording's own."""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.inverse.controls.vector import BoundControl, Controls, in_order
from pdefit.inverse.objective.functional import Functional


@dataclasses.dataclass(frozen=True)
class _Of:
    """A leaf of one recording in the stacked problem."""

    where: Callable[[PyTree], Array]
    recording: int

    def __call__(self, problem: PyTree) -> PyTree:
        return self.where(problem)[self.recording]


def stacked_controls(functionals: Sequence[Functional]) -> Controls:
    """The controls of all recordings in the order of theta, bound to the stacked problem."""

    def bound(c: BoundControl, e: int) -> BoundControl:
        return dataclasses.replace(c, recording=e if c.own else None, where=_Of(c.where, e))

    shared = [bound(c, 0) for c in functionals[0].controls.items if not c.own]
    each = [(c, e) for e, f in enumerate(functionals) for c in f.controls.items]
    return in_order([*shared, *(bound(c, e) for c, e in each if c.own and not (c.relative and e == 0))])


def held_values(functional: Functional) -> Float[Array, " h"]:
    """The search variables of controls that the first recording keeps at their guesses."""
    held = [c.to_theta(c.where(functional.problem)) for c in functional.controls.items if c.relative]
    return jnp.concatenate([jnp.zeros(0), *held])


def theta_columns(controls: Controls, one: Controls, count: int) -> np.ndarray:
    """For each of E recordings the elements of theta that are its own theta of q elements, (E, q).

    Those that the first recording keeps at their guesses come after all elements of theta.
    """
    edges = np.cumsum([0, *(c.size for c in controls.items)])
    found = {c.path: np.arange(a, a + c.size) for c, a in zip(controls.items, edges[:-1], strict=True)}
    end = edges[-1]
    for c in one.items:
        if c.relative:
            found[f"{c.path}[0]"], end = np.arange(end, end + c.size), end + c.size
    rows = [[found[f"{c.path}[{e}]" if c.own else c.path] for c in one.items] for e in range(count)]
    return np.stack([np.concatenate(row) for row in rows])


def without_shared(functional: Functional) -> Functional:
    """The functional without priors and regularizers of shared controls, which count once."""
    items = tuple(c if c.own else dataclasses.replace(c, prior=None, roughness=None) for c in functional.controls.items)
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
