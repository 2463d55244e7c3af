"""Linear operators of a system: a stiff linear part, and the smoothing of its own fields."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree


class AbstractSplit(eqx.Module):
    """Equations y' = N(t, y) + L y with a stiff linear part L, for IMEX solvers.

    `vector_field` is the sum of `explicit` and `linear`. L does not depend on time, and a transform diagonalises it.
    Boundary contributions (Dirichlet values) belong to N. A system whose L is diffusion on a grid can use
    `pdefit.diffusion_solve`.
    """

    @abc.abstractmethod
    def explicit(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """The non-stiff part N(t, y), with the tree and shapes of y.

        **Arguments:** as in `AbstractSystem.vector_field`.
        """

    @abc.abstractmethod
    def linear(self, y: PyTree) -> PyTree:
        """The stiff part L y."""

    @abc.abstractmethod
    def linear_solve(self, y: PyTree, h: Array) -> PyTree:
        """Exact solution z of the implicit step (1 - h L) z = y.

        **Arguments:**

        - `y`: the right-hand side, a state.
        - `h`: a time, in the system's time unit; 0 must give y.
        """


class AbstractDiagonal(AbstractSplit):
    """Equations y' = N(t, y) + L y whose linear part is diagonal in a basis: Fourier modes, cosines, harmonics.

    Eigenvalues may be complex, as for waves. The implicit solve of IMEX solvers and the matrix exponentials of `ETDRK4`
    follow.
    """

    @abc.abstractmethod
    def to_modes(self, y: PyTree) -> PyTree:
        """Coefficients of a state in the basis, real or complex arrays with the tree of y."""

    @abc.abstractmethod
    def from_modes(self, modes: PyTree) -> PyTree:
        """State with given coefficients, the inverse of `to_modes`."""

    @abc.abstractmethod
    def eigenvalues(self) -> PyTree:
        """Eigenvalues of L, in one over the system's time unit, in arrays that broadcast against the modes."""

    def explicit_modes(self, t: Array, y: PyTree, args: PyTree) -> PyTree:
        """Coefficients of N(t, y). Override it if N is computed in the basis, which saves two transforms.

        **Arguments:** as in `explicit`.
        """
        return self.to_modes(self.explicit(t, y, args))

    def linear(self, y):
        return self.from_modes(jax.tree.map(lambda m, e: m * _like(e, m), self.to_modes(y), self.eigenvalues()))

    def linear_solve(self, y, h):
        def solved(m: Array, e: Array) -> Array:
            return m / (1 - _like(h * e, m))

        return self.from_modes(jax.tree.map(solved, self.to_modes(y), self.eigenvalues()))


def _like(e: Array, modes: Array) -> Array:
    """Eigenvalues in the precision of the modes; real ones stay real."""
    e = jnp.asarray(e)
    return e.astype(modes.dtype if jnp.iscomplexobj(e) else modes.real.dtype)


class Smoother(abc.ABC):
    """A hashable linear operator S that maps a search variable z to an unknown field."""

    @property
    @abc.abstractmethod
    def variance(self) -> Float[np.ndarray, "..."]:
        """Variance of S z at every element, for a z of unit variance."""

    @property
    def groups(self) -> Int[np.ndarray, "..."]:
        """A group number for every element of z, equal for elements that data should determine about equally well."""
        return np.zeros(self.variance.shape, int)

    @abc.abstractmethod
    def smooth(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """The field S z."""

    @abc.abstractmethod
    def unsmooth(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Variable z with S z = x, the inverse of `smooth`."""


class AbstractSmoothed(eqx.Module):
    """A part of a system with a field that is on no grid, such as values at knots around a sphere."""

    @abc.abstractmethod
    def smoother(self, name: str, length: float, time: float, order: float, amplitude: float | None) -> Smoother:
        """Smoothing operator of a field.

        **Arguments:**

        - `name`: the name of the array.
        - `length`, `time`, `order`, `amplitude`: as in `pdefit.Smoothing`.
        """
