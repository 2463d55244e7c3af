"""Averages over blocks of an array."""

from collections.abc import Sequence

from jaxtyping import Array


def block_mean(x: Array, cells: Sequence[int]) -> Array:
    """The means of blocks of so many cells along each axis; every axis must hold whole blocks."""
    blocks = x.reshape([k for n, c in zip(x.shape, cells, strict=True) for k in (n // c, c)])
    return blocks.mean(axis=tuple(range(1, 2 * x.ndim, 2)))
