"""Trees of arrays, computed once and kept in cache files."""

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.atomic import beside
from pdefit._util.cache import cache_folder, contents, digest, sources, without_addresses
from pdefit._util.plugins import packages

_PDEFIT, _PYTHON = Path(__file__).parents[1], Path(os.__file__).parent
# bytes of all files in a folder of the cache; the oldest go first
_MOST = 1_000_000_000


def cached_tree(
    folder: str,
    name: str,
    made_of: Iterator[bytes],
    like: PyTree,
    make: Callable[[], PyTree],
    tell: Callable[[str], object],
) -> tuple[PyTree, Path, bool]:
    """A tree of arrays, read from the cache or made anew; with its file, and whether the tree was read.

    **Arguments:**

    - `folder`, `name`: the cache folder, and the file name, to which a hash is appended.
    - `made_of`: everything that the tree depends on, as bytes (see `origin`).
    - `like`: a tree of the same structure.
    - `make`: makes the tree if the file is missing or damaged.
    - `tell`: called with a sentence if the file is damaged.
    """
    path, tree = cache_folder(folder) / f"{name}-{digest(made_of)[:24]}.npz", jax.tree.structure(like)
    if path.is_file():
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
                return jax.tree.unflatten(tree, [found[f"arr_{k}"] for k in range(tree.num_leaves)]), path, True
        # the readers of archives and arrays raise almost anything where a byte is wrong
        except Exception:
            tell(f"'{path}' of the cache is damaged, and is made anew")
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
    """Bytes that identify everything a result depends on, including the sources of pdefit, plugins and user modules.

    **Arguments:**

    - `first`: a text of plain numbers.
    - `parts`: systems, solvers, states.
    """
    installed = (_PDEFIT, *packages().values())
    yield f"{first} {compiler()} {jax.config.read('jax_enable_x64')} {sources(*installed)}".encode()
    yield from _sources_of_user(installed)
    for part in parts:
        arrays, rest = eqx.partition(part, eqx.is_array)
        yield without_addresses(f"{type(part)} {jax.tree.structure(arrays)} {rest}")
        yield from contents(jax.tree.leaves(arrays))


def compiler() -> tuple[str, ...]:
    """Versions and settings of the compiler, which decide round-off."""
    return (
        jax.__version__,
        importlib.metadata.version("jaxlib"),
        os.environ.get("XLA_FLAGS", ""),
        jax.default_backend(),
    )


def _sources_of_user(installed: tuple[Path, ...]) -> Iterator[bytes]:
    """Contents of the files of loaded modules that belong neither to Python nor to installed packages.

    A file of equations may import any of them.
    """
    folders = tuple(f"{folder}{os.sep}" for folder in (_PYTHON, *installed))
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    for file in sorted(files):
        packaged = {"site-packages", "dist-packages"} & {*Path(file).parts}
        if file.endswith(".py") and not file.startswith(folders) and not packaged and os.path.isfile(file):
            yield Path(file).read_bytes()
