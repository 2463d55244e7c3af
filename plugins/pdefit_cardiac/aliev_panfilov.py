"""The Aliev-Panfilov model: two fields with the shape and the restitution of a cardiac action potential."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit_cardiac.parameter_sets import ALIEV_PANFILOV
from pdefit_cardiac.tissue import AbstractTissue, driven, placed, resting_blocks, spread, tissue_mask
from pdefit_cardiac.turning_wave import ahead_of_front, behind_front


class State(NamedTuple):
    """The state of the model, two fields of the grid's shape.

    **Arguments:**

    - `u`: scaled voltage, 0 at rest and 1 at its peak, V = 100 u - 80 mV.
    - `v`: recovery, dimensionless.
    """

    u: Float[Array, "*grid"] = pdefit.field(doc="voltage")
    v: Float[Array, "*grid"] = pdefit.field(doc="recovery")


class AlievPanfilov(
    pdefit.AbstractFieldSystem,
    pdefit.capabilities.AbstractVerifiable,
    pdefit.capabilities.AbstractStable,
    AbstractTissue,
):
    """Heart tissue in two fields, an excitable voltage and a recovery.

    Recovery is slow at small u and fast at large v.

        u_t = D lap u + (-k u (u - a) (u - 1) - u v) / T
        v_t = (eps0 + mu1 v / (u + mu2)) (-v - k u (u - a - 1)) / T

    with T = `time_scale`: the published time unit is 12.9 ms. A front into resting tissue (v = 0) runs at sqrt(k D / (2
    T)) (1 - 2 a) and is sqrt(8 D T / k) wide. Good values: `ALIEV_PANFILOV` (12 cm/s, 0.11 cm) with cells of a quarter
    of that width.

    **Observed in u alone**, only k / T, eps0 / T, a, mu1, mu2 and D are determined, because v / T takes the place of v.
    Then keep `time_scale` fixed.

    **Arguments:**

    - `D`: the diffusivity, in cm^2/ms. This and the other parameters are numbers, fields of the grid's shape, or
      `Patches` or `Ellipses`.
    - `a`: the threshold of excitation.
    - `k`: the strength of excitation.
    - `eps0`, `mu1`, `mu2`: the rate of recovery at rest, its growth with v, and its fall with u.
    - `time_scale`: T, in ms; default 12.9.
    - `tissue`: 1 where there is tissue and 0 in conduction blocks; by default there are no blocks.
    - `grid`: the cells, with lengths in cm.

    `args` is None or a `Stimulus`, a current that u_t gains (1/ms).

    Source: R. R. Aliev, A. V. Panfilov, Chaos, Solitons & Fractals 7:293 (1996), doi:10.1016/0960-0779(95)00089-5.
    """

    time_unit: ClassVar[str] = "ms"

    D: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="diffusivity")
    a: Array = pdefit.parameter(positive=True, doc="threshold of excitation")
    k: Array = pdefit.parameter(positive=True, doc="strength of excitation")
    eps0: Array = pdefit.parameter(positive=True, doc="rate of recovery at rest")
    mu1: Array = pdefit.parameter(positive=True, doc="rate of recovery, how much it grows with v")
    mu2: Array = pdefit.parameter(positive=True, doc="rate of recovery, how much it falls with u")
    time_scale: Array = pdefit.parameter(default=12.9, unit="ms", positive=True, doc="time unit of the kinetics")
    tissue: Array | None = tissue_mask()

    def __post_init__(self):
        for name, field in placed(self).items():
            setattr(self, name, field)

    def vector_field(self, t, y, args):
        p = pdefit.broadcast_scalars(self, y.u)
        u, v = y
        excitation = -p.k * u * (u - p.a) * (u - 1) - u * v
        recovery = (p.eps0 + p.mu1 * v / (u + p.mu2)) * (-v - p.k * u * (u - p.a - 1))
        rates = State(u=spread(self, self.D, u) + excitation / p.time_scale, v=recovery / p.time_scale)
        return driven(self, t, rates, args)

    def init(self, key):
        """A wave that rotates about the middle of the first two axes.

        On a cable, a wave that starts at the first end.
        """
        if self.grid.ndim == 1:
            u = np.where(ahead_of_front(self.grid), 0.0, 1.0)
            v = np.zeros(u.shape)
        else:
            # excited while v rises, then at rest while it falls
            behind = behind_front(self.grid)
            excited = behind < 0.3
            u, v = np.where(excited, 1.0, 0.0), np.where(excited, behind / 0.3, (1 - behind) / 0.7) * 1.5
        return resting_blocks(self, State(*(jnp.asarray(x, self.a.dtype) for x in (u, v))))

    def rest(self):
        """The resting state u = v = 0."""
        return State(*(jnp.zeros(self.grid.shape, self.a.dtype) for _ in range(2)))

    def stable_step(self, y):
        # the rates at which u falls back to its plateau, and v to its target, whose largest value bounds v
        v = jnp.maximum(self.k * (1 + self.a) ** 2 / 4, jnp.max(y.v))
        peak = jnp.maximum(1.0, jnp.max(y.u))
        excitation = self.k * (3 * peak**2 - 2 * (1 + self.a) * peak + self.a) + v
        recovery = self.eps0 + 2 * self.mu1 * v / (jnp.minimum(0.0, jnp.min(y.u)) + self.mu2)
        diffusion = 4 * jnp.max(self.D) * sum(1 / h**2 for h in self.grid.spacing)
        return float(2 / (diffusion + jnp.max(jnp.maximum(excitation, recovery) / self.time_scale)))

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid(shape=(4 * resolution,), extent=(4.0,), length_unit="cm")
        system = cls(grid=grid, **ALIEV_PANFILOV)
        # a front, and every phase of recovery: each parameter matters somewhere
        x = grid.axis(0)
        y0 = State(*map(jnp.asarray, (1 / (1 + np.exp((x - 2.0) / 0.12)), 0.8 + 0.7 * np.cos(5 * x))))
        return pdefit.capabilities.Example(system, y0, np.linspace(0.0, 10.0, 5), 0.5, space_order=2, time_order=4)
