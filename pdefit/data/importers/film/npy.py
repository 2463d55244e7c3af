"""Films in arrays of NumPy."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from pdefit.data.importers.film.images import Images, reading


def npy(file: Path, options: Mapping[str, str]) -> Images:
    """Images in an array (time, rows, columns), which stays on the disk.

    **Arguments:**

    - `file`: a file of `numpy.save`.
    - `options`: not used.
    """

    def stack() -> np.ndarray:
        return np.load(file, mmap_mode="r", allow_pickle=False)

    def read(wanted: Iterable[int]) -> Iterator[np.ndarray]:
        with reading(file):
            for k in wanted:
                # mapped anew for each image, so that what was read leaves the memory
                yield np.array(stack()[k])

    return Images(stack().shape, stack().dtype, read)
