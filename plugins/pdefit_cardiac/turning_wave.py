"""Phases of a wave that turns or sets off, from which all models make their initial states."""

import numpy as np

import pdefit


def behind_front(grid: pdefit.CartesianGrid) -> np.ndarray:
    """The part of a turn, from 0 to 1, since the front of a turning wave passed each cell.

    The wave turns around the middle of the first two axes. At every angle the tissue is as far behind the front.
    """
    x, y = (np.indices(grid.shape)[i] + 0.5 - n / 2 for i, n in enumerate(grid.shape[:2]))
    return np.arctan2(y, x) / (2 * np.pi) % 1


def ahead_of_front(grid: pdefit.CartesianGrid) -> np.ndarray:
    """The cells ahead of a wave that starts in the first tenth of a cable: False there, True in the rest."""
    return np.arange(grid.shape[0]) > 0.1 * grid.shape[0]
