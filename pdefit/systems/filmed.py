"""Interface of systems with maps and points computed from a whole film, such as activation times."""

import abc
from collections.abc import Iterable, Mapping

import equinox as eqx
import numpy as np

from pdefit.systems.coordinates import FieldCoords


class AbstractFilmed(eqx.Module):
    """A system with maps and points computed from a whole film. They become files and pictures of a run.

    For quantities that need several frames. Not for functions of one state (`AbstractDerived`).
    """

    @abc.abstractmethod
    def maps(
        self, ts: np.ndarray, fields: Mapping[str, Iterable[np.ndarray]]
    ) -> dict[str, tuple[np.ndarray, FieldCoords]]:
        """Fields without time by name, each with its axes; empty if the film lacks the necessary fields.

        **Arguments:**

        - `ts`: the times of the frames, (n,), in the system's time unit.
        - `fields`: the n frames of each field of the film, which can be iterated once; NaN for unobserved values.
        """

    @abc.abstractmethod
    def points(self, ts: np.ndarray, fields: Mapping[str, Iterable[np.ndarray]]) -> dict[str, np.ndarray]:
        """Points in frames as columns: `frame` from 0, the position on each axis, and last a number whose sign is shown.

        **Arguments:** `ts`, `fields`: as in `maps`.
        """
