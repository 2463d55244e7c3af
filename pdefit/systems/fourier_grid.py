"""A uniform periodic grid with spectral derivatives, and equations with a stiff part diagonal in Fourier space."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError
from pdefit.systems.fields import AbstractFieldSystem
from pdefit.systems.grid import COUNTS, LENGTHS, AbstractGrid
from pdefit.systems.linear_operators import AbstractDiagonal


class FourierGrid(AbstractGrid):
    """A periodic box whose fields are sums of plane waves. Values live at points, `origin + i spacing`.

    Derivatives are exact for every field that the grid resolves. A real field of n points along the last axis has
    n // 2 + 1 modes there, as in `jax.numpy.fft.rfftn`.

    **Arguments:**

    - `shape`: the number of points along each of one to three axes, at least 2.
    - `extent`: the periods, in `length_unit`.
    - `origin`: the first point, in `length_unit`; default 0.
    - `length_unit`: the unit of lengths; default "1".
    """

    shape: tuple[int, ...] = eqx.field(**COUNTS)
    extent: tuple[float, ...] = eqx.field(**LENGTHS)
    origin: tuple[float, ...] | None = eqx.field(default=None, **LENGTHS)
    length_unit: str = eqx.field(default="1", static=True)

    @property
    def periodic(self):
        return (True,) * self.ndim

    def axis(self, i):
        return self.corner[i] + np.arange(self.shape[i]) * self.spacing[i]

    def _coarsened(self, u, factor):
        if factor != int(factor):
            raise PdefitError(
                f"FourierGrid keeps every n-th point, n a whole number, but got {factor}; set twin.refine=2"
            )
        # values live at points, and every point of the coarser grid is one of this grid
        return u[(slice(None, None, int(factor)),) * self.ndim]

    def prolonged(self, u):
        for axis, n in zip(range(-self.ndim, 0), self.shape, strict=True):
            u = np.asarray(scipy.signal.resample(u, 2 * n, axis=axis))
        return u

    def to_modes(self, u: Array) -> Array:
        """The Fourier modes of a real field.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        """
        return jnp.fft.rfftn(u)

    def from_modes(self, modes: Array) -> Array:
        """The real field with given Fourier modes, the inverse of `to_modes`."""
        return jnp.fft.irfftn(modes, s=self.shape)

    def numbers(self, axis: int) -> np.ndarray:
        """Number of periods of every mode along an axis, as an array that broadcasts against modes."""
        n, last = self.shape[axis], self.ndim - 1
        count = np.arange(n // 2 + 1) if axis == last else np.rint(np.fft.fftfreq(n, 1 / n))
        return count.reshape([-1 if i == axis else 1 for i in range(self.ndim)])

    def symbol(self, order: int = 1, axis: int = 0) -> Array:
        """Fourier symbol (i k)^order of a derivative, real for even orders.

        Like Python numbers, it takes the precision of the modes or parameters that it multiplies.

        **Arguments:**

        - `order`: the order of the derivative; default 1.
        - `axis`: the axis of differentiation; default 0.
        """
        return _of_any_precision(self._factor(order, axis))

    def _factor(self, order: int, axis: int) -> np.ndarray:
        count, n = self.numbers(axis), self.shape[axis]
        waves = 2 * np.pi / self.extent[axis] * count
        if order % 2 == 0:
            return (-1.0) ** (order // 2) * waves**order
        # the highest mode of an even number of points is a cosine, whose odd derivatives vanish at every point
        return 1j * (-1.0) ** (order // 2) * np.where(2 * np.abs(count) == n, 0.0, waves) ** order

    def laplacian_symbol(self) -> Array:
        """Fourier symbol -|k|^2 of the Laplacian, in any precision like `symbol`."""
        return _of_any_precision(sum((self._factor(2, axis) for axis in range(self.ndim)), start=np.zeros(())))

    def derivative(self, u: Array, order: int = 1, axis: int = 0) -> Array:
        """A derivative of a field.

        **Arguments:**

        - `u`: the field, of the grid's shape.
        - `order`, `axis`: as in `symbol`.
        """
        return self.from_modes(self.to_modes(u) * self.symbol(order, axis))

    def dealias(self, modes: Array) -> Array:
        """The modes without the upper third along every axis.

        Products of two such fields have no aliasing error in the remaining modes (the 2/3 rule).

        **Arguments:**

        - `modes`: Fourier modes, as in `to_modes`.

        Source: S. A. Orszag, J. Atmos. Sci. 28:1074 (1971), doi:10.1175/1520-0469(1971)028<1074:OTEOAI>2.0.CO;2.
        """
        low = np.ones((), bool)
        for axis, n in enumerate(self.shape):
            low = low & (3 * np.abs(self.numbers(axis)) < n)
        return jnp.where(low, modes, 0)


def _of_any_precision(values: np.ndarray) -> Array:
    """Constants in the weak type of JAX. Strong double precision would widen a single precision state."""
    with jax.ensure_compile_time_eval():
        return jnp.full(values.shape, values.dtype.type(0).item()).at[...].set(values)


class SpectralSystem(AbstractFieldSystem, AbstractDiagonal):
    """Periodic fields with a linear part of constant coefficients: y' = N(t, y) + L y.

    A subclass declares its state, its parameters, `init`, `eigenvalues` (of L, from `grid.symbol`) and `nonlinear` (the
    modes of N). The vector field, the IMEX split and the exponentials of `ETDRK4` follow.

    `time_unit` is "1" (dimensionless) unless the subclass states another.

    **Arguments:**

    - `grid`: the points and the periods.
    """

    time_unit: ClassVar[str] = "1"
    grid: FourierGrid

    @abc.abstractmethod
    def nonlinear(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """The Fourier modes of N(t, y).

        For example `State(self.grid.symbol(1) * self.grid.to_modes(-(y.u**2) / 2))` for -u u_x.

        **Arguments:** as in `AbstractSystem.vector_field`.
        """

    def vector_field(self, t, y, args):
        return jax.tree.map(jnp.add, self.linear(y), self.explicit(t, y, args))

    def explicit(self, t, y, args):
        return self.from_modes(self.explicit_modes(t, y, args))

    def explicit_modes(self, t, y, args):
        # constants of a subclass may be double precision, and a state single
        return jax.tree.map(lambda m, u: m.astype(jnp.result_type(u, jnp.complex64)), self.nonlinear(t, y, args), y)

    def to_modes(self, y):
        return jax.tree.map(self.grid.to_modes, y)

    def from_modes(self, modes):
        return jax.tree.map(self.grid.from_modes, modes)
