"""The tolerance of adaptive steps."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.systems.system import AbstractSystem


def _floats(x: Any) -> Any:
    # plain floats, because numbers of NumPy would be arrays to JAX, and traced
    return {str(k): float(v) for k, v in x.items()} if isinstance(x, Mapping) else float(x)


class Adaptive(eqx.Module):
    """Tolerance of adaptive steps: the solver's error estimate of each step is at most one in a weighted norm.

    For stiff kinetics and close encounters. Not for fields with one time scale, for which constant steps cost less.

        sqrt(1/n sum (e / (atol + rtol max(|y|, |y'|)))^2) <= 1

    The sum is over all n values of the state, with y before and y' after the step.

    Steps end at every observation time. A trajectory is differentiated with frozen steps: they are chosen at one value
    of the parameters and reused nearby. They are chosen at half the tolerance, so that they can be reused for longer.

    **Arguments:**

    - `rtol`: the relative tolerance; default 1e-6.
    - `atol`: the absolute tolerance in the unit of the state; default 1e-9. A mapping from fields to numbers if their
      sizes differ by decades.
    - `dtmax`: the largest step, in the system's time unit; default unlimited.

    Source: E. Hairer, S. Norsett, G. Wanner, Solving Ordinary Differential Equations I, II.4 (1993),
    doi:10.1007/978-3-540-78862-1.
    """

    rtol: float = eqx.field(converter=float, default=1e-6)
    atol: float | dict[str, float] = eqx.field(converter=_floats, default=1e-9)
    dtmax: float | None = eqx.field(converter=lambda x: None if x is None else float(x), default=None)

    def __check_init__(self):
        given = self.atol.values() if isinstance(self.atol, dict) else [self.atol]
        if not (self.rtol >= 0 and all(a > 0 for a in given)):
            raise PdefitError(f"Adaptive expects rtol >= 0 and atol > 0, but got {self.rtol} and {self.atol}")
        if self.dtmax is not None and not self.dtmax > 0:
            raise PdefitError(f"Adaptive expects a positive dtmax, but got {self.dtmax}")

    def error(self, error: PyTree, before: PyTree, after: PyTree) -> Float[Array, ""]:
        """The norm of the error of a step, which is 1 at the tolerance.

        **Arguments:**

        - `error`: the error of a step, as a state.
        - `before`, `after`: the states at its ends.
        """

        def squares(name: str, e: Array, a: Array, b: Array) -> Array:
            scale = self._atol(name) + self.rtol * jnp.maximum(jnp.abs(a), jnp.abs(b))
            return jnp.sum((e / scale).astype(jnp.float64) ** 2)

        fields = zip(named_fields(error).items(), jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
        total = sum((squares(name, e, a, b) for (name, e), a, b in fields), start=jnp.zeros(()))
        return jnp.sqrt(total / sum(x.size for x in jax.tree.leaves(error)))

    def refuse_dt(self, dt: float | None) -> None:
        """Refuse a constant step `dt` together with adaptive steps."""
        if dt is not None:
            raise PdefitError(f"dt = {dt:g} and adaptive steps exclude each other; set dt=null, or bound steps.dtmax")

    def check(self, system: AbstractSystem, y0: PyTree) -> None:
        """Refuse an `atol` with fields that the state `y0` does not have."""
        fields = list(named_fields(y0))
        if isinstance(self.atol, dict):
            for name in self.atol:
                if name not in fields:
                    raise unknown("field (atol)", name, fields)
            if missing := [n for n in fields if n not in self.atol]:
                raise PdefitError(
                    f"atol of {type(system).__name__} names {', '.join(self.atol)} only; add {', '.join(missing)}, or "
                    f"give one number for all fields"
                )

    def _atol(self, name: str) -> float:
        return self.atol[name] if isinstance(self.atol, dict) else self.atol
