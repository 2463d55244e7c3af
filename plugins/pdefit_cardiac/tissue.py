"""The base class of heart tissue: variable parameters, blocks that do not conduct, external currents."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

import pdefit
from pdefit_cardiac.patches import Ellipses, Patches
from pdefit_cardiac.waves import activation_times, singularities

# a cell that is half a block, to round-off, counts as tissue
_HALF = 0.5 - 1e-9
# the voltage that activates a cell, between rest at 0 and a peak above 1; and the delay of the phase in ms
_LEVEL, _DELAY = 0.5, 10.0


def _as_mask(tissue: Any) -> Any:
    """The mask of tissue: 1 where at least half of a cell is tissue, and 0 in blocks."""
    if tissue is None or isinstance(tissue, Ellipses | Patches):
        return tissue
    x = tissue if isinstance(tissue, jax.Array) else jnp.asarray(tissue, float)
    return (x >= _HALF).astype(x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else float)


def tissue_mask() -> Any:
    """Declaration of the mask of conducting cells: 1 in tissue and 0 in blocks (scar, holes).

    It has the grid's shape, or is `Patches` or `Ellipses`; None if all cells conduct.
    """
    return pdefit.constant(default=None, converter=_as_mask)


class AbstractTissue(pdefit.capabilities.AbstractFilmed):
    """A model of heart tissue.

    It has a voltage u in its state, a resting state, blocks, and parameters that may vary in space. Its films show when
    the voltage first rises through 0.5, and, in a plane, the phase singularities.

    **Arguments:**

    - `grid`: the cells, with lengths in the unit of the parameters.
    - `tissue`: 1 in tissue and 0 in conduction blocks, of the grid's shape; None without blocks.
    """

    grid: eqx.AbstractVar[pdefit.CartesianGrid]
    tissue: eqx.AbstractVar[Array | None]

    @abc.abstractmethod
    def rest(self) -> Any:
        """The resting state, which is excited only by a current."""

    def __check_init__(self):
        for name, x in _given(self).items():
            # a mask is never one number
            allowed = (self.grid.shape,) if name == "tissue" else ((), self.grid.shape)
            if eqx.is_array(x) and x.shape not in allowed:
                raise ValueError(
                    f"{name} has shape {x.shape}, but the grid has {self.grid.shape}; give a value for each cell, or "
                    f"pdefit_cardiac.Patches, which fit every grid"
                )

    def maps(self, ts, fields):
        if "u" not in fields:
            return {}
        times = activation_times(ts, fields["u"], _LEVEL)
        return {"activation": (times, self.grid.coords("ms", "activation time"))}

    def points(self, ts, fields):
        if "u" not in fields or self.grid.ndim != 2:
            return {}
        frame, squares, charge = singularities(ts, fields["u"], _LEVEL, _DELAY)
        axes = zip("xy", squares.T, self.grid.spacing, strict=True)
        # a singularity lies where four cells meet
        places = {name: self.grid.axis(i)[at] + h / 2 for i, (name, at, h) in enumerate(axes)}
        return {"frame": frame, **places, "charge": charge}


def _given(system: Any) -> dict[str, Any]:
    return {name: getattr(system, name) for name in ("tissue", *pdefit.parameters(system))}


def placed(system: AbstractTissue) -> dict[str, Array]:
    """Fields given as `Patches` or `Ellipses`, evaluated on the system's grid, by name, for its `__post_init__`."""
    return {name: x.on(system.grid) for name, x in _given(system).items() if isinstance(x, Ellipses | Patches)}


def spread(system: AbstractTissue, D: Array, u: Array) -> Array:
    """Diffusion of the voltage, div(D grad u), with no flux into blocks.

    **Arguments:**

    - `system`: the tissue, with its grid and blocks.
    - `D`: the diffusivity, a scalar or a field of the grid's shape.
    - `u`: the voltage, of the grid's shape.
    """
    return pdefit.diffuse(system.grid, D, u, system.tissue)


def driven(system: AbstractTissue, t: Any, rates: Any, args: Any) -> Any:
    """Rates of change with the current of a stimulus added to the rate of u; zero in blocks.

    **Arguments:**

    - `system`: the tissue, with its grid and blocks.
    - `t`: the time.
    - `rates`: the rates of all fields, as a state.
    - `args`: a `Stimulus`, or None.
    """
    if args is not None:
        rates = rates._replace(u=rates.u + args(t, system.grid, rates.u.dtype))
    if system.tissue is None:
        return rates
    return jax.tree.map(lambda rate: system.tissue * rate, rates)


def resting_blocks(system: AbstractTissue, y: Any) -> Any:
    """The state `y` with its blocks at rest."""
    mask = system.tissue
    return y if mask is None else jax.tree.map(lambda a, b: jnp.where(mask > 0, a, b), y, system.rest())
