"""How to bring a system into a state worth observing."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
from jaxtyping import PRNGKeyArray, PyTree

from pdefit.systems.system import AbstractSystem


class AbstractPreparation(eqx.Module):
    """A protocol that ends in an initial state: a start, then kicks, each followed by a time of the system's own.

    The core integrates it, once for every content: the state is kept in a cache.
    """

    @abc.abstractmethod
    def start(self, system: AbstractSystem, key: PRNGKeyArray) -> PyTree:
        """The state before the first kick."""

    @abc.abstractmethod
    def kicks(self, system: Any, key: PRNGKeyArray) -> Sequence[tuple[Callable[[PyTree], PyTree], float]]:
        """Kicks (from state to state, jittable) and how long, in time units, the system runs after each."""
