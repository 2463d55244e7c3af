"""The section `store` of a configuration: which fields are written, how often, and how much room they take."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import size_in_bytes
from pdefit.systems.capabilities import FieldCoords

_KEYS = ("fields", "every", "dtype", "budget")


@dataclasses.dataclass(frozen=True)
class Store:
    """Content of fields.h5.

    **Arguments:**

    - `fields`: names of the fields to keep; None for all.
    - `every`: n keeps each n-th frame.
    - `dtype`: of the numbers.
    - `budget`: largest size of the file, as "2 GB" or in bytes.
    """

    fields: tuple[str, ...] | None
    every: int
    dtype: str
    budget: str | float

    def wanted(self, coords: Mapping[str, FieldCoords], frames: int, kinds: int) -> list[str]:
        """Fields to keep. Unknown names are refused, and a file that would be larger than the budget.

        **Arguments:**

        - `coords`: axes and coordinates of each field.
        - `frames`: number of frames of the record.
        - `kinds`: number of variables of a field (observed, predicted, true).
        """
        wanted = list(coords) if self.fields is None else list(self.fields)
        for name in wanted:
            if name not in coords:
                raise unknown("field (store.fields)", name, coords)
        size = self.size(coords, wanted, frames, kinds)
        if size > size_in_bytes(self.budget, "store.budget"):
            raise PdefitError(
                f"fields.h5 would take {size / 1e9:.2f} GB, more than store.budget = {self.budget}; keep fewer fields "
                f"(store.fields) or frames (store.every), use store.dtype=float32, or raise the budget"
            )
        return wanted

    def size(self, coords: Mapping[str, FieldCoords], wanted: list[str], frames: int, kinds: int) -> int:
        """Size in bytes of this many frames of the wanted fields, in this many kinds."""
        values = sum(int(np.prod([c.size for c in coords[n].coords.values()])) for n in wanted)
        return values * np.dtype(self.dtype).itemsize * kinds * (frames // self.every + 1)


def read_store(node: Mapping[str, Any]) -> Store:
    """Settings of fields.h5."""
    for key in node:
        if key not in _KEYS:
            raise unknown("key of store", str(key), _KEYS)
    fields, every = node["fields"], node["every"]
    if not isinstance(fields, list | None):
        raise PdefitError(f"store.fields expects a list of names, or null for all, but got '{fields}'")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise PdefitError(f"store.every expects a whole number >= 1, but got {every}")
    if node["dtype"] not in ("float32", "float64"):
        raise PdefitError(f"store.dtype expects float32 or float64, but got '{node['dtype']}'")
    size_in_bytes(node["budget"], "store.budget")
    return Store(None if fields is None else tuple(map(str, fields)), every, node["dtype"], node["budget"])
