"""The inverse problem: everything that may hold an unknown, in one pytree."""

import equinox as eqx
from jaxtyping import PyTree

from pdefit.inverse.problem.instrument import AbstractObservationOperator, ObserveAll
from pdefit.systems.system import AbstractSystem


class Problem(eqx.Module):
    """Everything that may hold an unknown, in one tree.

    Controls select leaves of this tree: `D` of the system, `y0.u`, `observe.gain`, `nodes.u`, `args.strength`.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `y0`: the initial state, of the shapes and units that the system declares.
    - `observe`: the instrument; by default it observes the whole state.
    - `nodes`: for multiple shooting the state at the start of every segment, with a leading axis. The formulation makes
      it.
    - `args`: exogenous inputs (a stimulus, a forcing) that `vector_field` is given; default None.
    """

    system: AbstractSystem
    y0: PyTree
    observe: AbstractObservationOperator = ObserveAll()
    nodes: PyTree | None = None
    args: PyTree = None
