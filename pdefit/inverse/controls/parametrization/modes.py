"""Smooth modes of a field: the few functions whose sum is a field known to be smooth."""

import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from pdefit._util.errors import PdefitError
from pdefit.inverse.controls.parametrization.base import AbstractParametrization
from pdefit.inverse.controls.parametrization.control_axes import FieldAxes


class Modes(AbstractParametrization):
    """Field as a sum of its lowest modes on a uniform grid: Fourier modes, cosines between walls, or polynomials.

    Every mode has mean square 1, so its coefficient has the unit of the field. Polynomials are orthogonal on the grid; a
    polynomial of degree n is ordered like the cosine with n zeros.

    **Arguments:** `shape`, `roughness`, `open` as in `AbstractParametrization`, and

    - `count`: the number of modes, starting from the smallest wave numbers.
    - `spacing`: the size of a cell along every axis.
    - `periodic`: whether the two ends are neighbours, for each axis; False for polynomials.
    - `basis`: as in `Control`.
    """

    count: int = eqx.field(static=True)
    spacing: tuple[float, ...] = eqx.field(static=True)
    periodic: tuple[bool, ...] = eqx.field(static=True)
    basis: str = eqx.field(static=True)

    @classmethod
    def of(cls, path: str, count: int, basis: str, axes: FieldAxes) -> "Modes":
        """Modes of a control, whose prior a fit estimates.

        **Arguments:**

        - `path`: the name of the control, for errors.
        - `count`: the number of modes.
        - `basis`: as in `Control`.
        - `axes`: the axes of the field.
        """
        shape = axes.shape
        if not 1 <= len(shape) <= 3 or not 1 <= count <= np.prod(shape):
            raise PdefitError(
                f"modes = {count} of '{path}' expects a field of one to three axes and at most one mode for each cell, "
                f"but its shape is {shape}"
            )
        periodic = axes.periodic if basis == "waves" else (False,) * len(shape)
        return cls(shape, count, axes.spacing, periodic, basis, roughness=jnp.zeros(count), open=True)

    @functools.cached_property
    def _chosen(self) -> tuple[np.ndarray, np.ndarray]:
        """Index of every mode along each axis, (count, axes), and its wave number, (count,)."""
        axes = zip(self.shape, self.spacing, self.periodic, strict=True)
        along = [np.pi / (n * h) * (2 * ((np.arange(n) + 1) // 2) if wraps else np.arange(n)) for n, h, wraps in axes]
        waves = np.sqrt(sum(k**2 for k in np.meshgrid(*along, indexing="ij")))
        order = np.argsort(waves.ravel(), kind="stable")[: self.count]
        return np.stack(np.unravel_index(order, self.shape), axis=1), waves.ravel()[order]

    @functools.cached_property
    def _along(self) -> tuple[np.ndarray, ...]:
        """Values of the modes along each axis, (cells, modes)."""
        along = []
        for n, wraps, most in zip(self.shape, self.periodic, self._chosen[0].max(axis=0) + 1, strict=True):
            # from the first cell's centre, where the highest cosine of an even number of cells does not vanish
            places, number = (np.arange(n)[:, None] + (0.0 if wraps else 0.5)) / n, np.arange(most)
            if self.basis == "polynomials":
                values, _ = np.linalg.qr(np.polynomial.legendre.legvander(2 * places[:, 0] - 1, most - 1))
            else:
                angle = np.pi * places * (2 * ((number + 1) // 2) if wraps else number)
                values = np.where(wraps & (number > 0) & (number % 2 == 0), np.sin(angle), np.cos(angle))
            along.append(values / np.sqrt(np.mean(values**2, axis=0)))
        return tuple(along)

    @property
    def waves(self) -> Float[np.ndarray, " count"]:
        """Wave number of every mode, in one over the grid's unit of length."""
        return self._chosen[1]

    @property
    def size(self):
        return self.count

    def field(self, coefficients, power=1):
        # the sum of the modes, or of a power of them
        index, along = self._chosen[0], self._along
        field = jnp.zeros([m.shape[1] for m in along], coefficients.dtype).at[tuple(index.T)].set(coefficients)
        for modes in along:
            field = jnp.tensordot(field, jnp.asarray(modes**power), axes=(0, 1))
        return field

    def coefficients(self, field):
        for modes in self._along:
            field = jnp.tensordot(field, jnp.asarray(modes) / len(modes), axes=(0, 0))
        return field[tuple(self._chosen[0].T)]

    def variance(self, variances):
        return self.field(jnp.asarray(variances), power=2)
