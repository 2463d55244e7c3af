"""Objectives on several devices: recordings, segments, tangents or points on each, or a part of the grid on each."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

from pdefit._util.errors import PdefitError
from pdefit.integrate.loop.batch import AbstractBatch, Devices, largest_divisor, on_one_device
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings

# a forward run of some hundredths of a second
LEAST = 1e6


def spread(objective: Objective, devices: Sequence[Any] | None = None) -> Objective:
    """Distribution of an objective over several devices.

    Recordings, or else the segments of a record, are divided among them. The grid of a single trajectory is split along
    its first axis. A stencil then exchanges only the edges of its parts; a Fourier transform gathers whole fields.

    **Arguments:**

    - `objective`: the objective.
    - `devices`: the devices; default all of `jax.devices()`. After `jax.distributed.initialize()` these are the devices
      of all processes, each of which must make the same objective and the same calls.

    **Errors:** PdefitError if no two devices can share the work evenly.
    """
    chosen = tuple(jax.devices() if devices is None else devices)
    if len(chosen) < 2:
        return objective
    if not isinstance(objective, Functional | Recordings):
        raise PdefitError(f"Several devices expect a functional or recordings, but got {type(objective).__name__}")
    count = _trajectories(objective)
    if isinstance(objective, Functional) and count == 1:
        return _cut(objective, chosen)
    _refuse_uneven(count, "recordings" if isinstance(objective, Recordings) else "segments", len(chosen))
    return _everywhere(_divided(objective, chosen), chosen)


def over_processes(objective: Objective, most: int) -> Objective:
    """The objective over the devices of all processes of JAX, the same number from each.

    **Arguments:**

    - `objective`: the objective, with arrays of this process only, equal in all processes.
    - `most`: the largest number of devices of a process on a CPU; all GPUs are used.

    **Errors:** PdefitError if the processes cannot share the work evenly.
    """
    alone, devices = on_one(objective), devices_of_all(most)
    processes, count = jax.process_count(), _trajectories(alone)
    what = "recordings" if isinstance(alone, Recordings) else "segments"
    if isinstance(alone, Functional) and count == 1:
        shape = getattr(getattr(alone.problem.system, "grid", None), "shape", (1,))
        count, what = shape[0], "points along the first axis of a grid"
    each = len(devices) // processes
    if not (shares := [n for n in range(1, each + 1) if count % (n * processes) == 0]):
        raise PdefitError(f"{count} {what} cannot be shared evenly by {processes} processes; change --ntasks")
    return spread(alone, [device for k in range(processes) for device in devices[k * each :][: shares[-1]]])


def devices_of_all(most: int) -> list[Any]:
    """Devices of all processes of JAX, the same number from each.

    **Arguments:** `most`: the largest number of devices of a process on a CPU; all GPUs are used.
    """
    each = most if jax.devices()[0].platform == "cpu" else jax.local_device_count()
    return [device for k in range(jax.process_count()) for device in jax.local_devices(k)[:each]]


def gathered(tree: PyTree) -> PyTree:
    """A tree whose arrays, shared by several processes, are gathered on one device of this process."""
    return jax.tree.map(lambda x: on_one_device(x) if isinstance(x, jax.Array) else x, tree)


def agreed(objective: AbstractObjective, value: float) -> float:
    """A number of process 0, such as its seconds, in all processes that share an objective."""
    first = jax.tree.leaves(objective.problem.y0)[0]
    shared = isinstance(first, jax.Array) and not first.is_fully_addressable
    return float(broadcast_one_to_all(np.float64(value))) if shared else value


def over_cores(objective: Objective, devices: Sequence[Any], least: float = LEAST) -> Objective:
    """The objective over as many cores of this machine as its work can be divided among.

    Recordings or segments are divided, or else the tangents of a single trajectory in its normal equations. A small
    objective stays on one core, because devices wait for each other.

    **Arguments:**

    - `objective`: the objective.
    - `devices`: one host device for each core.
    - `least`: the number of values updated by a forward run below which an objective counts as small.
    """
    if len(devices) < 2 or sum(_updates(part) for part, _ in objective.parts(objective.theta0)) < least:
        return objective
    return _divided(on_one(objective), devices)


def _divided(objective: Objective, devices: Sequence[Any]) -> Objective:
    return eqx.tree_at(_batch, objective, Devices(tuple(devices), _batch(objective)))


def _updates(functional: Functional) -> int:
    return functional.layout.time_grid.steps * sum(x.size for x in jax.tree.leaves(functional.problem.y0))


def given_devices(objective: AbstractObjective) -> tuple[Any, ...]:
    """Devices over which an objective was distributed; empty for one device, or if the grid is split."""
    batch = _batch(objective)
    return batch.devices if isinstance(batch, Devices) else ()


def on_one(objective: Objective) -> Objective:
    """The objective on one device, unless its grid is split."""
    batch = _batch(objective)
    return eqx.tree_at(_batch, objective, batch.inside) if isinstance(batch, Devices) else objective


def at_points(
    function: Callable, objective: AbstractObjective, points: Sequence[Float[Array, " p"]]
) -> Iterator[PyTree]:
    """Results function(objective, x) at several points x, in host memory and in order.

    Devices that the trajectories leave idle evaluate one point each.

    **Arguments:**

    - `function`: a compiled function that returns arrays. Define it once, since each new one is compiled.
    - `objective`: the objective.
    - `points`: vectors, (p,) each.
    """
    devices = _batch(objective).idle(_trajectories(objective), len(points))
    if len(devices) < 2:
        yield from (jax.tree.map(np.asarray, function(objective, x)) for x in points)
        return
    alone = on_one(objective)
    for i in range(0, len(points), len(devices)):
        some = points[i : i + len(devices)]
        # the last ones take the program of all
        stacked = jnp.stack([*some, *[some[-1]] * (len(devices) - len(some))])
        results = jax.tree.map(np.asarray, _TOGETHER(function, Devices(devices), alone, stacked))
        yield from (jax.tree.map(lambda x, k=k: x[k], results) for k in range(len(some)))


_TOGETHER: Callable = eqx.filter_jit(
    lambda function, batch, objective, points: batch(partial(function, objective), points)
)


def _batch(objective: AbstractObjective) -> AbstractBatch:
    return objective.batch if isinstance(objective, Recordings) else objective.runner.batch


def _trajectories(objective: AbstractObjective) -> int:
    """Number of recordings, or of segments of one record, that devices can share."""
    return len(objective.columns) if isinstance(objective, Recordings) else objective.groups


def devices_of(objective: AbstractObjective) -> int:
    """Number of devices that an objective runs on."""
    return max(_batch(objective).devices_for(_trajectories(objective)), _devices_of_fields(objective))


def is_cut(objective: AbstractObjective) -> bool:
    """True if the grid is split, so that each device holds a part of every field."""
    return _devices_of_fields(objective) > 1


def _devices_of_fields(objective: AbstractObjective) -> int:
    first = jax.tree.leaves(objective.problem.y0)[0]
    return len(first.sharding.device_set) if isinstance(first, jax.Array) else 1


def _cut(functional: Functional, devices: tuple[Any, ...]) -> Functional:
    """The functional with every field split along the first axis of the grid, and all other arrays on each device."""
    shape = getattr(getattr(functional.problem.system, "grid", None), "shape", None)
    if shape is None:
        raise PdefitError("Several devices expect recordings, segments or a grid; this is one trajectory without them")
    number = _refuse_uneven(shape[0], "points along the first axis of the grid", len(devices))
    mesh = Mesh(np.array(devices[:number]), ("grid",))

    def put(x: jax.Array) -> jax.Array:
        places = [k for k in range(x.ndim - len(shape) + 1) if x.shape[k : k + len(shape)] == tuple(shape)]
        spec = PartitionSpec(*[None] * places[0], "grid") if places else PartitionSpec()
        return _put(x, NamedSharding(mesh, spec))

    return jax.tree.map(lambda x: put(x) if isinstance(x, jax.Array) else x, functional)


def _everywhere(objective: Objective, devices: tuple[Any, ...]) -> Objective:
    """The objective with all arrays on all devices, if some devices belong to other processes."""
    if all(device.process_index == jax.process_index() for device in devices):
        return objective
    # those that divide the work evenly are among them
    everywhere = NamedSharding(Mesh(np.array(devices), ("all",)), PartitionSpec())
    return jax.tree.map(lambda x: _put(x, everywhere) if isinstance(x, jax.Array) else x, objective)


def _put(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    """An array on the devices of a mesh; this process fills its own part."""
    if sharding.is_fully_addressable:
        return jax.device_put(x, sharding)
    whole = np.asarray(x)
    return jax.make_array_from_callback(whole.shape, sharding, lambda part: whole[part])


def _refuse_uneven(count: int, what: str, devices: int) -> int:
    """Number of devices that share `count` items evenly; refused if it is one."""
    number = largest_divisor(count, devices)
    if number == 1:
        raise PdefitError(
            f"{count} {what} cannot be shared evenly by {devices} devices or fewer; name one device, or change their number"
        )
    return number
