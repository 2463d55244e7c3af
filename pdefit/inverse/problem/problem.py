"""The inverse problem: everything that may hold an unknown, in one pytree."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields, promoted
from pdefit.data.observations import Observations
from pdefit.integrate.loop.nudge import Nudge
from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.problem.instrument import AbstractObservationOperator, ObserveAll
from pdefit.systems.capabilities import AbstractConstrained
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.events import Event, Events
from pdefit.systems.initial import OwnInitial, Steady
from pdefit.systems.system import AbstractSystem


class Problem(eqx.Module):
    """The model of an experiment: equations, initial state, instrument and inputs in one tree.

    Controls select leaves of this tree: `D` of the system, `y0.u`, `observe.gain`, `nodes.u`, `args.strength`.

    **Arguments:**

    - `system`: the equations with their parameters.
    - `y0`: the initial state, of the shapes and units that the system declares. Its numbers become float64 if a
      parameter is float64.
    - `observe`: the instrument; by default it observes the whole state. An instrument that needs a grid takes the
      system's.
    - `nodes`: the states at the starts of all segments of multiple shooting, (S, ...). The formulation sets them.
    - `args`: exogenous inputs of `vector_field`, such as a stimulus or a forcing; default None.
    - `nudge`: the relaxation of the trajectory towards the data; default None. The formulation sets it.
    - `initial`: the rule by which the initial state follows the parameters: `OwnInitial()` if the system's `init` depends
      on an unknown parameter, or `Steady()`. Its state replaces `y0`. Default None: `y0` as given.
    - `events`: doses, infusions and resets, a list of `pdefit.Event`; default None.
    """

    system: AbstractSystem
    y0: PyTree
    observe: AbstractObservationOperator
    nodes: PyTree | None
    args: PyTree
    nudge: Nudge | None
    initial: Steady | OwnInitial | None
    events: Events | None

    def __init__(
        self,
        system: AbstractSystem,
        y0: PyTree,
        observe: AbstractObservationOperator | None = None,
        nodes: PyTree | None = None,
        args: PyTree = None,
        nudge: Nudge | None = None,
        initial: Steady | OwnInitial | None = None,
        events: Sequence[Event] | Events | None = None,
    ):
        self.system, self.y0, self.nodes = system, promoted(y0, system), nodes
        self.args, self.nudge, self.initial = args, nudge, initial
        self.observe, self.events = (observe or ObserveAll()).on(system), Events.of(events)
        if self.events is not None:
            self.events.check(system, y0)
            if self.observe.takes_state:
                raise PdefitError(
                    "An exposure takes steps of the equations without events; set exposure to 0, or leave out events"
                )

    @property
    def instrument(self) -> AbstractObservationOperator:
        """The observation operator with the present parameters of the system, as needed for an exposure."""
        return self.observe.with_system(self.system)

    def observed(self, data: Observations) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and dtype of the instrument's observation of a state, by variable.

        **Arguments:** `data`: the record, which may set the positions of the instrument.
        """
        observe, t = self.instrument.placed(data.positions_at(0)), jax.ShapeDtypeStruct((), precision(self.y0))
        return jax.eval_shape(lambda t, y: observe(t, y, self.args), t, self.y0)

    def coords(self) -> dict[str, FieldCoords]:
        """Axes of every field of the state, as stated by the system, or else indices."""
        fields = named_fields(self.y0).items()
        return self.system.coords() or {name: FieldCoords.numbered(name, np.shape(x)) for name, x in fields}

    def axes(self, path: str, shape: tuple[int, ...], unit: str = "1") -> FieldCoords | None:
        """Axes of a control: the axes of its field of the state or of its grid; None for other controls.

        **Arguments:**

        - `path`: the path of the control, such as `y0.u`.
        - `shape`, `unit`: its shape and its unit.
        """
        (root, _, name), grid = path.partition("."), getattr(self.system, "grid", None)
        if root in ("y0", "nodes") and (fields := self.system.coords()):
            return fields.get(name or "y")
        return grid.coords(unit, path) if grid is not None and getattr(grid, "shape", None) == shape else None

    def started(self) -> "Problem":
        """The problem with the initial state that follows from its parameters; unchanged without `initial`."""
        if self.initial is None:
            return self
        return eqx.tree_at(lambda p: p.y0, self, self.initial.state(self.system, self.y0, self.args))

    def constrained(self) -> "Problem":
        """The problem with states projected onto the constraint of its system; unchanged without a constraint."""
        if not isinstance(self.system, AbstractConstrained):
            return self
        if self.nodes is None:
            return eqx.tree_at(lambda p: p.y0, self, _projected(self.system, self.y0))
        return eqx.tree_at(lambda p: p.nodes, self, jax.vmap(partial(_projected, self.system))(self.nodes))


@eqx.filter_jit
def _projected(system: AbstractConstrained, y: PyTree) -> PyTree:
    """Projection of a state onto the constraint of its system, by one program if nothing is traced."""
    return system.project(y)
