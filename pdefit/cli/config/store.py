"""The section `store` of a configuration: which fields are written, how often, and how much room they take."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.memory import size_in_bytes
from pdefit.cli.config._types import Count, Expected, Size
from pdefit.systems.capabilities import FieldCoords


@dataclasses.dataclass(frozen=True)
class Store:
    """Content of fields.h5.

    **Arguments:**

    - `fields`: names of the fields to keep; None for all.
    - `every`: n keeps each n-th frame.
    - `dtype`: of the numbers.
    - `budget`: largest size of the file, as "2 GB" or in bytes.
    """

    fields: (
        Annotated[
            tuple[str, ...], Expected("a list of names", lambda x: isinstance(x, list), lambda x: tuple(map(str, x)))
        ]
        | None
    )
    every: Count
    dtype: Literal["float32", "float64"]
    budget: Size

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
