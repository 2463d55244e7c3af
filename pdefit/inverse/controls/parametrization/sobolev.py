"""Sobolev variables of fields: search variables in which smooth changes have a small norm."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.fft import dctn, idctn
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError, unknown
from pdefit.inverse.controls.declare import Smoothing
from pdefit.inverse.controls.parametrization.base import AbstractParametrization
from pdefit.inverse.controls.parametrization.control_axes import FieldAxes
from pdefit.systems.linear_operators import Smoother


class Sobolev(AbstractParametrization):
    """Field as a background plus S z, with the Sobolev variable z as coefficients.

    A smooth change of the field has a smaller norm in z than a rough one.

    **Arguments:** `shape`, `roughness`, `open` as in `AbstractParametrization`, and

    - `smoother`: the operator S.
    - `background`: the field at z = 0.
    """

    smoother: Smoother = eqx.field(static=True)
    background: Array

    @property
    def groups(self):
        return np.ravel(self.smoother.groups)

    @property
    def deviation(self) -> float:
        """Root mean square of the standard deviation at a point, for z of unit variance."""
        return float(np.sqrt(np.mean(self.smoother.variance)))

    def amplitude(self, scale):
        return None if self.roughness is None else self.deviation / (float(np.mean(self.roughness)) / scale)

    def field(self, coefficients):
        return self.background + self.smoother.smooth(jnp.reshape(coefficients, self.shape))

    def coefficients(self, field):
        return self.smoother.unsmooth(field - self.background)

    def at_points(self, changes):
        return jax.vmap(self.smoother.smooth)(jnp.reshape(changes, (-1, *self.shape))).reshape(changes.shape)

    def variance(self, variances):
        # all elements of z have the same weight
        return np.mean(variances) * self.smoother.variance


@dataclasses.dataclass(frozen=True)
class GridSmoother(Smoother):
    """Operator S of a field, diagonal in its modes: cosines between walls, Fourier modes along periodic axes.

    **Arguments:**

    - `shape`, `spacing`, `periodic`: the number of points along every axis, their distance, and whether it is periodic.
    - `length`: the smoothing length of S, in the unit of `spacing`.
    - `order`: the decay of modes, as in `Smoothing`.
    - `factors`: the factor of the mean along each axis.
    - `amplitude`: the standard deviation of S z at a point for z of unit variance; None if S is not normalised.
    """

    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    periodic: tuple[bool, ...]
    length: float
    order: float
    factors: tuple[float, ...]
    amplitude: float | None

    @classmethod
    def of(cls, path: str, given: float | Smoothing, axes: FieldAxes) -> "GridSmoother":
        """Operator of a control.

        **Arguments:**

        - `path`: the name of the control, for errors.
        - `given`: its smoothing; a number is a length in cells.
        - `axes`: the axes of the field.
        """
        n = len(axes.shape)
        if not 1 <= n <= 3:
            raise PdefitError(
                f"smoothing of '{path}' expects a field of one to three axes, but its shape is {axes.shape}"
            )
        if not isinstance(given, Smoothing):
            return cls(axes.shape, (1.0,) * n, axes.periodic, float(given), 1.0, (1.0,) * n, None)
        if given.time:
            raise PdefitError(f"smoothing of '{path}' has a time, but its field does not depend on time; remove time")
        for name in given.mean:
            if name not in axes.names:
                raise unknown(f"axis of '{path}' (smoothing.mean)", name, [n for n in axes.names if n])
        assert given.amplitude != "auto", "`from_guess` knows its number"
        factors = tuple(float(given.mean.get(name, 1.0)) for name in axes.names)
        return cls(axes.shape, axes.spacing, axes.periodic, given.length, given.order, factors, given.amplitude)

    def smooth(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return self._from_modes(self._to_modes(z) * jnp.asarray(self._symbol))

    def unsmooth(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return self._from_modes(self._to_modes(x) / jnp.asarray(self._symbol))

    @partial(jax.jit, static_argnums=0)
    def filtered(self, x: Float[Array, "..."], sigma: ArrayLike) -> Float[Array, "..."]:
        """Most probable field S z for a noisy field x, with z of unit variance (Wiener filter).

        **Arguments:**

        - `x`: the field.
        - `sigma`: the standard deviation of its noise at a point.
        """
        symbol = jnp.asarray(self._symbol)
        return self._from_modes(self._to_modes(x) * symbol**2 / (symbol**2 + sigma**2))

    @property
    def _walls(self) -> tuple[int, ...]:
        return tuple(i for i, wraps in enumerate(self.periodic) if not wraps)

    @property
    def _periods(self) -> tuple[int, ...]:
        return tuple(i for i, wraps in enumerate(self.periodic) if wraps)

    def _to_modes(self, x: Array) -> Array:
        modes = dctn(x, norm="ortho", axes=self._walls) if self._walls else x
        return jnp.fft.rfftn(modes, axes=self._periods, norm="ortho") if self._periods else modes

    def _from_modes(self, modes: Array) -> Array:
        if self._periods:
            modes = jnp.fft.irfftn(modes, [self.shape[i] for i in self._periods], self._periods, norm="ortho")
        return idctn(modes, norm="ortho", axes=self._walls) if self._walls else modes

    @property
    def _symbol(self) -> np.ndarray:
        """Factor of every mode, with only half of the modes along the last periodic axis."""
        whole = self.spectrum
        for axis in self._periods[-1:]:
            whole = np.take(whole, np.arange(self.shape[axis] // 2 + 1), axis)
        return whole

    @property
    def variance(self) -> Float[np.ndarray, "..."]:
        # the sum of its squared modes
        total = self.spectrum**2
        for axis, (n, wraps) in enumerate(zip(self.shape, self.periodic, strict=True)):
            number = np.zeros(n) if wraps else np.arange(n)
            squares = (
                np.cos(np.pi * np.outer(number, np.arange(n) + 0.5) / n) ** 2 * np.where(number > 0, 2, 1)[:, None]
            )
            total = np.moveaxis(np.tensordot(total, squares / n, axes=(axis, 0)), -1, axis)
        return total

    @property
    def spectrum(self) -> Float[np.ndarray, "..."]:
        """Factor of every mode, an array of the field's shape in the order of cosine and Fourier transforms."""
        along = [
            2 * np.pi * np.fft.fftfreq(n, h) if wraps else np.pi * np.arange(n) / (n * h)
            for n, h, wraps in zip(self.shape, self.spacing, self.periodic, strict=True)
        ]
        waves = np.meshgrid(*along, indexing="ij")
        factor = (1 + self.length**2 * np.sum(np.square(waves), axis=0)) ** -self.order
        for k, mean in zip(waves, self.factors, strict=True):
            factor = factor * np.where(k == 0, mean, 1.0)
        return factor if self.amplitude is None else self.amplitude * factor / np.sqrt(np.mean(factor**2))
