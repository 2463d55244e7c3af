"""Batches of trajectories of equal shape: all at once, one after the other, or a few at a time."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError


class AbstractBatch(eqx.Module):
    """The way in which a function is applied to many trajectories.

    It is applied to every slice along the leading axis of its arguments, and the results are stacked.
    """

    @abc.abstractmethod
    def __call__(self, function: Callable, *arguments: PyTree) -> PyTree:
        """The stacked results of a function.

        **Arguments:**

        - `function`: takes one slice of every argument.
        - `arguments`: trees of arrays with a common leading axis.
        """

    @abc.abstractmethod
    def at_once(self, count: int) -> int:
        """Number of trajectories out of `count` that are in memory together, with all their checkpoints."""

    @abc.abstractmethod
    def recompute(self, count: int) -> int:
        """Number of additional forward runs for a gradient of `count` trajectories."""

    def devices_for(self, count: int) -> int:
        """Number of devices that run `count` trajectories."""
        return 1

    @property
    def shares(self) -> bool:
        """True if several devices share the work of one program."""
        return False

    def idle(self, count: int, parts: int) -> tuple[Any, ...]:
        """Devices that share `parts` parts of the work, if `count` trajectories run on one of several devices."""
        return ()


class Vmap(AbstractBatch):
    """All trajectories at once by `jax.vmap`: the fastest batch, which needs memory for all of them."""

    def __call__(self, function, *arguments):
        if _count(arguments) == 1:
            # without the axis, programs compile and run faster
            first = jax.tree.map(lambda x: x[0], arguments)
            return jax.tree.map(lambda x: jnp.asarray(x)[None], function(*first))
        return jax.vmap(function)(*arguments)

    def at_once(self, count):
        return count

    def recompute(self, count):
        return 0


class Loop(AbstractBatch):
    """Trajectories one after the other, with the memory of one.

    The reverse pass runs each trajectory once more.
    """

    def __call__(self, function, *arguments):
        return _in_turn(function, 1, arguments)

    def at_once(self, count):
        return 1

    def recompute(self, count):
        return int(count > 1)


class Chunk(AbstractBatch):
    """Trajectories a few at a time, between `Vmap` and `Loop`.

    **Arguments:**

    - `size`: the number of trajectories that run together, 1 or more.
    """

    size: int

    def __check_init__(self):
        if self.size < 1:
            raise PdefitError(f"A chunk of trajectories has a size of 1 or more, but {self.size} was asked for")

    def __call__(self, function, *arguments):
        return _in_turn(function, self.size, arguments)

    def at_once(self, count):
        return min(self.size, count)

    def recompute(self, count):
        return int(count > self.size)


class Devices(AbstractBatch):
    """Trajectories over several devices, the same number on each. They communicate only sums.

    The number of devices used divides the number of trajectories.

    **Arguments:**

    - `devices`: the devices, such as `jax.devices()`.
    - `inside`: the batch of the trajectories on one device; default all at once (`Vmap()`).
    """

    devices: tuple[Any, ...] = eqx.field(static=True, converter=tuple)
    inside: AbstractBatch = eqx.field(default_factory=Vmap)

    def __check_init__(self):
        if not self.devices:
            raise PdefitError("Devices expects one device or more, but got none")

    def __call__(self, function, *arguments):
        number = self.devices_for(_count(arguments))
        if number == 1:
            return self.inside(function, *arguments)
        mesh = Mesh(np.array(self.devices[:number]), ("trajectories",))
        each = PartitionSpec("trajectories")
        return jax.shard_map(
            lambda *a: self.inside(function, *a), mesh=mesh, in_specs=each, out_specs=each, check_vma=False
        )(*arguments)

    @property
    def shares(self):
        return len(self.devices) > 1

    def at_once(self, count):
        number = self.devices_for(count)
        # cores share their memory
        return self.inside.at_once(count // number) * (number if self.devices[0].platform == "cpu" else 1)

    def recompute(self, count):
        return self.inside.recompute(count // self.devices_for(count))

    def devices_for(self, count):
        # processes divide a number of trajectories evenly, or each runs all
        if len({d.process_index for d in self.devices}) > 1:
            return len(self.devices) if count % len(self.devices) == 0 else 1
        return largest_divisor(count, len(self.devices))

    def idle(self, count, parts):
        # no more than make a share smaller
        share = max(-(-parts // len(self.devices)), 1)
        alone = self.devices_for(count) == 1 and len({d.process_index for d in self.devices}) == 1
        return self.devices[: -(-parts // share)] if alone else ()


def on_one_device(tree: PyTree) -> PyTree:
    """The tree with its shared arrays, of several cores or processes, on the first device alone.

    Otherwise computations with them would run on all of these devices.
    """

    def one(x: Any) -> Any:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            return jnp.asarray(process_allgather(x, tiled=True))
        places = x.sharding.device_set if isinstance(x, jax.Array) else ()
        return jnp.asarray(np.asarray(x)) if len(places) > 1 and next(iter(places)).platform == "cpu" else x

    return jax.tree.map(one, tree)


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most `most`."""
    return max(n for n in range(1, most + 1) if number % n == 0)


def _count(arguments: PyTree) -> int:
    return int(jax.tree.leaves(arguments)[0].shape[0])


def _in_turn(function: Callable, size: int, arguments: PyTree) -> PyTree:
    if _count(arguments) <= size:
        return Vmap()(function, *arguments)
    # without the checkpoint every chunk would keep what its reverse pass needs until the last has run
    one = jax.checkpoint(lambda a: function(*a), prevent_cse=False)
    arrays, count = jax.tree.map(jnp.asarray, arguments), _count(arguments)
    if size == 1:
        return lax.map(one, arrays)
    whole = count // size * size
    chunks = jax.tree.map(lambda x: x[:whole].reshape(whole // size, size, *x.shape[1:]), arrays)
    # lax.map can batch too, but not results without elements
    results = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), lax.map(jax.vmap(one), chunks))
    if whole == count:
        return results
    rest = Vmap()(function, *jax.tree.map(lambda x: x[whole:], arrays))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), results, rest)
