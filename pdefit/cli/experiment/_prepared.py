"""Prepared initial states, each integrated once and kept in a cache."""

import dataclasses
import inspect
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from rich.console import Console

from pdefit._util.cache import cache_folder, contents, digest, without_addresses
from pdefit._util.errors import PdefitError, with_space
from pdefit._util.trees import named_fields
from pdefit.cli.runtime.progress import RunsProgress
from pdefit.integrate.preparation import AbstractPreparation, prepare
from pdefit.output.store.fields import read_frame, write_frame
from pdefit.systems.fields import field_coords
from pdefit.systems.system import AbstractSystem

# version of the way in which states are prepared: a new one discards all cached states
_VERSION = "1"


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Cost of a prepared state.

    **Arguments:**

    - `duration`: time that was integrated, in the system's time unit.
    - `seconds`: wall time; 0 for a state from the cache.
    - `cached`, `path`: whether it came from the cache, and where it is kept.
    """

    duration: float
    seconds: float
    cached: bool
    path: Path

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "path": str(self.path)}


def prepared_state(preparation: AbstractPreparation, system: AbstractSystem, seed: int) -> tuple[PyTree, Prepared]:
    """State at the end of a preparation, from the cache if it was made before."""
    key, begin = jax.random.key(seed), time.perf_counter()
    start, name = preparation.start(system, key), type(system).__name__
    kicks = preparation.kicks(system, key)
    duration = float(sum(t for _, t in kicks))
    path = cache_folder("states") / f"{name}-{digest(origin(f'{_VERSION} {seed}', preparation, system))[:24]}.h5"
    if path.is_file():
        try:
            return _read(path, start, name), Prepared(duration, 0.0, True, path)
        # a damaged file is replaced
        except PdefitError:
            pass
    told = f"preparing the state, {duration:g}{with_space(system.time_unit)} (kept for the next run)"
    with RunsProgress(Console()) as bar:
        bar(0, len(kicks), told)
        made = prepare(preparation, system, key, report=lambda done, of: bar(done, of, told))
    fields = {n: np.asarray(x) for n, x in named_fields(made).items()}
    try:
        write_frame(path, fields, 0.0, system.time_unit, field_coords(system, made), f"prepared state of {name}")
    # a cache that cannot be written costs time, not results
    except OSError:
        pass
    return made, Prepared(duration, time.perf_counter() - begin, False, path)


def state_from_file(path: Path, like: PyTree, model: str) -> PyTree:
    """The last frame of a file as a state with the fields and shapes of `like`."""
    return _read(path, like, model)


def _read(path: Path, like: PyTree, model: str) -> PyTree:
    expected = named_fields(like)
    found = read_frame(path, {n: np.shape(x) for n, x in expected.items()}, model)
    leaves = [jnp.asarray(found[n], x.dtype) for n, x in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def origin(first: str, *parts: Any) -> Iterator[bytes]:
    """Bytes of everything that a result depends on, including the source files of the classes of its parts.

    **Arguments:**

    - `first`: a text: the version of the way in which it is made, and plain numbers.
    - `parts`: systems, solvers, states.
    """
    yield f"{first} {jax.__version__}".encode()
    for part in parts:
        yield from map(_source, type(part).__mro__)
        arrays, rest = eqx.partition(part, eqx.is_array)
        yield without_addresses(f"{type(part)} {jax.tree.structure(arrays)} {rest}")
        yield from contents(jax.tree.leaves(arrays))


def _source(cls: type) -> bytes:
    """Content of the file that defines a class; empty if there is none."""
    try:
        return Path(inspect.getfile(cls)).read_bytes()
    except (OSError, TypeError):
        return b""
