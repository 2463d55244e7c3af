"""Controls of many recordings: shared ones, and each recording's own."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.controls.theta import Controls, in_order
from pdefit.inverse.objective.functional import Functional

# one over the standard deviation of a sum that is kept zero, in units of the scale of its control
_STIFF = 1e3


@dataclasses.dataclass(frozen=True)
class _Of:
    """Function that selects a leaf of one recording in the stacked problem."""

    where: Callable[[PyTree], Array]
    recording: int

    def __call__(self, problem: PyTree) -> PyTree:
        return self.where(problem)[self.recording]


def joined(
    functionals: Sequence[Functional], gauge: Mapping[str, int | str]
) -> tuple[Controls, np.ndarray, Float[Array, " h"], np.ndarray]:
    """Controls of all recordings, and the fields `columns`, `fixed` and `sums` of `Recordings`.

    **Arguments:** `gauge`: as in `Recordings`.
    """
    _check_gauge(gauge, functionals)
    fixed = {path: e for path, e in gauge.items() if isinstance(e, int)}
    controls = _stacked_controls(functionals, fixed)
    columns = _theta_columns(controls, functionals[0].controls, len(functionals), fixed)
    return controls, columns, _fixed_values(functionals, fixed), _sums(controls, gauge)


def _stacked_controls(functionals: Sequence[Functional], fixed: Mapping[str, int]) -> Controls:
    """Controls of all recordings in the order of theta, bound to the stacked problem.

    **Arguments:** `fixed`: by path, the index of the recording whose control is held at its guess and left out.
    """

    def bound(c: BoundControl, e: int) -> BoundControl:
        return dataclasses.replace(c, recording=e if c.own else None, where=_Of(c.where, e))

    shared = [bound(c, 0) for c in functionals[0].controls.items if not c.own]
    each = [(c, e) for e, f in enumerate(functionals) for c in f.controls.items if c.own]
    return in_order([*shared, *(bound(c, e) for c, e in each if fixed.get(c.name) != e)])


def _fixed_values(functionals: Sequence[Functional], fixed: Mapping[str, int]) -> Float[Array, " h"]:
    """Search variables of controls that recordings keep at their guesses, in the order of `fixed`."""
    values = []
    for path, e in fixed.items():
        values += [c.to_theta(c.where(functionals[e].problem)) for c in functionals[e].controls.items if c.name == path]
    return jnp.concatenate(values) if values else jax.device_put(np.zeros(0))


def _theta_columns(controls: Controls, one: Controls, count: int, fixed: Mapping[str, int]) -> np.ndarray:
    """For each of E recordings the indices in theta of its own theta of q elements, (E, q).

    Fixed elements come after all elements of theta, in the order of `fixed`.
    """
    columns = {c.path: np.arange(span.start, span.stop) for c, span in controls.spans}
    end, sizes = controls.size, {c.name: c.size for c in one.items}
    for path, e in fixed.items():
        columns[f"{path}[{e}]"], end = np.arange(end, end + sizes[path]), end + sizes[path]
    rows = [[columns[f"{c.path}[{e}]" if c.own else c.path] for c in one.items] for e in range(count)]
    # a finer grid beside an unknown initial state leaves none
    return np.stack([np.concatenate([np.zeros(0, int), *row]) for row in rows])


def _check_gauge(gauge: Mapping[str, int | str], functionals: Sequence[Functional]) -> None:
    """Refuse a gauge of a control that is not each recording's own, or that names a missing recording."""
    own = {c.name for c in functionals[0].controls.items if c.own and not c.is_node}
    for path, rule in gauge.items():
        if path not in own:
            raise unknown("control of scope experiment (gauge)", path, own)
        if rule != "sum" and rule not in range(len(functionals)):
            raise PdefitError(
                f"gauge.{path} expects sum, or the number of one of {len(functionals)} recordings, but got {rule!r}"
            )


def _sums(controls: Controls, gauge: Mapping[str, int | str]) -> np.ndarray:
    """Rows (g, p) whose products with theta are residuals of the controls with zero-sum gauge."""
    rows = [np.zeros((0, controls.size))]
    for path in (path for path, rule in gauge.items() if rule == "sum"):
        size = next(c.size for c in controls.items if c.name == path)
        row = np.zeros((size, controls.size))
        row[np.arange(size), np.flatnonzero(controls.elements[path]).reshape(-1, size)] = _STIFF
        rows.append(row)
    return np.concatenate(rows)


def without_shared(functional: Functional) -> Functional:
    """The functional without priors and regularizers of shared controls, which count only once."""
    items = tuple(c if c.own else c.with_priors(None, None) for c in functional.controls.items)
    own = [c.path for c in items if c.own]
    regularizers = tuple(r for r in functional.regularizers if r.control in own)
    return eqx.tree_at(lambda f: (f.controls, f.regularizers), functional, (Controls(items), regularizers))


def check_shared(e: int, functional: Functional, first: Functional) -> None:
    """Refuse adaptive steps with different tolerances, and shared controls with different starting values."""
    if functional.steps != first.steps:
        raise PdefitError(
            f"Recordings expects the same steps in all, but number {e} has {functional.steps} and number 0 {first.steps}"
        )
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
