"""Observations from a file, checked against what the model sees before their values are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError
from pdefit.cli.experiment.positions import check_positions
from pdefit.cli.experiment.trial import try_observe
from pdefit.data.observations import Observations
from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import read_all
from pdefit.inverse.problem.instrument import AbstractObservationOperator, check_observed, seen_positions
from pdefit.systems.capabilities import AbstractGridded
from pdefit.systems.system import AbstractSystem


class Observed(NamedTuple):
    """Observations, the positions they were taken at where the file states none, and what looks odd about the file."""

    observations: Observations
    assumed: tuple[str, ...]
    remarks: tuple[str, ...]


def observed_data(
    cfg: Mapping[str, Any],
    path: Path,
    system: AbstractSystem,
    observe: AbstractObservationOperator,
    sigma: Mapping[str, str | float],
) -> Observed:
    """What `data` names, between `times.start` and `times.stop`."""
    data, times = cfg["data"], cfg["times"]
    coords = system.coords() if isinstance(system, AbstractGridded) else {}
    named = _coordinates(data.get("coordinates"))
    with Frames(
        path,
        data["variables"],
        sigma=sigma,
        units={field: where.unit for field, where in coords.items()},
        time_unit=system.time_unit,
        time=data.get("time") or "time",
        start=-np.inf if times["start"] is None else times["start"],
        stop=np.inf if times["stop"] is None else times["stop"],
    ) as frames:
        y, assumed = _some_state(system, cfg["seed"]), None
        if y is not None:
            try_observe(observe, y)
            check_observed(eqx.filter_eval_shape(observe, y), frames.shapes, f"the data in '{frames.name}'")
            assumed = check_positions(frames, _positions(observe, y, coords), named)
        observations, remarks = read_all(frames)
    return Observed(observations, () if assumed is None else (assumed,), tuple(remarks))


def _coordinates(node: Any) -> dict[str, str | None]:
    """`data.coordinates`: for each axis the variable with its positions, or None."""
    if not isinstance(node or {}, Mapping) or not all(isinstance(v, str | None) for v in (node or {}).values()):
        raise PdefitError(
            f"data.coordinates expects axis: variable, e.g. {{x: lon}}, or x: null to compare nothing, but got {node!r}"
        )
    return dict(node or {})


def _some_state(system: AbstractSystem, seed: int) -> PyTree | None:
    """A state as the system has them, of random numbers, none of which is where a derivative vanishes. None from a system
    that has no state without data."""
    try:
        shapes = eqx.filter_eval_shape(system.init, jax.random.key(seed))
    # equations of a plugin fail with any exception; what they miss is told where the initial state is made
    except Exception:
        return None
    random = np.random.default_rng(0)
    return jax.tree.map(lambda x: jnp.asarray(random.uniform(0.3, 0.7, x.shape), x.dtype), shapes)


def _positions(observe: AbstractObservationOperator, y: PyTree, coords: Any) -> dict[str, Any]:
    """Where the model sees its points; nothing for an instrument whose points have no places."""
    try:
        return seen_positions(observe, y, coords)
    # an instrument of a plugin may have no derivative, or fail at this state with any exception
    except Exception:
        return {}
