"""The interface of systems with maps and points of a whole film, such as activation times and phase singularities."""

import abc
from collections.abc import Iterable, Mapping

import equinox as eqx
import numpy as np

from pdefit.systems.coordinates import FieldCoords


class AbstractFilmed(eqx.Module):
    """A system with maps and points that follow from a whole film. They become files and pictures of a run.

    For what needs frames before or after. Not for what follows from one state: that is `AbstractDerived`.
    """

    @abc.abstractmethod
    def maps(
        self, ts: np.ndarray, fields: Mapping[str, Iterable[np.ndarray]]
    ) -> dict[str, tuple[np.ndarray, FieldCoords]]:
        """Fields without time by name, each with its axes; none if they do not follow from the fields of the film.

        **Arguments:**

        - `ts`: the times of the frames, (n,), in the system's time unit.
        - `fields`: for each field of the film its n frames, which can be read once; NaN if nothing was observed.
        """

    @abc.abstractmethod
    def points(self, ts: np.ndarray, fields: Mapping[str, Iterable[np.ndarray]]) -> dict[str, np.ndarray]:
        """Points in frames as columns: `frame` from 0, the position on each axis, and last a number whose sign is shown.

        **Arguments:** `ts`, `fields`: as of `maps`.
        """
