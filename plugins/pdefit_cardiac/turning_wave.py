"""Where the tissue is in its cycle while a wave turns, or sets off: the initial states of all models."""

import numpy as np

import pdefit


def behind_front(grid: pdefit.CartesianGrid) -> np.ndarray:
    """Parts of a turn since the front of a wave passed that turns around the middle of the first two axes: at every angle
    the tissue is as far behind the front. From 0 to 1, of the grid's shape."""
    x, y = (np.indices(grid.shape)[i] + 0.5 - n / 2 for i, n in enumerate(grid.shape[:2]))
    return np.arctan2(y, x) / (2 * np.pi) % 1


def ahead_of_front(grid: pdefit.CartesianGrid) -> np.ndarray:
    """False in the first tenth of a cable, where a wave starts, True in the rest."""
    return np.arange(grid.shape[0]) > 0.1 * grid.shape[0]
