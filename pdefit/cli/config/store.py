"""The `store` section of a configuration: which fields are written, how often, and how much they take."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import size_in_bytes
from pdefit.systems.capabilities import FieldCoords


def check_store(store: Mapping[str, Any], coords: Mapping[str, FieldCoords], frames_: int, kinds: int) -> list[str]:
    """The fields to keep; refuses unknown names and what would not fit the budget."""
    for key in store:
        if key not in ("fields", "every", "dtype", "budget"):
            raise unknown("key of store", str(key), ("fields", "every", "dtype", "budget"))
    if not isinstance(store["fields"], list | None):
        raise PdefitError(f"store.fields expects a list of names, or null for all, but got '{store['fields']}'")
    wanted = list(coords) if store["fields"] is None else [str(name) for name in store["fields"]]
    for name in wanted:
        if name not in coords:
            raise unknown("field (store.fields)", name, coords)
    if isinstance(store["every"], bool) or not isinstance(store["every"], int) or store["every"] < 1:
        raise PdefitError(f"store.every expects a whole number >= 1, but got {store['every']}")
    if store["dtype"] not in ("float32", "float64"):
        raise PdefitError(f"store.dtype expects float32 or float64, but got '{store['dtype']}'")
    size = film_bytes(store, coords, wanted, frames_, kinds)
    if size > size_in_bytes(store["budget"], "store.budget"):
        raise PdefitError(
            f"fields.h5 would take {size / 1e9:.2f} GB, more than store.budget = {store['budget']}; keep fewer fields "
            f"(store.fields) or frames (store.every), use store.dtype=float32, or raise the budget"
        )
    return wanted


def film_bytes(
    store: Mapping[str, Any], coords: Mapping[str, FieldCoords], wanted: list[str], frames_: int, kinds: int
) -> int:
    """What so many frames of these fields take, each as `kinds` variables (observed, predicted, true)."""
    values = sum(int(np.prod([c.size for c in coords[n].coords.values()])) for n in wanted)
    return values * np.dtype(store["dtype"]).itemsize * kinds * (frames_ // store["every"] + 1)
