"""Systems whose state is a tuple of scalar fields on one grid, each with its own declaration."""

import dataclasses
from typing import Any

import jax
from jaxtyping import PyTree

from pdefit.systems.capabilities import AbstractRefinable
from pdefit.systems.grid import CartesianGrid
from pdefit.systems.system import AbstractSystem, unit_in


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """The declaration of a field of the state. Its attributes are the arguments of `field`."""

    unit: str
    doc: str
    diffusivity: str | float | None


def field(*, unit: str = "1", doc: str = "", diffusivity: str | float | None = None) -> Any:
    """Declaration of a field of the state, as its default value in a `NamedTuple`.

        class State(NamedTuple):
            u: Float[Array, "*grid"] = pdefit.field(unit="mol/L", doc="concentration", diffusivity="D")

    **Arguments:**

    - `unit`: the unit of the field, for files and pictures; default "1". Values of a file are converted to it.
      Lengths as in `parameter`.
    - `doc`: the field in words, for files and pictures.
    - `diffusivity`: the name of a parameter, or a number; None for a field that does not diffuse. Only
      `ReactionDiffusion` uses it.
    """
    return FieldInfo(unit, doc, diffusivity)


def declared_fields(state: PyTree) -> dict[str, FieldInfo]:
    """Declarations of a state's fields by name, in the order of its leaves."""
    declared = getattr(type(state), "_field_defaults", {})
    if not declared or tuple(declared) != type(state)._fields:
        raise TypeError(
            f"A field system expects a NamedTuple with pdefit.field(...) for each of its fields, but its state is "
            f"{type(state).__name__}"
        )
    return declared


class AbstractFieldSystem(AbstractSystem, AbstractRefinable):
    """Equations for scalar fields at the points of one grid.

    The state is a `NamedTuple` of arrays of the grid's shape, each declared with `pdefit.field`. Coordinates, units and
    averages over coarser cells follow from these declarations.

    **Arguments:**

    - `grid`: the cells, their size and the boundary conditions.
    """

    grid: CartesianGrid

    def coords(self):
        state = jax.eval_shape(lambda: self.init(jax.random.key(0)))
        return {
            name: self.grid.coords(unit_in(self, info.unit, name), info.doc)
            for name, info in declared_fields(state).items()
        }

    def coarsen(self, y, factor):
        return jax.tree.map(lambda u: self.grid.coarsen(u, factor), y)
