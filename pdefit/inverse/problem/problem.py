"""Everything that may hold an unknown, in one pytree."""

import equinox as eqx
from jaxtyping import PyTree

from pdefit.inverse.problem.instrument import AbstractObservationOperator, ObserveAll
from pdefit.systems.system import AbstractSystem


class Problem(eqx.Module):
    """A system, its initial state, the instrument that observes it, for multiple shooting the state at every node, and the
    exogenous inputs (a stimulus, a forcing) that `vector_field` is given as `args`.

    Controls select leaves of this tree: `D` of the system, `y0.u`, `observe.gain`, `nodes.position`, `args.strength`.
    """

    system: AbstractSystem
    y0: PyTree
    observe: AbstractObservationOperator = ObserveAll()
    nodes: PyTree | None = None
    args: PyTree = None
