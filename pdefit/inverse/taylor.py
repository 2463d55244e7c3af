"""Taylor remainders: how differences of a map approach its derivative as the step shrinks."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit.arrays.transforms import Identity, Scale
from pdefit.inverse.controls import Controls, Resolved

# relative steps: from one at which switches inside a trajectory still shift, down by fours
_LARGEST, _SMALLEST, _RATIO = 1e-2, 1e-8, 4.0
# an error below this is no longer improved
_ENOUGH = 1e-7
# from here on the leading term of the remainder rules: where fronts move, at 0.01 the next one still takes up to 0.25 from
# the exponent
_ASYMPTOTIC = 1e-3
# an error so many times its round-off still has an exponent of its own
_NOISY = 30
# from an error that can be seen, that of a smooth map does not become small with a larger exponent than this
_VISIBLE, _SMALL, _SUDDEN = 1e-3, 1e-2, 5.0


@dataclasses.dataclass(frozen=True)
class Remainder:
    """Relative errors of central differences for shrinking steps. `rates` are their exponents between successive steps
    that round-off does not rule (2 for a smooth map); `round_off` is the error that round-off explains at the best step;
    `smooth` is False where an error falls slower than that, or in a jump; `silent` where round-off explains the error of
    every step: the map does not see this direction, as far as can be told."""

    steps: tuple[float, ...]
    errors: tuple[float, ...]
    rates: tuple[float, ...]
    round_off: float
    smooth: bool
    silent: bool

    @property
    def best(self) -> float:
        return min(self.errors)


def direction(controls: Controls, theta: Float[Array, " p"], key: PRNGKeyArray) -> Float[Array, " p"]:
    """A random direction that changes every control by about its own size."""
    parts = []
    for i, (control, part) in enumerate(zip(controls.items, controls.split(theta), strict=True)):
        v = jax.random.normal(jax.random.fold_in(key, i), part.shape)
        # a single number may be drawn near zero, and would then hardly move
        v = v / jnp.sqrt(jnp.mean(v**2))
        parts.append(v * _size(control, part, v))
    return jnp.concatenate(parts)


def _size(control: Resolved, part: Array, v: Array) -> float:
    """The factor that makes v change the physical value by as much as the value is large."""
    value, change = jax.jvp(control.to_physical, (part,), (v,))
    large, small = (float(jnp.sqrt(jnp.mean(x**2))) for x in (value, change))
    factor = large / small if large > 0 and small > 0 else 1.0
    # a saturated transform would ask for huge steps
    return factor if isinstance(control.transform, Identity | Scale) else min(factor, 1.0)


def round_off(f: Callable[[Array], Array], x: Array, v: Array) -> float:
    """The norm of the round-off noise of f near x: second differences over steps too small to see anything else.

    Source: J. More, S. Wild, SIAM J. Sci. Comput. 33:1292 (2011), doi:10.1137/100786125, of which this is the first order.
    """
    a, b, c = (f(x + k * 1e-13 * v) for k in (0, 1, 2))
    return float(jnp.linalg.norm(a - 2 * b + c)) / 6**0.5


def remainder(
    f: Callable[[Array], Array],
    x: Array,
    v: Array,
    error: Callable[[Array], float],
    noise: float,
    size: float,
) -> Remainder:
    """Shrink the step until differences of f along v agree with a derivative, or round-off ends it.

    `error` is the relative error of a difference quotient; `noise` the norm of the round-off of f; `size` the norm of the
    derivative (0 if unknown).
    """
    steps, errors, floors = [], [], []
    step = _LARGEST
    while step > _SMALLEST:
        quotient = (f(x + step * v) - f(x - step * v)) / (2 * step)
        scale = size or float(jnp.linalg.norm(quotient))
        steps.append(step)
        errors.append(error(quotient) if bool(jnp.all(jnp.isfinite(quotient))) else float("inf"))
        floors.append(noise / (step * scale) if scale > 0 else 0.0)
        if errors[-1] <= max(_ENOUGH, 3 * floors[-1]):
            break
        step /= _RATIO
    best = int(np.argmin(errors))
    rates = tuple(
        float(np.log(errors[k] / errors[k + 1]) / np.log(_RATIO))
        for k in range(best)
        if errors[k + 1] > max(10 * floors[k + 1], 1e-12) and np.isfinite(errors[k])
    )
    silent = all(e <= 10 * floor for e, floor in zip(errors, floors, strict=True))
    return Remainder(tuple(steps), tuple(errors), rates, floors[best], _smooth(errors, floors, best), silent)


def _smooth(errors: list[float], floors: list[float], best: int) -> bool:
    """Whether the errors fall as a smooth map's do: at least as the square of the step from where they are small, and
    never suddenly: a switch that no step shifts any more leaves a derivative that looks right."""
    for k in range(best):
        # the noise of one second difference is known to a factor of some three
        above = errors[k + 1] > max(_NOISY * floors[k + 1], 1e-12)
        rate = np.log(errors[k] / max(errors[k + 1], 1e-300)) / np.log(_RATIO)
        if errors[k] <= _ASYMPTOTIC and above and rate < 1.9:
            return False
        if np.isfinite(errors[k]) and errors[k] > _VISIBLE and errors[k + 1] < _SMALL and rate > _SUDDEN:
            return False
    return True
