"""Faults of controls: transforms, priors, regularizers, instruments and inputs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from zoo import equations
from zoo.cases import FREE_3, LOG

import pdefit
from gradient_faults.fits import field, flow, priors
from gradient_faults.plant import Planted, fault


class WrongLog(pdefit.transforms.Log):
    """ln x with a wrong derivative."""

    def to_physical(self, theta):
        x = jnp.exp(theta)
        return x + 0.01 * (lax.stop_gradient(x) - x)


class OneCellHeld(pdefit.transforms.Identity):
    """One of 32 cells does not move."""

    def to_physical(self, theta):
        return theta.at[7].set(lax.stop_gradient(theta[7])) if theta.ndim else theta


class WrongPrior(pdefit.priors.LogNormal):
    """A prior that pulls nothing."""

    def residual(self, x):
        return lax.stop_gradient(super().residual(x))


class WrongH1(pdefit.regularizers.H1):
    """Slopes with a wrong derivative at one end."""

    def residual(self, x):
        r = super().residual(x)
        return r.at[0].set(lax.stop_gradient(r[0]))


@fault("controls")
def log_off_by_a_hundredth():
    return Planted(flow(free={**FREE_3, "b": WrongLog()}), flow())


def _state(transform: Any) -> pdefit.Functional:
    return field(free={"a": LOG, "b": LOG, "y0": {"u": transform}}, regularizers=())


@fault("controls")
def one_cell_of_a_field_held():
    return Planted(_state(OneCellHeld()), _state(pdefit.transforms.Identity()))


@fault("controls")
def prior_stopped():
    return Planted(flow(free={**FREE_3, "a": pdefit.Control(LOG, prior=WrongPrior(2.0, 0.02))}), priors())


@fault("controls")
def regularizer_stopped_at_one_end():
    # a weight at which it matters beside the data
    return Planted(
        field(regularizers=(WrongH1("y0.u", 1e5),)), field(regularizers=(pdefit.regularizers.H1("y0.u", 1e5),))
    )


class Gain(pdefit.instruments.AbstractObservationOperator):
    """gain u."""

    gain: jax.Array
    held: bool = eqx.field(static=True, default=False)

    def __call__(self, t, y, args):
        return {"u": (lax.stop_gradient(self.gain) if self.held else self.gain) * y.u}


@fault("controls")
def gain_of_the_instrument_stopped():
    free = {**FREE_3, "observe": {"gain": LOG}}
    faulty, clean = (flow(free=free, observe=Gain(jnp.asarray(1.2), held)) for held in (True, False))
    return Planted(faulty, clean)


class HeldDrive(equations.Drive):
    """A forcing whose strength is not differentiated after a while."""

    def __call__(self, t):
        strength = jnp.where(t > 5.0, lax.stop_gradient(self.strength), self.strength)
        return strength * jnp.cos(self.rate * t)


@fault("controls")
def forcing_stopped_after_half_the_time():
    options = {
        "rate": equations.duffing,
        "at": (0.2, 0.5, 1.0),
        "u0": np.array([1.0, 0.0]),
        "free": {"a": LOG, "args": {"strength": LOG, "rate": pdefit.transforms.Identity()}},
    }
    faulty, clean = (flow(args=cls(0.4, 1.2), **options) for cls in (HeldDrive, equations.Drive))
    return Planted(faulty, clean)
