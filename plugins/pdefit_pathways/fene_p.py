"""A viscoelastic fluid in oscillating shear, and a closure of it with terms as laws."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.capabilities import AbstractVerifiable, Example
from pdefit.instruments import AbstractObservationOperator
from pdefit.terms import AbstractTerm, Formula


class AbstractShearedFluid(pdefit.AbstractSystem):
    """A fluid between plates whose shear rate is g(t) = amplitude cos(frequency t)."""

    amplitude: eqx.AbstractVar[Array]
    frequency: eqx.AbstractVar[Array]

    def shear_rate(self, t: Array) -> Array:
        """g(t)."""
        return self.amplitude * jnp.cos(self.frequency * t)

    @abc.abstractmethod
    def shear_stress(self, t: Array, y: Any) -> Array:
        """The stress on the plates.

        **Arguments:** `t`, `y`: the time, and the state.
        """


class ShearStress(AbstractObservationOperator):
    """The operator that observes the stress of a sheared fluid as `stress`.

    For `FeneP` and its closures. The fluid computes the stress from state and shear rate, unknown terms included. It
    does not observe the states.

    **Arguments:** `fluid`: the fluid; by default the problem's system.
    """

    fluid: AbstractShearedFluid | None = None

    def __call__(self, t, y, args):
        assert self.fluid is not None
        return {"stress": self.fluid.shear_stress(t, y)}

    def with_system(self, system):
        return eqx.tree_at(lambda o: o.fluid, self, system, is_leaf=lambda x: x is None)

    @property
    def takes_state(self):
        return True


class Conformation(NamedTuple):
    """The state of the fluid: stretch `theta11` along the flow and `theta12` across it, 0 at rest."""

    theta11: Float[Array, ""]
    theta12: Float[Array, ""]


class FeneP(AbstractShearedFluid, AbstractVerifiable):
    """A dilute solution of springs of finite length (FENE-P) in oscillating shear, without stretch across the flow.

        theta11' = -tau11 + 2 g theta12
        theta12' = -tau12 + (eta / f) g,    g = amplitude cos(frequency t)

        f     = a + b tau11,    a = L^2 / (L^2 - 3),    b = lambda / (eta L^2)
        tau11 = f theta11 / lambda = a theta11 / (lambda - b theta11)
        tau12 = f theta12 / lambda

    The stress on the plates is tau12. Nearly straight springs are stiff: f grows without bound as theta11 approaches
    lambda / b. The tensor form has a further term with theta22, which is neglected here.

    Good values: lambda = 2, L = 2, eta = 4, amplitude = 12, frequencies of 1 to 2.

    **Arguments:**

    - `relaxation`, `extension`, `viscosity`: lambda, L (above the square root of 3), and eta.
    - `amplitude`, `frequency`: of the shear rate; default 12 and 1.

    Source: C. Rackauckas et al., arXiv:2001.04385 (2020), after R. B. Bird et al., J. Non-Newtonian Fluid Mech. 7:213 (1980).
    """

    time_unit: ClassVar[str] = "1"

    relaxation: Array = pdefit.parameter(positive=True, doc="relaxation time")
    extension: Array = pdefit.parameter(positive=True, doc="greatest length of a spring")
    viscosity: Array = pdefit.parameter(positive=True, doc="viscosity at rest")
    amplitude: Array = pdefit.parameter(default=12.0, doc="greatest shear rate")
    frequency: Array = pdefit.parameter(positive=True, default=1.0, doc="angular frequency of the shear")

    def vector_field(self, t, y, args):
        tau11, f = self._spring(y)
        g = self.shear_rate(t)
        tau12 = f * y.theta12 / self.relaxation
        return Conformation(-tau11 + 2 * g * y.theta12, -tau12 + self.viscosity / f * g)

    def shear_stress(self, t, y):
        return self._spring(y)[1] * y.theta12 / self.relaxation

    def _spring(self, y: Conformation) -> tuple[Array, Array]:
        """The stress along the flow, and the stiffness f."""
        square = self.extension**2
        a, b = square / (square - 3.0), self.relaxation / (self.viscosity * square)
        tau11 = a * y.theta11 / (self.relaxation - b * y.theta11)
        return tau11, a + b * tau11

    def init(self, key):
        return Conformation(jnp.zeros(()), jnp.zeros(()))

    @classmethod
    def example(cls, resolution):
        numbers = {"relaxation": 2.0, "extension": 2.3, "viscosity": 3.0, "amplitude": 1.5, "frequency": 1.2}
        system = cls(**{n: jnp.asarray(x) for n, x in numbers.items()})
        start = Conformation(jnp.asarray(0.3), jnp.asarray(0.2))
        return Example(system, start, np.linspace(0.0, 3.0, 7), 0.05, space_order=None, time_order=4)


class Latent(NamedTuple):
    """The state of a closure: the memory of the fluid, as two unobserved numbers, 0 at rest."""

    phi1: Float[Array, ""]
    phi2: Float[Array, ""]


class FluidClosure(AbstractShearedFluid, AbstractVerifiable):
    """A closure with memory: a stress that depends on the shear rate and on latent states, which are driven by the shear rate.

        stress = U0(phi, g),    phi1' = U1(phi, g),    phi2' = U2(phi, g),    g = amplitude cos(frequency t)

    For a fluid with known shear rate and stress only. The `inputs` of each term name some of `phi1`, `phi2` and `g`. By
    default phi2 stays 0, which leaves one latent state. Units and signs of latent states are arbitrary, so a prior of
    the terms has to choose among equivalent closures.

    **Arguments:**

    - `stress`, `memory1`, `memory2`: U0, U1 and U2; U2 is 0 by default.
    - `amplitude`, `frequency`: of the shear rate; default 12 and 1.

    Source: C. Rackauckas et al., arXiv:2001.04385 (2020), section 2.5.
    """

    time_unit: ClassVar[str] = "1"

    stress: AbstractTerm = pdefit.parameter(doc="stress as a function of memory and shear rate")
    memory1: AbstractTerm = pdefit.parameter(doc="rate of the first latent state")
    memory2: AbstractTerm = pdefit.parameter(
        default_factory=lambda: Formula("0", ("phi2",)), doc="rate of the second latent state"
    )
    amplitude: Array = pdefit.parameter(default=12.0, doc="greatest shear rate")
    frequency: Array = pdefit.parameter(positive=True, default=1.0, doc="angular frequency of the shear")

    def vector_field(self, t, y, args):
        return Latent(self._value(self.memory1, t, y), self._value(self.memory2, t, y))

    def shear_stress(self, t, y):
        return self._value(self.stress, t, y)

    def _value(self, term: AbstractTerm, t: Array, y: Latent) -> Array:
        known = {**y._asdict(), "g": self.shear_rate(t)}
        return jnp.asarray(term(*(known[name] for name in term.inputs)), y.phi1.dtype)

    def init(self, key):
        return Latent(jnp.zeros(()), jnp.zeros(()))

    @classmethod
    def example(cls, resolution):
        """Two linear relaxation modes."""
        system = cls(
            stress=Formula("phi1 + phi2", ("phi1", "phi2")),
            memory1=Formula("g - phi1", ("phi1", "g")),
            memory2=Formula("0.5 * g - 2 * phi2 + phi1", ("phi1", "phi2", "g")),
            amplitude=jnp.asarray(1.5),
            frequency=jnp.asarray(1.2),
        )
        start = Latent(jnp.asarray(0.3), jnp.asarray(0.2))
        return Example(system, start, np.linspace(0.0, 3.0, 7), 0.05, space_order=None, time_order=4)
