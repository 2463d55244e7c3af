"""Films of twins, each integrated once and kept in a cache."""

from pathlib import Path
from zipfile import BadZipFile

import jax
import numpy as np
from jaxtyping import PyTree

from pdefit._util.atomic import beside
from pdefit._util.cache import cache_folder, digest
from pdefit.cli.experiment._prepared import origin
from pdefit.inverse.problem.twin import Twin

# version of the way in which films are made: a new one discards all that are kept
_VERSION = "1"
# bytes of all films that are kept; the oldest go first
_MOST = 1_000_000_000


def kept_film(twin: Twin, y0: PyTree, ts: np.ndarray, args: PyTree) -> PyTree:
    """True states of a twin at all times, from the cache if they were made before.

    **Arguments:** as of `Twin.film`.
    """
    made_of = origin(f"{_VERSION} {twin.dt} {twin.refine}", twin.system, twin.solver, y0, ts, args)
    path = cache_folder("films") / f"{type(twin.system).__name__}-{digest(made_of)[:24]}.npz"
    tree = jax.tree.structure(y0)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as kept:
            return jax.tree.unflatten(tree, [kept[f"arr_{k}"] for k in range(tree.num_leaves)])
    # none, or a damaged one, which is replaced
    except (OSError, KeyError, ValueError, BadZipFile):
        pass
    states = twin.film(y0, ts, args)
    leaves = jax.tree.leaves(states)
    if sum(x.nbytes for x in leaves) <= _MOST / 4:
        _keep(path, leaves)
    return states


def _keep(path: Path, leaves: list[np.ndarray]) -> None:
    """Write a film, and remove the oldest ones where there are too many."""
    # a cache that cannot be written costs time, not results
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path, shared=True) as neighbour:
            np.savez(neighbour, *leaves)
        films = sorted(path.parent.glob("*.npz"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old, held in zip(films, np.cumsum([p.stat().st_size for p in films]), strict=True):
            if held > _MOST:
                old.unlink(missing_ok=True)
    except OSError:
        pass
