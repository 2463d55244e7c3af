"""Compiled evaluations of functionals, with one program for each kind of functional."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.trees import is_traced
from pdefit.integrate.loop.batch import on_one_device
from pdefit.inverse.objective.abstract import AbstractObjective, objective_program
from pdefit.inverse.objective.kept_gradient import KeptGradient
from pdefit.inverse.objective.recording_equations import ArrowEquations, RecordingEquations
from pdefit.inverse.objective.segment_jacobian import ResidualParts, SegmentNormalEquations

# of every group of residuals; and J, J_r^T r and J_r^T J_r of all
Equations = tuple[SegmentNormalEquations | RecordingEquations, tuple[Array, Array, Array | ArrowEquations]]


class ForwardProgram:
    """Program that runs an objective forward only. Small objectives with other steps share it.

    **Arguments:** `function`: the function of an objective and theta.
    """

    # the last small objective, and its form in programs
    _last: tuple[AbstractObjective, AbstractObjective] | None = None

    def __init__(self, function: Callable):
        self._program = objective_program(function)

    def __call__(self, functional: AbstractObjective, theta: Array | np.ndarray) -> Any:
        return self._program(self.form(functional, theta), theta)

    def lower(self, functional: AbstractObjective, theta: Array | np.ndarray) -> Any:
        """The lowered program, as in `equinox.filter_jit`."""
        return self._program.lower(self.form(functional, theta), theta)

    @staticmethod
    def form(functional: AbstractObjective, theta: Array | np.ndarray) -> AbstractObjective:
        """The objective as the compiled program takes it."""
        # a large one is not held, since its checkpoints are freed with it
        if is_traced((functional, theta)) or not functional.small:
            return functional
        if ForwardProgram._last is None or ForwardProgram._last[0] is not functional:
            ForwardProgram._last = functional, functional.by_count()
        return ForwardProgram._last[1]


VALUE = objective_program(lambda functional, theta: functional.value(theta))
GRADIENT = KeptGradient()
PRODUCT = objective_program(lambda functional, theta, v: functional.gauss_newton_product(theta, v))
RESIDUALS = objective_program(lambda functional, theta: functional.residuals(theta))
PARTS = ForwardProgram(lambda functional, theta: functional.residual_parts(theta))


def _equations(functional, theta):
    groups = functional.held_equations(theta) if functional.small else functional.grouped_equations(theta)
    return groups, groups.total()


# the normal equations of every group of residuals, and their total: one program for fits, certificates and intervals
EQUATIONS = ForwardProgram(_equations)


def value_of(functional: AbstractObjective, theta: Array | np.ndarray) -> Array:
    """J(theta); for a small objective by the program of its residuals."""
    return jnp.asarray(half_square(PARTS(functional, theta))) if functional.small else VALUE(functional, theta)


def half_square(parts: ResidualParts) -> float:
    """Half the sum of squared residuals in host memory, including gaps between segments."""
    return squares(kinds(parts)) / 2


def kinds(parts: ResidualParts) -> list[np.ndarray]:
    """Residuals of every variable, gaps at the ends of segments, and regularizers and priors, in host memory."""
    observed, ends, starts, extra = jax.device_get(parts)
    gaps = np.zeros_like(ends)
    gaps[..., :-1, :] = ends[..., :-1, :] - starts[..., 1:, :]
    return [*observed.values(), gaps, *extra]


class LowestEquations:
    """Normal equations at the lowest J of the last evaluated objective, stored to avoid a second evaluation."""

    def __init__(self):
        self._known: tuple[AbstractObjective, Array, Equations] | None = None

    def __call__(self, functional, theta) -> Equations:
        """Normal equations at a point, as in `EQUATIONS`."""
        found, known = on_one_device(EQUATIONS(functional, theta)), self._known
        if known is None or known[0] is not functional or float(found[1][0]) < float(known[2][1][0]):
            self._known = functional, theta, found
        return found

    def at(self, functional, theta) -> Equations | None:
        """Stored equations of an objective if theta is its lowest point; otherwise None."""
        if self._known is None or self._known[0] is not functional or not np.array_equal(self._known[1], theta):
            return None
        return self._known[2]


def normal_equations(functional, theta) -> tuple[Array, Array, Array]:
    """J, J_r^T r and J_r^T J_r, the last as a dense matrix."""
    value, gradient, matrix = on_one_device(EQUATIONS(functional, theta)[1])
    return value, gradient, jax.device_put(np.asarray(matrix))


def weighted(functional, theta) -> dict[str, np.ndarray]:
    """Weighted residuals of every observation by variable, (S, I, ...), in host memory; zero for padding."""
    residuals = dict(PARTS(functional, theta).observed)
    # each is freed on the device before the next is copied
    return {name: np.asarray(residuals.pop(name), np.float64) for name in list(residuals)}


def sum_of_squares(residuals: dict[str, np.ndarray]) -> float:
    """Sum of the squares of all residuals, given by variable; infinite on overflow."""
    return squares(residuals.values())


def squares(residuals: Iterable[np.ndarray]) -> float:
    """Sum of the squares of residuals of several kinds; infinite on overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(sum(np.sum(np.square(r)) for r in residuals))
