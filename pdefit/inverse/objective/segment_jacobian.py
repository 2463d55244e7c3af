"""The Jacobian of a segmented record, as small dense blocks."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.inverse.controls.theta import Controls

# entries of a dense Jacobian, 2 GB in float64
_DENSE_LIMIT = 250_000_000


class Pattern(NamedTuple):
    """Elements of theta that a segment depends on: k shared ones, and n of its initial node state.

    The gap at its end also depends on the n elements of the next segment's node.

    **Arguments:**

    - `seeds`: directions of theta that move the same element of every node at once, (k + n, p). Segments do not depend
      on each other's nodes, so k + n tangents are enough for all of them.
    - `columns`: for each segment the indices in theta of the columns of its block, (S, k + 2 n). The last segment has
      no next node.
    """

    seeds: np.ndarray
    columns: np.ndarray


def pattern(controls: Controls, segments: int) -> Pattern:
    """Pattern of controls whose node states are the last elements of theta.

    **Arguments:**

    - `controls`: all controls.
    - `segments`: the number of segments.
    """
    shared = controls.shared.size
    own, first = np.zeros((segments, 0), int), shared
    for control in controls.nodes:
        block = first + np.arange(control.size).reshape(segments, -1)
        own, first = np.concatenate([own, block], axis=1), first + control.size
    together = np.tile(np.arange(shared), (segments, 1))
    seeds = np.zeros((shared + own.shape[1], controls.size))
    seeds[np.arange(shared), np.arange(shared)] = 1
    seeds[shared + np.arange(own.shape[1]), own] = 1
    after = np.concatenate([own[1:], own[-1:]])
    return Pattern(seeds, np.concatenate([together, own, after], axis=1))


def dense(blocks: Float[Array, "S m c"], columns: Array | np.ndarray, p: int) -> Float[Array, "Sm p"]:
    """The whole Jacobian, block after block.

    **Arguments:**

    - `blocks`: the derivatives of m residuals each in the elements of theta that they depend on, (S, m, c).
    - `columns`: these elements, (S, c).
    - `p`: the size of theta.
    """
    s, m, _ = blocks.shape
    where = np.arange(s)[:, None, None], np.arange(m)[None, :, None], columns[:, None, :]
    return jnp.zeros((s, m, p)).at[where].add(blocks).reshape(s * m, p)


def added(vectors: Float[Array, "S c"], columns: Array | np.ndarray, p: int) -> Float[Array, " p"]:
    """Sum of the blocks' vectors, each at the positions of its elements in theta.

    **Arguments:**

    - `vectors`: one vector for each block, (S, c).
    - `columns`: the indices in theta of their elements, (S, c).
    - `p`: the size of theta.
    """
    return jnp.zeros(p).at[columns].add(vectors)


def added_matrices(matrices: Float[Array, "S c c"], columns: Array | np.ndarray, p: int) -> Float[Array, "p p"]:
    """Sum of the blocks' matrices, each at the positions of its rows and columns.

    **Arguments:** as in `added`, with one matrix (c, c) for each block.
    """
    return jnp.zeros((p, p)).at[columns[:, :, None], columns[:, None, :]].add(matrices)


class ResidualParts(NamedTuple):
    """Residuals of one record by kind, or their derivatives in k directions on a leading axis.

    **Arguments:**

    - `observed`: the weighted residuals of every observation by variable, (S, I, ...), zero in padding.
    - `ends`, `starts`: the free fields at the ends and at the starts of all segments in standard deviations of a gap,
      (S, n).
    - `extra`: the residuals of every regularizer and prior.
    """

    observed: dict[str, Array]
    ends: Float[Array, "S n"]
    starts: Float[Array, "S n"]
    extra: Sequence[Array | np.ndarray]


class SegmentNormalEquations(NamedTuple):
    """Normal equations of each of S groups of residuals (segments).

    **Arguments:**

    - `half_square`: half the sum of squared residuals of each group, (S,).
    - `gradient`: J_r^T r of each group, (S, c).
    - `matrix`: J_r^T J_r of each group, (S, c, c).
    - `columns`: the indices in theta of their elements, (S, c).
    - `extra`, `extra_jac`: residuals of regularizers and priors, (e,), and their Jacobian, (e, p).
    - `held`: the residuals, and their derivatives along the seeds of the `pattern`, if both are stored; otherwise None.
    """

    half_square: Float[Array, " S"]
    gradient: Float[Array, "S c"]
    matrix: Float[Array, "S c c"]
    columns: Array | np.ndarray
    extra: Float[Array, " e"]
    extra_jac: Float[Array, "e p"]
    held: tuple[ResidualParts, ResidualParts] | None = None

    def total(self) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"]]:
        """J, J_r^T r and J_r^T J_r of all groups together."""
        p, r, jac = self.extra_jac.shape[1], self.extra, self.extra_jac
        value = jnp.sum(self.half_square) + r @ r / 2
        gradient = added(self.gradient, self.columns, p) + jac.T @ r
        return value, gradient, added_matrices(self.matrix, self.columns, p) + jac.T @ jac

    def joined(self) -> "SegmentNormalEquations":
        """The equations themselves; for many recordings, those of all recordings joined."""
        return self


def continuity_blocks(d_ends: Float[Array, "S n k"], d_starts: Float[Array, "S n k"]) -> Float[Array, "S n c"]:
    """Derivatives of the gap at the end of every segment, (S, n, k + n).

    They are taken in the segment's own k elements of theta and in the n of the next node.

    **Arguments:**

    - `d_ends`, `d_starts`: the derivatives of ends and starts in the k elements that a segment depends on; the last n
      are its node.
    """
    s, n, k = d_ends.shape
    # after the last segment there is no gap
    inner = np.arange(s)[:, None, None] < s - 1
    ahead = -jnp.roll(d_starts[:, :, k - n :], -1, axis=0)
    return jnp.where(inner, jnp.concatenate([d_ends, ahead], axis=2), 0.0)


def refuse_dense(rows: int, columns: int) -> None:
    """Refuse a dense Jacobian that would not fit into memory."""
    if rows * columns > _DENSE_LIMIT:
        raise PdefitError(
            f"A dense Jacobian of {rows} residuals and {columns} controls is refused above {_DENSE_LIMIT:.0e} entries; "
            f"use stages=lbfgs, or fewer observations or controls"
        )
