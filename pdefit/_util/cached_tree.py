"""Trees of arrays that are made once, and kept in files of the cache."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.atomic import beside
from pdefit._util.cache import cache_folder, contents, digest, without_addresses

# bytes of all files in a folder of the cache; the oldest go first
_MOST = 1_000_000_000


def cached_tree(
    folder: str, name: str, made_of: Iterator[bytes], like: PyTree, make: Callable[[], PyTree]
) -> tuple[PyTree, Path, bool]:
    """A tree of arrays, from the cache if it was made before; with it its file, and whether that was there.

    **Arguments:**

    - `folder`, `name`: of the file, whose name goes on with a hash.
    - `made_of`: everything that the tree depends on, as of `origin`.
    - `like`: a tree of the same structure.
    - `make`: makes the tree, if there is no file or a damaged one.
    """
    path, tree = cache_folder(folder) / f"{name}-{digest(made_of)[:24]}.npz", jax.tree.structure(like)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            return jax.tree.unflatten(tree, [found[f"arr_{k}"] for k in range(tree.num_leaves)]), path, True
    # none, or a damaged one, which is replaced
    except (OSError, EOFError, KeyError, ValueError, BadZipFile):
        made = make()
    leaves = [np.asarray(x) for x in jax.tree.leaves(made)]
    if sum(x.nbytes for x in leaves) <= _MOST / 4:
        _keep(path, leaves)
    return made, path, False


def _keep(path: Path, leaves: list[np.ndarray]) -> None:
    """Write a file, and remove the oldest ones if there are too many."""
    # a cache that cannot be written costs time, not results
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path, shared=True) as neighbour:
            np.savez(neighbour, *leaves)
        files = sorted(path.parent.glob("*.npz"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old, held in zip(files, np.cumsum([p.stat().st_size for p in files]), strict=True):
            if held > _MOST:
                old.unlink(missing_ok=True)
    except OSError:
        pass


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
