"""The minimal ventricular model of Bueno-Orovio, Cherry and Fenton: four fields, action potentials, spiral waves."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

import pdefit
from pdefit_cardiac.parameter_sets import EPI
from pdefit_cardiac.tissue import AbstractTissue, driven, placed, resting_blocks, spread, tissue_mask
from pdefit_cardiac.turning_wave import ahead_of_front, behind_front

# the least sharpness of a smooth switch, and the least product of sharpness and threshold
_SHARPNESS, _CLOSED = 50.0, 3.0
# how far a smooth switch may be on at rest; half a fitted threshold at the sharpness of the whole one leaks 0.047
_LEAK = 0.05


class State(NamedTuple):
    """The state of the model, four fields of the grid's shape.

    **Arguments:**

    - `u`: scaled voltage, 0 at rest, V = 85.7 u - 84 mV.
    - `v`, `w`, `s`: gates from 0 to 1.
    """

    u: Float[Array, "*grid"] = pdefit.field(doc="voltage")
    v: Float[Array, "*grid"] = pdefit.field(doc="fast gate")
    w: Float[Array, "*grid"] = pdefit.field(doc="slow gate")
    s: Float[Array, "*grid"] = pdefit.field(doc="slow inward gate")


class Sharpness(NamedTuple):
    """The inverse width of each smooth switch, named after its threshold."""

    theta_v: Array
    theta_w: Array
    theta_v_minus: Array
    theta_o: Array


def _as_sharpness(k: Any) -> Sharpness:
    return Sharpness(*(jnp.asarray(x, x.dtype if isinstance(x, Array) else float) for x in k))


class BOCF(
    pdefit.AbstractFieldSystem,
    pdefit.capabilities.AbstractVerifiable,
    pdefit.capabilities.AbstractStable,
    pdefit.capabilities.AbstractSwitched,
    AbstractTissue,
):
    """Human heart tissue: an action potential from three currents and three gates, with diffusion.

        u_t = D lap u - (J_fi + J_so + J_si)
        v_t = (1 - H_v) (v_inf - v) / tau_v_minus - H_v v / tau_v_plus
        w_t = (1 - H_w) (w_inf - w) / tau_w_minus - H_w w / tau_w_plus
        s_t = (T(k_s (u - u_s)) - s) / tau_s

        J_fi = -v H_v (u - theta_v) (u_u - u) / tau_fi                  fast inward (sodium)
        J_so = (u - u_o) (1 - H_w) / tau_o + H_w / tau_so               slow outward (potassium)
        J_si = -H_w w s / tau_si                                        slow inward (calcium)

    where H_v, H_w, H_v_minus and H_o step from 0 to 1 as u passes theta_v, theta_w, theta_v_minus and theta_o, T(x) =
    (1 + tanh x) / 2, v_inf = 1 - H_v_minus, and the others change from one value to another:

        tau_v_minus  tau_v1_minus -> tau_v2_minus  by H_v_minus
        tau_w_minus  tau_w1_minus -> tau_w2_minus  by T(k_w_minus (u - u_w_minus))
        tau_so       tau_so1      -> tau_so2       by T(k_so (u - u_so))
        tau_s        tau_s1       -> tau_s2        by H_w
        tau_o        tau_o1       -> tau_o2        by H_o
        w_inf        1 - u / tau_w_inf -> w_inf_star  by H_o

    **Switches.** With `is_smooth` H_i = T(k_i (u - theta_i)), otherwise a jump. Automatic differentiation ignores
    jumps: gradients of the hard equations are wrong by half on moving waves. k_i = max(50, 3 / theta_i) at the initial
    thresholds, a constant even if a threshold is fitted. Narrower switches make gradients stiff, and wider ones leak at
    rest, since u = 0 lies only theta_i below. Resting state, action potential and speed are within 1 % of the hard
    equations. One width for all, k_i = 50, lets v rest at 0.65 instead of 1 and slows waves by a fifth. Switches that
    are on by more than 5 % at rest are refused.

    Good values: `EPI` with cells of 0.025 cm, and steps of Euler or RK4 of 0.05 ms at most: gradients explode for
    longer steps, even if the forward run is stable. `EPI` and `TUTORIAL` are published sets.

    **Arguments:**

    - `D` to `w_inf_star`: the parameters of the equations, times in ms and D in cm^2/ms: numbers, fields of the grid's
      shape, `Patches` or `Ellipses`. `pdefit.parameters(BOCF)` has the unit and the meaning of each.
    - `is_smooth`: whether switches are smooth; default True.
    - `sharpness`: k_i of each smooth switch; by default as above.
    - `tissue`: 1 where there is tissue and 0 in conduction blocks; by default there are no blocks.
    - `grid`: the cells, with lengths in cm.

    `args` is None or a `Stimulus`, a current that u_t gains (1/ms).

    Source: A. Bueno-Orovio, E. M. Cherry, F. H. Fenton, J. Theor. Biol. 253:544 (2008), doi:10.1016/j.jtbi.2008.03.029.
    """

    time_unit: ClassVar[str] = "ms"

    D: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity")
    u_o: Array = pdefit.parameter(doc="voltage at rest")
    u_u: Array = pdefit.parameter(positive=True, doc="upper voltage, where the fast inward current vanishes")
    theta_v: Array = pdefit.parameter(doc="threshold of the fast inward current and its gate v")
    theta_w: Array = pdefit.parameter(doc="threshold of the slow inward current and its gate w")
    theta_v_minus: Array = pdefit.parameter(doc="threshold of v's recovery")
    theta_o: Array = pdefit.parameter(doc="threshold of the outward current at rest")
    tau_v1_minus: Array = pdefit.parameter(unit="ms", positive=True, doc="v recovers, u below theta_v_minus")
    tau_v2_minus: Array = pdefit.parameter(unit="ms", positive=True, doc="v recovers, u above theta_v_minus")
    tau_v_plus: Array = pdefit.parameter(unit="ms", positive=True, doc="v closes, u above theta_v")
    tau_w1_minus: Array = pdefit.parameter(unit="ms", positive=True, doc="w recovers, u well below u_w_minus")
    tau_w2_minus: Array = pdefit.parameter(unit="ms", positive=True, doc="w recovers, u well above u_w_minus")
    k_w_minus: Array = pdefit.parameter(positive=True, doc="sharpness of the change of w's recovery")
    u_w_minus: Array = pdefit.parameter(doc="voltage at the change of w's recovery")
    tau_w_plus: Array = pdefit.parameter(unit="ms", positive=True, doc="w closes, u above theta_w")
    tau_fi: Array = pdefit.parameter(unit="ms", positive=True, doc="fast inward current")
    tau_o1: Array = pdefit.parameter(unit="ms", positive=True, doc="outward current at rest, u below theta_o")
    tau_o2: Array = pdefit.parameter(unit="ms", positive=True, doc="outward current at rest, u above theta_o")
    tau_so1: Array = pdefit.parameter(unit="ms", positive=True, doc="slow outward current, u well below u_so")
    tau_so2: Array = pdefit.parameter(unit="ms", positive=True, doc="slow outward current, u well above u_so")
    k_so: Array = pdefit.parameter(positive=True, doc="sharpness of the change of the slow outward current")
    u_so: Array = pdefit.parameter(doc="voltage at the change of the slow outward current")
    tau_s1: Array = pdefit.parameter(unit="ms", positive=True, doc="s follows, u below theta_w")
    tau_s2: Array = pdefit.parameter(unit="ms", positive=True, doc="s follows, u above theta_w")
    k_s: Array = pdefit.parameter(positive=True, doc="sharpness of the target of s")
    u_s: Array = pdefit.parameter(doc="voltage at the middle of the target of s")
    tau_si: Array = pdefit.parameter(unit="ms", positive=True, doc="slow inward current")
    tau_w_inf: Array = pdefit.parameter(positive=True, doc="voltage at which w's target at rest would be 0")
    w_inf_star: Array = pdefit.parameter(positive=True, doc="w's target, u above theta_o")
    is_smooth: bool = eqx.field(default=True, static=True)
    sharpness: Sharpness = pdefit.constant(default=None, converter=_as_sharpness)
    tissue: Array | None = tissue_mask()

    def __post_init__(self):
        for name, field in placed(self).items():
            setattr(self, name, field)
        if self.sharpness is None:
            nominal = (self.theta_v, self.theta_w, self.theta_v_minus, self.theta_o)
            self.sharpness = Sharpness(*(jnp.maximum(_SHARPNESS, _CLOSED / jnp.asarray(x)) for x in nominal))

    def __check_init__(self):
        if not self.is_smooth:
            return
        for name, k in self.sharpness._asdict().items():
            threshold = getattr(self, name)
            # within a transformation of JAX numbers are not known
            if not all(eqx.is_array(x) and not isinstance(x, Tracer) for x in (threshold, k)):
                continue
            leak = float(jnp.max(_smooth_step(-k * threshold)))
            if leak > _LEAK:
                raise ValueError(
                    f"sharpness of {float(jnp.min(k)):.3g} leaks: at rest, u = 0, the smooth switch at {name} = "
                    f"{float(jnp.min(threshold)):.3g} is {leak:.0%} on, where the hard one is off; give at least "
                    f"{_CLOSED / float(jnp.min(threshold)):.3g}, or leave sharpness out: max({_SHARPNESS:.0f}, "
                    f"{_CLOSED:.0f}/threshold)"
                )

    def smoothed(self):
        return dataclasses.replace(self, is_smooth=True)

    def vector_field(self, t, y, args):
        # as rows, because the gradient of ten parameters then takes two thirds of the time
        p, k = pdefit.broadcast_scalars(self, y.u), self.sharpness
        u, v, w, s = y
        above_v, above_w = self._above(u - p.theta_v, k.theta_v), self._above(u - p.theta_w, k.theta_w)
        above_v_minus = self._above(u - p.theta_v_minus, k.theta_v_minus)
        above_o = self._above(u - p.theta_o, k.theta_o)

        tau_v_minus = _change(p.tau_v1_minus, p.tau_v2_minus, above_v_minus)
        tau_w_minus = _change(p.tau_w1_minus, p.tau_w2_minus, _smooth_step(p.k_w_minus * (u - p.u_w_minus)))
        tau_so = _change(p.tau_so1, p.tau_so2, _smooth_step(p.k_so * (u - p.u_so)))
        tau_s = _change(p.tau_s1, p.tau_s2, above_w)
        tau_o = _change(p.tau_o1, p.tau_o2, above_o)
        v_inf = 1 - above_v_minus
        w_inf = _change(1 - u / p.tau_w_inf, p.w_inf_star, above_o)

        J_fi = -v * above_v * (u - p.theta_v) * (p.u_u - u) / p.tau_fi
        J_so = (u - p.u_o) * (1 - above_w) / tau_o + above_w / tau_so
        J_si = -above_w * w * s / p.tau_si
        rates = State(
            u=spread(self, self.D, u) - (J_fi + J_so + J_si),
            v=(1 - above_v) * (v_inf - v) / tau_v_minus - above_v * v / p.tau_v_plus,
            w=(1 - above_w) * (w_inf - w) / tau_w_minus - above_w * w / p.tau_w_plus,
            s=(_smooth_step(p.k_s * (u - p.u_s)) - s) / tau_s,
        )
        return driven(self, t, rates, args)

    def _above(self, x: Array, sharpness: Array) -> Array:
        """A switch: 0 below a threshold, 1 above it."""
        return _smooth_step(sharpness * x) if self.is_smooth else (x >= 0).astype(x.dtype)

    def init(self, key):
        """A wave that rotates about the middle of the first two axes.

        On a cable, a wave that starts at the first end.
        """
        if self.grid.ndim == 1:
            ahead = ahead_of_front(self.grid)
            u, v, w, s = np.where(ahead, 0.0, 1.2), np.ones(ahead.shape), np.ones(ahead.shape), np.zeros(ahead.shape)
        else:
            # excited, then at rest while the gates open again
            behind = behind_front(self.grid)
            excited = behind < 0.3
            u, s = np.where(excited, 1.2, 0.0), np.where(excited, 0.6, 0.0)
            v = np.where(behind < 0.5, 0.0, 2 * behind - 1)
            w = np.where(excited, 0.9 - 0.8 * behind / 0.3, (behind - 0.3) / 0.7)
        return resting_blocks(self, State(*(jnp.asarray(x, self.u_o.dtype) for x in (u, v, w, s))))

    def rest(self):
        """The resting state u = s = 0 with gates v and w open. s then follows to 0.02."""
        return State(*(jnp.full(self.grid.shape, x, self.u_o.dtype) for x in (0.0, 1.0, 1.0, 0.0)))

    def stable_step(self, y):
        # v may open anywhere, and u rise to u_u where it is not higher already
        peak = jnp.maximum(self.u_u, jnp.max(y.u))
        fast = (2 * peak - self.u_u - self.theta_v) / self.tau_fi
        # the slope of 1 / tau_so is k_so / (2 tau_so2) at most where tau_so1 is much longer than tau_so2
        outward = self.k_so / (2 * jnp.minimum(self.tau_so1, self.tau_so2))
        rest = 1 / jnp.minimum(self.tau_o1, self.tau_o2)
        spread = 4 * jnp.max(self.D) * sum(1 / h**2 for h in self.grid.spacing)
        voltage = spread + jnp.max(fast + outward + rest)
        gates = [self.tau_v1_minus, self.tau_v2_minus, self.tau_v_plus, self.tau_w1_minus, self.tau_w2_minus]
        gates += [self.tau_w_plus, self.tau_s1, self.tau_s2]
        return float(2 / jnp.maximum(voltage, max(jnp.max(1 / tau) for tau in gates)))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(4 * resolution,), extent=(2.0,), length_unit="cm")
        system = cls(grid=grid, **EPI)
        # every phase of the action potential at once: each parameter matters somewhere
        x = grid.axis(0)
        u = 1.4 / (1 + np.exp((x - 1.0) / 0.06))
        y0 = State(
            *map(jnp.asarray, (u, 0.5 + 0.4 * np.cos(7 * x), 0.5 + 0.4 * np.cos(11 * x), 0.5 + 0.4 * np.sin(5 * x)))
        )
        return pdefit.capabilities.Example(system, y0, np.linspace(0.0, 2.0, 5), 0.01, space_order=2, time_order=4)


def _smooth_step(x: Array) -> Array:
    """A smooth step from 0 to 1 around x = 0."""
    return 0.5 + 0.5 * jnp.tanh(x)


def _change(below: Array, above: Array, h: Array) -> Array:
    """A value that changes from `below` at h = 0 to `above` at h = 1."""
    return below + (above - below) * h
