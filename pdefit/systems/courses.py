"""Courses of the inputs that a vector field reads, for a comparison with time steps."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, PyTree

from pdefit._util.trees import is_traced
from pdefit.systems.interpolant import Interpolant
from pdefit.systems.system import AbstractSystem
from pdefit.systems.time_series import READINGS, TimeSeries

# times at which an input is looked at that is not read at t or some time before, and those for a mean size
_SAMPLES, _EVEN = 4096, 1025


class Course(NamedTuple):
    """An input along a record, constant before its first and after its last knot.

    **Arguments:**

    - `name`: the path of the input.
    - `knots`: the times at which it may bend, (K,).
    - `curve`: a piecewise polynomial between them, with m components.
    - `may_move`: whether it is read at a shifted time, which may depend on an unknown.
    - `size`: the mean absolute deviation from its median over the record; 0 for an input that is constant to round-off.
    """

    name: str
    knots: Float[np.ndarray, " K"]
    curve: Any
    may_move: bool
    size: float = 0.0

    def at(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n m"]:
        """Values at given times, (n, m)."""
        return self.curve(np.clip(t, self.knots[0], self.knots[-1]))

    def integral(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n m"]:
        """Integrals from the first knot to given times, (n, m)."""
        inside = np.clip(t, self.knots[0], self.knots[-1])
        return self.curve.antiderivative()(inside) + (t - inside)[:, None] * self.curve(inside)


def courses(system: AbstractSystem, y0: PyTree, args: PyTree, t0: float, t1: float) -> list[Course]:
    """Time series and interpolants that a vector field reads between two times, found by one trace.

    Inputs in `args` and in the system that the trace does not find are assumed to be read at t.

    **Arguments:**

    - `system`, `y0`, `args`: the equations, a state and the exogenous inputs, with their present values.
    - `t0`, `t1`: the ends of the record, in the system's time unit.
    """
    ts, read, at_t = np.linspace(t0, t1, _SAMPLES), [], []

    def field(t: Array, y: PyTree) -> None:
        read.extend(_read(system, t, y, args))
        at_t.extend(at is t for _, at in read)

    try:
        jax.eval_shape(field, jax.ShapeDtypeStruct((), jax.tree.leaves(y0)[0].dtype), y0)
        times = [ts] * len(read) if all(at_t) else map(np.asarray, _times(system, y0, args, ts))
        found = [(x, t) for (x, _), t in zip(read, times, strict=True) if _is_input(x)]
    # a plugin fails with any exception, which a step reports better
    except Exception:
        found = []
    held = jax.tree_util.tree_flatten_with_path({"args": args, "system": system}, is_leaf=_is_input)[0]
    names = {id(x): jax.tree_util.keystr(path, simple=True, separator=".") for path, x in held if _is_input(x)}
    names = {key: name.replace("args._named.", "args.") for key, name in names.items()}
    met = {id(x) for x, _ in found}
    found += [(x, ts) for _, x in held if _is_input(x) and id(x) not in met]
    return [_course(names.get(id(x), "an input"), x, ts, t) for x, t in found]


def _is_input(x: Any) -> bool:
    """True for a time-dependent input with known values, which a compiled part of the vector field may hide."""
    is_one = isinstance(x, TimeSeries) or isinstance(x, Interpolant) and x.times is not None
    return is_one and not is_traced((x.times, x.values))


def _read(system: AbstractSystem, t: Array, y: PyTree, args: PyTree) -> list[tuple[Any, Any]]:
    """Inputs that a vector field reads at a time, each with the time at which it is read."""
    token = READINGS.set(readings := [])
    try:
        system.vector_field(t, y, args)
    finally:
        READINGS.reset(token)
    return readings


@eqx.filter_jit
def _times(system: AbstractSystem, y0: PyTree, args: PyTree, ts: Array | np.ndarray) -> list[Array]:
    """Times at which each input is read, for all times of steps."""
    return jax.vmap(lambda t: [jnp.asarray(at, jnp.float64) for _, at in _read(system, t, y0, args)])(ts)


def _course(name: str, read: TimeSeries | Interpolant, ts: np.ndarray, at: np.ndarray) -> Course:
    """Course of an input that is read at the times `at` by steps at the times `ts`."""
    delay, values = np.mean(ts - at), np.asarray(read.values, float)
    knots, values = np.asarray(read.times, float) + delay, values.reshape(len(values), -1)
    if read.method == "linear" or knots.size == 2:
        curve: Any = scipy.interpolate.make_interp_spline(knots, values, k=1)
    elif read.method == "cubic" and isinstance(read, TimeSeries):
        curve = scipy.interpolate.PchipInterpolator(knots, values)
    else:
        slopes = np.gradient(values, knots, axis=0, edge_order=2)
        curve = scipy.interpolate.CubicHermiteSpline(knots, values, slopes)
    course = Course(name, knots, curve, at is not ts)
    if np.ptp(ts - at) > 1e-9 * np.ptp(ts):
        course = course._replace(knots=ts, curve=scipy.interpolate.make_interp_spline(ts, course.at(at + delay), k=1))
    even = np.linspace(ts[0], ts[-1], _EVEN)
    t = np.unique(np.append(even, course.knots).clip(ts[0], ts[-1]))
    above = np.linalg.norm(course.at(t) - np.median(course.at(even), axis=0), axis=1)
    size = float(np.trapezoid(above, t)) / np.ptp(ts)
    return course._replace(size=size if size > 1e-12 * np.max(np.abs(values)) else 0.0)
