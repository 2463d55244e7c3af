"""Preparation of a system: a protocol that brings it into a state worth observing."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
from jaxtyping import PRNGKeyArray, PyTree

from pdefit.systems.system import AbstractSystem


class AbstractPreparation(eqx.Module):
    """A protocol that ends in an initial state: a start, then kicks, each followed by a time in which the system runs.

    A kick is a sudden change of the state, such as a stimulus. `pdefit.prepare` integrates the protocol. The command
    line keeps the resulting state in a cache, so that it is computed once.
    """

    @property
    def solver(self) -> Any:
        """The time stepping method, a solver of diffrax or pdefit; None for that of Euler."""
        return None

    @abc.abstractmethod
    def start(self, system: AbstractSystem, key: PRNGKeyArray) -> PyTree:
        """The state before the first kick.

        **Arguments:**

        - `system`: the equations.
        - `key`: of random starts.
        """

    @abc.abstractmethod
    def kicks(self, system: Any, key: PRNGKeyArray) -> Sequence[tuple[Callable[[PyTree], PyTree], float]]:
        """The kicks in their order, each with the time that the system runs after it, in its time unit.

        A kick is a function from a state to a state that can be jitted.

        **Arguments:**

        - `system`: the equations.
        - `key`: of random kicks.
        """
