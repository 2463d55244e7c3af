"""Preparation of an initial state by a protocol of kicks, and its run."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError, with_space
from pdefit._util.trees import cast
from pdefit.integrate.forward_runs import choose_numerics, frames
from pdefit.systems.initial import AbstractInitial
from pdefit.systems.system import AbstractSystem


class AbstractPreparation(AbstractInitial):
    """A protocol that ends in an initial state: a start, then kicks, each followed by a period of free evolution.

    A kick is a sudden change of the state, such as a stimulus. `pdefit.prepare` integrates the protocol. The command
    line keeps the resulting state in a cache, so that it is computed once.
    """

    @property
    def solver(self) -> Any:
        """The time stepping method, a solver of diffrax or pdefit; None for Euler's method."""
        return None

    @abc.abstractmethod
    def start(self, system: AbstractSystem, key: PRNGKeyArray) -> PyTree:
        """The state before the first kick.

        **Arguments:**

        - `system`: the equations.
        - `key`: the key of random starts.
        """

    @abc.abstractmethod
    def kicks(self, system: Any, key: PRNGKeyArray) -> Sequence[tuple[Callable[[PyTree], PyTree], float]]:
        """Kicks in order, each with the duration of the evolution after it, in the system's time unit.

        A kick is a function from state to state that can be jitted.

        **Arguments:**

        - `system`: the equations.
        - `key`: the key of random kicks.
        """


@eqx.filter_jit
def _kicked(kick: Callable[[PyTree], PyTree], y: PyTree) -> PyTree:
    return kick(y)


def prepare(
    preparation: AbstractPreparation,
    system: AbstractSystem,
    key: PRNGKeyArray,
    *,
    dt: float | None = None,
    report: Callable[[int, int], object] = lambda done, kicks: None,
) -> PyTree:
    """State at the end of a protocol of kicks, in the precision of its start.

    The preparation's solver takes steps in float32. Any state that the system reaches is a legitimate start, so higher
    accuracy would be useless.

    **Arguments:**

    - `preparation`: the protocol: a start, and kicks with the times between them.
    - `system`: the equations.
    - `key`: the key of random kicks.
    - `dt`: the largest step, in the system's time unit; by default 0.8 of the stable one.
    - `report`: called after every kick with the numbers of kicks done and of all kicks.

    **Errors:** PdefitError if the state is not finite after a kick.
    """
    dtype = jax.tree.leaves(preparation.start(system, key))[0].dtype
    rough = cast(system, "float32")
    y = cast(preparation.start(rough, key), "float32")
    numerics = choose_numerics([(rough, y)], preparation.solver or diffrax.Euler(), dt, None)
    kicks = preparation.kicks(rough, key)
    t = 0.0
    for done, (kick, duration) in enumerate(kicks, 1):
        y = _kicked(kick, y)
        if duration > 0:
            # from t = 0 each time, so that equal durations share one compiled program
            (y,) = frames(rough, y, np.asarray([float(duration)]), numerics, t0=0.0)
        t += duration
        if not all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(y)):
            raise PdefitError(
                f"The preparation of {type(system).__name__} blows up after kick {done} of {len(kicks)}, by "
                f"t = {t:g}{with_space(system.time_unit)} with steps of {numerics.dt:.3g}; "
                f"kick less, or correct the parameters of the system"
            )
        report(done, len(kicks))
    return cast(y, dtype)
