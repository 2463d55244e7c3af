"""Reaction-diffusion equations from a reaction and one diffusivity for each field."""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.systems.capabilities import AbstractStable
from pdefit.systems.diffusion_solve import from_modes, laplacian_eigenvalues, to_modes
from pdefit.systems.fields import AbstractFieldSystem, FieldInfo, declared_fields
from pdefit.systems.grid import CartesianGrid
from pdefit.systems.linear_operators import AbstractDiagonal
from pdefit.systems.operators import broadcast_scalars, diffuse


class ReactionDiffusion(AbstractFieldSystem, AbstractDiagonal, AbstractStable):
    """Fields that react at every point and diffuse: u_i' = D_i lap u_i + R_i(t, u).

    A subclass declares its state, its parameters, `init` and `reaction`. The diffusivity of a field is declared with
    it, `pdefit.field(diffusivity="D")`: the name of a parameter (a scalar, or a field of the grid's shape) or a number.
    Everything else follows: the vector field, the IMEX split, the stable step, coordinates and coarser grids.

    `time_unit` is "1" (dimensionless) unless the subclass states another.

    **Arguments:**

    - `grid`: the cells, their size and the boundary conditions.
    """

    time_unit: ClassVar[str] = "1"
    grid: CartesianGrid

    @abc.abstractmethod
    def reaction(self, t: Array | float, y: PyTree, args: PyTree) -> PyTree:
        """The reaction R(t, y), pointwise: the rates in a cell depend only on the fields in that cell.

        Parameters that are numbers arrive as rows that broadcast against a field (`broadcast_scalars`).

        **Arguments:**

        - `t`: the time, in the system's time unit.
        - `y`: the state.
        - `args`: exogenous inputs, or None.

        **Returns:** the rates of the fields, in the tree and shapes of y.
        """

    def stiffness(self, y: PyTree) -> Array:
        """Fastest rate of the reaction at the state y, in 1 / time: a scalar.

        By default it is the largest row sum of |dR/dy|.

        Override it if the reaction becomes much faster later than at the initial state.
        """
        leaves, tree = jax.tree.flatten(y)
        time = jnp.zeros((), leaves[0].dtype)
        rows = [jnp.zeros_like(u) for u in leaves]
        for j in range(len(leaves)):
            unit = tree.unflatten([jnp.full_like(u, float(i == j)) for i, u in enumerate(leaves)])
            column = jax.jvp(lambda y: self.reaction(time, y, None), (y,), (unit,))[1]
            rows = [row + jnp.abs(x) for row, x in zip(rows, jax.tree.leaves(column), strict=True)]
        return jnp.max(jnp.stack(rows))

    def vector_field(self, t, y, args):
        return jax.tree.map(jnp.add, self._diffused(self.grid.at(t, args), y), self._rates(t, y, args))

    def explicit(self, t, y, args):
        # what boundary values bring in, whatever y is
        walls = self._diffused(self.grid.at(t, args), jax.tree.map(jnp.zeros_like, y))
        return jax.tree.map(jnp.add, self._rates(t, y, args), walls)

    def linear(self, y):
        return self._diffused(self.grid.homogeneous(), y)

    def to_modes(self, y):
        fields = self._with_diffusivities(y)
        return type(y)(*(u if D is None else to_modes(self.grid.of(n), u) for n, D, u in fields))

    def from_modes(self, modes):
        fields = self._with_diffusivities(modes)
        return type(modes)(*(u if D is None else from_modes(self.grid.of(n), u) for n, D, u in fields))

    def eigenvalues(self):
        y = jax.eval_shape(lambda: self.init(jax.random.key(0)))
        return type(y)(*(self._eigenvalues(name, info.diffusivity) for name, info in declared_fields(y).items()))

    def _eigenvalues(self, field: str, diffusivity: str | float | None) -> Array:
        D = self._diffusivity(diffusivity, None)
        if D is None:
            return jnp.zeros(())
        if D.ndim:
            raise PdefitError(
                f"The linear part of {type(self).__name__} has modes only for one diffusivity, but {diffusivity} varies "
                f"in space with shape {D.shape}; use solver=rkc"
            )
        return D * laplacian_eigenvalues(self.grid.of(field))

    def stable_step(self, y):
        y = jax.tree.map(jnp.asarray, y)
        D = max((float(jnp.max(D)) for _, D, _ in self._with_diffusivities(y) if D is not None), default=0.0)
        spread = 4 * D * sum(1 / h**2 for h in self.grid.spacing)
        return 2 / (spread + float(self.stiffness(y)))

    def _rates(self, t: Array | float, y: PyTree, args: PyTree) -> PyTree:
        rates = broadcast_scalars(self, jax.tree.leaves(y)[0]).reaction(t, y, args)
        # a field that the reaction leaves out keeps its declaration, which is the default of a NamedTuple
        for name, rate in named_fields(rates).items():
            if isinstance(rate, FieldInfo):
                raise PdefitError(f"The reaction of {type(self).__name__} returns no rate of the field '{name}'")
        return rates

    def _diffused(self, grid: CartesianGrid, y: PyTree) -> PyTree:
        fields = self._with_diffusivities(y)
        return type(y)(*(jnp.zeros_like(u) if D is None else diffuse(grid.of(n), D, u) for n, D, u in fields))

    def _with_diffusivities(self, y: PyTree) -> list[tuple[str, Array | None, Array]]:
        """The name of each field, its diffusivity, and the field."""
        fields = zip(declared_fields(y).items(), jax.tree.leaves(y), strict=True)
        return [(name, self._diffusivity(info.diffusivity, u.dtype), u) for (name, info), u in fields]

    def _diffusivity(self, declared: str | float | None, dtype: np.dtype | None) -> Array | None:
        """Diffusivity that a field declares, by the name of a parameter or as a number; None for a field without one."""
        if not isinstance(declared, str):
            return None if declared is None else jnp.asarray(declared, dtype)
        known = [f.name for f in dataclasses.fields(self)]
        if declared not in known:
            raise unknown(f"parameter of {type(self).__name__} (the diffusivity of a field)", declared, known)
        return getattr(self, declared)
