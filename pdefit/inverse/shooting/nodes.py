"""Node states: the states from which the windows of multiple shooting start."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.problem.observed_fields import observed_fields
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractDataState


def node_path(problem: Problem, field: str) -> str:
    """The path of the control that frees the node states of a field.

    **Arguments:**

    - `problem`: the problem, whose state may be a bare array.
    - `field`: the name of the field.
    """
    bare = jax.tree.structure(problem.y0) == jax.tree.structure(0)
    return "nodes" if bare else f"nodes.{field}"


def node_states(problem: Problem, observations: Observations, nodes: np.ndarray) -> PyTree:
    """States at some times of a record, stacked.

    They are the observed values, with the operator inverted if possible. If a field is not observed, the system makes
    it from nearby observations.

    **Arguments:**

    - `problem`: the problem, with the equations and the shapes of the state.
    - `observations`: the record.
    - `nodes`: the indices of the times, (S,).
    """
    if nodes[0] < (first := observations.first_frame):
        # where nothing is seen, the first frame is the nearest guess
        parts = (np.asarray([first]), nodes[1:])
        each = [node_states(problem, observations, part) for part in parts if part.size]
        return jax.tree.map(lambda *x: jnp.concatenate(x), *each)
    fields = named_fields(problem.y0)
    measured, every = observed_fields(problem, observations.at(nodes)), np.arange(nodes.size)
    seen = {n: _observed(n, np.shape(x), measured, every) for n, x in fields.items()}
    missing = [n for n, whole in seen.items() if not whole.all()]
    guesses = (
        _guesses(problem, missing, problem.observe.inverted(observations) or observations, nodes) if missing else {}
    )

    def state(name: str, like: Any) -> Any:
        if name not in guesses:
            return jnp.asarray(measured.values[name], like.dtype)
        if not seen[name].any():
            return guesses[name].astype(like.dtype)
        return jnp.where(measured.mask[name], measured.values[name], guesses[name]).astype(like.dtype)

    return jax.tree.unflatten(jax.tree.structure(problem.y0), [state(n, x) for n, x in fields.items()])


def hides_states(observe: AbstractObservationOperator) -> str:
    """Error sentence about windows that start from data of an instrument that shows no states."""
    return (
        f"Windows start from states in the data, which {type(observe).__name__} does not show; make nodes.<field> controls, or "
        f"use formulation=single (blur, averages and exposures hide states; an instrument of your own states shows_states)"
    )


def check_shown(problem: Problem, observations: Observations, names: Sequence[str]) -> None:
    """Refuse node states from data that the instrument does not show as states.

    **Arguments:**

    - `problem`, `observations`: as in `node_states`.
    - `names`: the fields whose node states are held at the data.
    """
    fields, data = named_fields(problem.y0), observations.values
    seen = [n for n in names if n in data and data[n].shape[1:] == np.shape(fields[n])]
    if any(n not in observations.positions for n in seen) and not problem.observe.shows_states:
        raise PdefitError(hides_states(problem.observe))


def check_free(problem: Problem, observations: Observations, nodes: np.ndarray, controls: Sequence[str]) -> None:
    """Refuse node states that are neither observed nor free.

    **Arguments:**

    - `problem`, `observations`, `nodes`: as in `node_states`.
    - `controls`: the paths of the controls.
    """
    check_shown(problem, observations, [n for n in named_fields(problem.y0) if node_path(problem, n) not in controls])
    frames, every = observations.at(nodes), np.arange(nodes.size)
    measured = observed_fields(problem, frames)
    for name, like in named_fields(problem.y0).items():
        path = node_path(problem, name)
        if path in controls:
            continue
        if _observed(name, np.shape(like), measured, every).all():
            unknown = [c for c in controls if c.startswith("observe.")]
            if not unknown or measured.values[name] is frames.values[name]:
                continue
            raise PdefitError(
                f"Segments start from what {', '.join(unknown)} would have to turn into '{name}'; make {path} a control, or "
                f"use formulation=single"
            )
        what = "missing at the start of a segment" if name in observations.values else "not observed"
        raise PdefitError(
            f"Segments start from the data, but the field '{name}' is {what}; make {path} a control, or use "
            f"formulation=single"
        )


def _observed(name: str, shape: tuple[int, ...], observations: Observations, nodes: np.ndarray) -> np.ndarray:
    """Mask of the nodes at which the whole field was observed, (S,)."""
    # points are not those of the grid, even if they are as many
    if (
        name in observations.positions
        or name not in observations.values
        or observations.values[name].shape[1:] != shape
    ):
        return np.zeros(nodes.size, bool)
    mask = np.asarray(observations.mask[name])[nodes].reshape(nodes.size, -1)
    return np.logical_and.reduce(mask, axis=1)


def _guesses(
    problem: Problem, missing: list[str], observations: Observations, nodes: np.ndarray
) -> dict[str, jax.Array]:
    """Missing fields at the nodes, made by the system from the data."""
    system = problem.system
    if not isinstance(system, AbstractDataState):
        raise PdefitError(
            f"States from data expect the field '{missing[0]}' in every frame where they begin, and {type(system).__name__} "
            f"has no init_from_data to find it; observe it, or use formulation=single and initial=system"
        )
    states = [named_fields(system.init_from_data(observations, int(i))) for i in nodes]
    return {n: jnp.stack([s[n] for s in states]) for n in missing}
