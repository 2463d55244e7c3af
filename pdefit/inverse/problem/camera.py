"""A camera: gain, blur, exposure, slow drift and saturation of an image."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields, with_parts
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_loop import precision
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.inverse.problem.instrument import AbstractObservationOperator, as_names
from pdefit.inverse.problem.on_grid import grid_of
from pdefit.systems.boundary import NoFlux, Periodic
from pdefit.systems.capabilities import AbstractConstrained, AbstractStable
from pdefit.systems.diffusion_solve import from_modes, squared_wave_numbers, to_modes
from pdefit.systems.grid import AbstractGrid, CartesianGrid
from pdefit.systems.linear_operators import AbstractSplit
from pdefit.systems.system import AbstractSystem, parameter
from pdefit.systems.time_series import increasing, interpolated


def _knots(given: Any) -> tuple[float, ...]:
    return () if given is None or len(given) == 0 else tuple(increasing(given, "knots", "A camera").tolist())


class Camera(AbstractObservationOperator):
    """Observation operator of a camera, which makes images of fields on a grid.

    For films whose gain, sharpness or exposure matters, known or unknown. Not for pixels wider than a cell: apply
    `Average` and `Subsample` after it.

        image(t) = gain exp(bleaching(t)) P[mean of the field over t ... t + exposure] + offset + baseline(t)

    P is a Gaussian blur. It is exact for every wave that the grid resolves, and preserves the mean. Beyond walls the
    field is continued by its mirror image. Without `blur` no transform is applied.

    `gain`, `offset`, `blur`, `baseline` and `bleaching` may be controls, such as `observe.gain`. A blur of zero has no
    slope, so a fit starts from a positive one. The mean over an exposure is Simpson's rule along steps of `RK4`, with the
    parameters of the fit.

    A guess from data inverts gain, offset and drift exactly, and ignores blur and exposure. The start of a window does
    so, too, but is refused with a blur or an exposure, which hide the state.

    **Arguments:**

    - `gain`: the image value for one unit of the field; default 1.
    - `offset`: the image value of a zero field, in the unit of the image; default 0.
    - `blur`: the standard deviation of the Gaussian, in the grid's length unit; default None, no blur.
    - `baseline`: the offset at each of the knots, (K,), in the unit of the image, linear between them;
      default None.
    - `bleaching`: the logarithm of a factor of the gain at each of the knots, (K,), likewise; default None.
    - `knots`: the K times of both, increasing, in the system's time unit. Beyond them the ends are kept.
    - `fields`: the names of the fields, or one name; by default all.
    - `exposure`: the exposure time from the time of a frame on, in the system's time unit; default 0.
    - `substeps`: the number of steps of an exposure, even. By default at least 4, and as many as are stable at the
      system's given parameters.
    - `saturation`: the value from which on data count as missing, in the unit of the image; default None.
    - `grid`: the grid of the fields; by default the grid of the problem's system.
    - `system`: the equations for an exposure; a problem sets its own.
    """

    gain: Array = parameter(positive=True, doc="gain of the camera", default=1.0)
    offset: Array = parameter(doc="offset of the camera", default=0.0)
    blur: Array | None = parameter(unit="length", positive=True, doc="width of the blur", default=None)
    baseline: Array | None = parameter(doc="baseline at the knots", default=None)
    bleaching: Array | None = parameter(doc="logarithm of the gain at the knots", default=None)
    knots: tuple[float, ...] = eqx.field(default=(), static=True, converter=_knots)
    fields: tuple[str, ...] | None = eqx.field(default=None, static=True, converter=as_names)
    exposure: float = eqx.field(default=0.0, static=True)
    substeps: int | None = eqx.field(default=None, static=True)
    saturation: float | None = eqx.field(default=None, static=True)
    grid: AbstractGrid | None = None
    system: AbstractSystem | None = None

    def __check_init__(self):
        for name in ("baseline", "bleaching"):
            values = getattr(self, name)
            if values is not None and values.shape != (len(self.knots),):
                raise PdefitError(f"{name} expects a value for each of {len(self.knots)} knots, but has {values.shape}")
        if self.exposure < 0 or (self.substeps is not None and (self.substeps < 2 or self.substeps % 2)):
            raise PdefitError(
                f"A camera expects exposure >= 0 and an even number of substeps, but got {self.exposure}, {self.substeps}"
            )

    def __call__(self, t, y, args):
        fields = named_fields(self._exposed(t, y, args) if self.exposure else y)
        for name in self.fields or ():
            if name not in fields:
                raise unknown("field of the state", name, fields)
        gain, added = self._gain_and_added(t)
        return {name: gain * self._blurred(name, fields[name]) + added for name in self.fields or fields}

    def on(self, system):
        grid = grid_of(system, self) if self.blur is not None and self.grid is None else self.grid
        count = self.substeps
        if self.exposure:
            stiff = isinstance(system, AbstractSplit) and not isinstance(system, AbstractStable)
            if stiff or isinstance(system, AbstractConstrained):
                raise PdefitError(
                    f"An exposure takes explicit steps, which {type(system).__name__} does not allow (it is stiff, or its "
                    f"states obey a constraint); set exposure=0"
                )
            if count is None:
                stable = isinstance(system, AbstractStable)
                # that of Euler's method, which is shorter than that of RK4
                step = system.stable_step(system.init(jax.random.key(0))) if stable else math.inf
                count = 2 * max(2, math.ceil(self.exposure / step / 2))
        return dataclasses.replace(self, grid=grid, substeps=count)

    def with_system(self, system):
        if not self.exposure:
            return self
        return with_parts(self, lambda camera: camera.system, system)

    @property
    def takes_state(self):
        return self.exposure > 0

    @property
    def shows_states(self):
        return self.blur is None and not self.exposure

    def moved(self, coords):
        return {name: coords[name] for name in self.fields or coords if name in coords}

    def located(self, observations):
        if self.saturation is None:
            return observations
        values, mask = dict(observations.values), dict(observations.mask)
        for name in observations.values.keys() & (self.fields or observations.values):
            mask[name] = mask[name] & (values[name] < self.saturation)
            values[name] = jnp.where(mask[name], values[name], 0)
        return dataclasses.replace(observations, values=values, mask=mask)

    def inverted(self, observations):
        gain, added = jax.vmap(self._gain_and_added)(jnp.asarray(observations.ts))
        values = dict(observations.values)
        for name in observations.values.keys() & (self.fields or observations.values):
            x, one = values[name], (-1, *(1,) * (values[name].ndim - 1))
            field = (x - added.reshape(one)) / gain.reshape(one)
            values[name] = jnp.where(observations.mask[name], field, 0).astype(x.dtype)
        return dataclasses.replace(observations, values=values)

    def _gain_and_added(self, t: Array) -> tuple[Array, Array]:
        """Factor and offset of the field at one time."""
        gain, added = self.gain, self.offset
        if self.bleaching is not None:
            gain = gain * jnp.exp(interpolated(np.asarray(self.knots), self.bleaching, t, "linear"))
        if self.baseline is not None:
            added = added + interpolated(np.asarray(self.knots), self.baseline, t, "linear")
        return gain, added

    def _blurred(self, name: str, u: Array) -> Array:
        if self.blur is None:
            return u
        if self.grid is None:
            raise PdefitError("Camera has no grid; give it one, or make it the instrument of a problem")
        if u.shape != self.grid.shape:
            raise PdefitError(
                f"blur expects '{name}' at all points of the grid {self.grid.shape}, but got shape {u.shape}; put camera "
                f"before subsample, or name its fields"
            )
        ends = tuple(Periodic() if wraps else NoFlux() for wraps in self.grid.periodic)
        box = CartesianGrid(self.grid.shape, self.grid.extent, boundary=ends)
        squares = jnp.asarray(squared_wave_numbers(box), u.dtype)
        return from_modes(box, to_modes(box, u) * jnp.exp(-(self.blur**2) * squares / 2))

    def _exposed(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """The mean of a state over the exposure that begins at time t."""
        if self.system is None or self.substeps is None:
            raise PdefitError("An exposure takes steps of a system; make the camera the instrument of a problem")
        stepper, n = Stepper(self.system, RK4(), args), self.substeps
        h = jnp.asarray(self.exposure / n, precision(y))
        t = jnp.asarray(t, h.dtype)
        # Simpson's rule: 1 4 2 4 ... 2 4 1
        weights = np.where(np.arange(n + 1) % 2, 4.0, 2.0) / (3 * n)
        weights[[0, -1]] /= 2

        def step(carry: PyTree, k: PyTree) -> tuple[PyTree, None]:
            inner, mean = carry
            inner = stepper(t + k[0] * h, h, inner)
            return (inner, jax.tree.map(lambda m, x: m + k[1] * x, mean, inner[0])), None

        begin = stepper.init(t, y), jax.tree.map(lambda x: jnp.asarray(weights[0], x.dtype) * x, y)
        each = jnp.arange(n).astype(h.dtype), jnp.asarray(weights[1:], h.dtype)
        return lax.scan(step, begin, each)[0][1]
