"""Faults of what a fit is compared with: equations with smooth switches, and single precision."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from small_systems import Relay
from zoo.cases import LOG
from zoo.equations import State, lotka_volterra

import pdefit
from gradient_faults.fits import flow
from gradient_faults.plant import FAULTS, Fault, Planted, as_class, fault
from gradient_faults.systems import stopped
from pdefit._util.trees import cast


class Two(Relay):
    """u' = k (1 + above) - d u: a relay with two parameters."""

    d: jax.Array = pdefit.parameter(default=0.3)
    twist: str = eqx.field(static=True, default="")

    def smoothed(self):
        k, d, width = self.k, self.d, 0.1
        if self.twist == "sign":
            d = 2 * lax.stop_gradient(d) - d
        if self.twist == "stopped":
            d = lax.stop_gradient(d)
        if self.twist == "swapped":
            k, d = k + d - lax.stop_gradient(d), d + k - lax.stop_gradient(k)
        if self.twist == "double":
            d = 2 * d - lax.stop_gradient(d)
        if self.twist == "everything":
            k, d = 2 * lax.stop_gradient(k) - k, 2 * lax.stop_gradient(d) - d
        if self.twist == "wide":
            width = 30.0
        return type(self)(k, width=width, d=d, twist="inside" if self.twist == "physics" else "")

    def vector_field(self, t, y, args):
        rate = super().vector_field(t, y, args)
        # one wrong sign in the smooth equations: growth in place of decay
        sign = 1.0 if self.twist == "inside" else -1.0
        return State(rate.u + sign * self.d * y.u)


def relay(twist: str = "") -> pdefit.Functional:
    system, ts = Two(1.0, d=0.3), np.linspace(0.0, 1.5, 16)
    y0 = State(system.init(None).u)
    data = pdefit.add_noise(pdefit.simulate(system, y0, ts, dt=0.02), 0.02, jax.random.key(2))
    problem = pdefit.Problem(Two(1.2, d=0.25, twist=twist), y0)
    return pdefit.Functional(problem, data, {"k": LOG, "d": LOG}, dt=0.02, smooth_tangents=True)


_EXPLAINED = {
    "double": "steps are half as long as they might be and the interval is half as wide, but the estimate is the same",
    "wide": "the tangent leads where the residuals go; how far the estimate is from their minimum is stated with it",
}
for _twist in ("sign", "stopped", "swapped", "everything", "physics", *_EXPLAINED):
    FAULTS[f"smooth_twin_{_twist}"] = Fault(
        "smooth twin",
        f"smooth_twin_{_twist}",
        lambda twist=_twist: Planted(relay(twist), relay()),
        "normal",
        explained=_EXPLAINED.get(_twist, ""),
    )


# --- single precision ----------------------------------------------------------------------------------------------------


def _stopped_in_single(t, u, p, args):
    return lotka_volterra(t, u, stopped(p, 0) if u.dtype == jnp.float32 else p, args)


@fault("float32")
def parameter_stopped_in_single_precision():
    return Planted(cast(flow(_stopped_in_single, clean=lotka_volterra), jnp.float32), cast(flow(), jnp.float32))


@fault("float32", explained="0.4 %: a float32 gradient may be a percent off its twin")
def digits_lost_in_single_precision():
    def rate(t, u, p, args):
        u = lax.reduce_precision(u, 8, 5) if u.dtype == jnp.float32 else u
        return lotka_volterra(t, u, p, args)

    return Planted(cast(flow(rate, clean=lotka_volterra), jnp.float32), cast(flow(), jnp.float32))


class SingleSign(pdefit.Functional):
    def watched_gradient(self, theta):
        value, gradient, growth = super().watched_gradient(theta)
        single = self.problem.y0.u.dtype == jnp.float32
        return value, gradient.at[0].multiply(-1.0) if single else gradient, growth


@fault("float32")
def watched_gradient_sign_in_single_precision():
    clean = cast(flow(), jnp.float32)
    return Planted(as_class(clean, SingleSign), clean)
