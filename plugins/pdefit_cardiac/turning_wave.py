"""Phases of a rotating or starting wave, for the initial states of all models."""

import numpy as np

import pdefit


def behind_front(grid: pdefit.CartesianGrid) -> np.ndarray:
    """Phase of a rotating wave at each cell, from 0 to 1: the fraction of a turn since the front passed.

    The wave rotates about the middle of the first two axes. The phase depends on the angle alone.
    """
    x, y = (np.indices(grid.shape)[i] + 0.5 - n / 2 for i, n in enumerate(grid.shape[:2]))
    return np.arctan2(y, x) / (2 * np.pi) % 1


def ahead_of_front(grid: pdefit.CartesianGrid) -> np.ndarray:
    """Mask of the cells ahead of a wave that starts in the first tenth of a cable."""
    return np.arange(grid.shape[0]) > 0.1 * grid.shape[0]
