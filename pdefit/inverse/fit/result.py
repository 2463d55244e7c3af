"""What a fit leaves, and its state between two chunks of evaluations."""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.problem.problem import Problem


@dataclasses.dataclass(frozen=True)
class RunState:
    """All that a fit needs to go on as if nothing had happened: continuing from it gives the same bits.

    `numbers` says where the fit is (stage, round of reweighting, evaluations, events, ...) and survives JSON; `arrays` by
    name hold theta, the optimizer's state, the best point and the standard deviations in force.
    """

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def iterations(self) -> int:
        """Evaluations so far: as many rows of the history belong to this state."""
        return int(self.numbers["iterations"])


def pack(name: str, tree: PyTree) -> dict[str, np.ndarray]:
    """The arrays of a tree under names that begin with `name`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {f"{name}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def unpack(name: str, like: PyTree, arrays: dict[str, np.ndarray]) -> PyTree:
    """The tree `like` with the arrays that `pack` made of such a tree."""
    dynamic, static = eqx.partition(like, eqx.is_array)

    def restored(path: Any, leaf: Any) -> Any:
        key = f"{name}{jax.tree_util.keystr(path)}"
        value = arrays.get(key)
        if value is None or value.shape != leaf.shape or value.dtype != leaf.dtype:
            raise PdefitError(f"The saved state does not fit this experiment ({key}); start a new run")
        return value if isinstance(leaf, np.ndarray) else jnp.asarray(value)

    return eqx.combine(jax.tree_util.tree_map_with_path(restored, dynamic), static)


def saved_weights(
    saved: RunState, observations: Observations
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Float[Array, " p"]]:
    """Sigma before the stage and now, and the point before the stage. Raises `ValueError` where they cannot be those."""
    if not all(np.all(np.isfinite(x)) for name, x in saved.arrays.items() if "theta" in name):
        raise ValueError("its point is not finite")
    if np.ndim(saved.arrays["theta_before"]) != 1:
        raise ValueError("its point is no vector")
    # re-estimated ones have shapes of their own
    names = observations.sigma
    before, now = ({n: saved.arrays[f"{a}['{n}']"] for n in names} for a in ("sigma_before", "sigma"))
    for name, value in {**now, **before}.items():
        if value.dtype.kind != "f" or not np.all(value > 0):
            raise ValueError(f"sigma of {name} is not positive")
        np.broadcast_to(value, observations.values[name].shape)
    return before, now, jnp.asarray(saved.arrays["theta_before"])


class Record(NamedTuple):
    """One evaluation, as the history keeps it. `loss` belongs to the weights and steps in force at the time; `step_error` to
    those steps, in units of the tolerance (NaN for constant steps, and where a point was rejected)."""

    iteration: int
    stage: int
    loss: float
    gradient_norm: float
    accepted: bool
    seconds: float
    theta: np.ndarray | None
    step_error: float = float("nan")


@dataclasses.dataclass
class Fit(Generic[Objective]):
    """The outcome of a fit.

    **Arguments:**

    - `functional`: with the weights and windows of the last stage.
    - `theta` (p,): its best point there.
    - `loss`, `loss_initial`: its values there and at the first guess.
    - `history`: every evaluation since the fit was last resumed.
    - `iterations`: the number of all evaluations.
    - `status`: `done` or `interrupted`.
    - `converged`: whether the last optimizer found a minimum.
    - `seconds`: time spent compiling and evaluating.
    - `events`: what happened, in sentences.
    """

    functional: Objective
    theta: Float[Array, " p"]
    loss: float
    loss_initial: float
    history: list[Record]
    iterations: int
    status: str
    converged: bool
    seconds: dict[str, float]
    events: list[str]

    @property
    def problem(self) -> Problem:
        """The problem at the best point; of many recordings with a leading axis on every array."""
        return self.functional.at(self.theta)


class Progress(NamedTuple):
    """The state of a running fit, which a callback is given after every chunk of evaluations."""

    stage: int
    stages: int
    iteration: int
    max_iterations: int
    loss: float
    records: list[Record]
    functional: AbstractObjective
    theta: np.ndarray
    state: Callable[[], RunState]
