"""Whether the frozen steps of a fit still suit its best point, and what to do where they do not."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit.errors import PdefitError
from pdefit.integrate.plan import TimePlan
from pdefit.inverse.run_state import pack

# frozen steps are kept while their error is between these parts of the tolerance; where observations keep the steps
# shorter than that, while it is at least _FALLEN of what it was when they were chosen
_LOW, _HIGH, _FALLEN = 0.1, 1.0, 0.4


class StepWatch:
    """Looks after the frozen steps of one fit; an objective with constant steps needs no care, and passes through.

    `error` is that of the steps in force at the best point, in units of the tolerance, and `chosen` what it was when they
    were chosen; None where it was not asked for.
    """

    def __init__(self):
        self.error: float | None = None
        self.chosen: float | None = None

    @property
    def due(self) -> bool:
        """Whether the steps no longer suit the best point."""
        if self.error is None or self.chosen is None:
            return False
        return not min(_LOW, _FALLEN * self.chosen) <= self.error <= _HIGH

    def start(self, functional: Any, theta: Float[Array, " p"]) -> Any:
        """The functional with steps chosen at theta."""
        if functional.steps is None:
            return functional
        functional = functional.renewed(theta)
        self.error = self.chosen = float(functional.step_error(theta))
        return functional

    def look(self, functional: Any, theta: Float[Array, " p"]) -> None:
        """Measure the error of the steps at a new best point."""
        if functional.steps is not None:
            self.error = float(functional.step_error(theta))

    def renew(self, functional: Any, theta: Float[Array, " p"]) -> tuple[Any, str]:
        """The functional with steps chosen at theta, and what happened; itself if these are the same or there are none."""
        before = self.error
        try:
            renewed = self.start(functional, theta)
        except PdefitError as error:
            self.error = None
            return functional, f"steps kept, error {before:.2g} of the tolerance: {error}"
        plan, old = renewed.layout.plan, functional.layout.plan
        if _same(plan, old):
            return functional, ""
        return renewed, f"steps renewed, error {before:.2g} of the tolerance, {old.steps} -> {plan.steps} steps"

    def suited(self, functional: Any, theta: Float[Array, " p"]) -> Any:
        """The functional with steps for a look at theta, which is not the best point."""
        try:
            return functional if functional.steps is None else functional.renewed(theta)
        except PdefitError:
            # frozen steps give some value even where the model blows up
            return functional

    # --- saving and going on -------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, float | None]:
        """What a saved state holds of the watch."""
        return {"error": self.error, "chosen": self.chosen}

    def arrays(self, functional: Any) -> dict[str, np.ndarray]:
        """What a saved state holds of frozen steps."""
        return {} if functional.steps is None else pack("plan", functional.layout.plan)

    def restored(self, functional: Any, numbers: dict[str, float | None], arrays: dict[str, np.ndarray]) -> Any:
        """The functional with the steps of a saved state."""
        self.error, self.chosen = numbers["error"], numbers["chosen"]
        if functional.steps is None:
            return functional
        step = np.asarray(arrays["plan.step"])
        start, count = np.asarray(arrays["plan.start"]), np.asarray(arrays["plan.count"])
        look_first = functional.layout.plan.look_first
        return functional.with_plan(TimePlan(start, step, count, step.shape[-1], look_first))


def _same(a: TimePlan, b: TimePlan) -> bool:
    return a.step.shape == b.step.shape and bool(jnp.array_equal(a.step, b.step))
