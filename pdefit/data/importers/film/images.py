"""Images of a film, as one file holds them."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError, first_line

# larger images do not fit into one chunk of an HDF5 file
_MOST_PIXELS = 2**28
# more are those of a damaged header, and their times alone fill the memory
_MOST_FRAMES = 2**28


@dataclasses.dataclass
class Images:
    """Images of one shape that are read one at a time.

    **Arguments:**

    - `shape`: number of images, rows and columns, and of colours where there are several.
    - `dtype`: type of their values.
    - `read`: function from increasing numbers of images to those images, row 0 at the top.
    - `pixel`: width and height of a pixel in m; None where the file does not state them.
    - `frame`: time between images in s; None where the file does not state it.
    - `files`: files that hold the images.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[Iterable[int]], Iterator[np.ndarray]]
    pixel: tuple[float, float] | None = None
    frame: float | None = None
    files: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.dtype, good = np.dtype(self.dtype), len(self.shape) == 3 or (len(self.shape) == 4 and self.shape[3] <= 4)
        if not good or self.dtype.kind not in "buif" or not 0 < np.prod(self.shape[1:], dtype=float) <= _MOST_PIXELS:
            raise PdefitError(
                f"grey or colour images of up to {_MOST_PIXELS} pixels are expected, but it holds {self.dtype} of shape "
                f"{self.shape}; store them as (time, rows, columns)"
            )
        refuse_number(self.shape[0])


def refuse_number(count: int) -> None:
    """Refuse a number of frames that no film has."""
    if count > _MOST_FRAMES:
        raise PdefitError(f"it declares {count} frames, where at most {_MOST_FRAMES} are expected; cut it into parts")


@contextlib.contextmanager
def reading(file: Path) -> Iterator[None]:
    """Errors of any library about a damaged file, told in one sentence."""
    try:
        yield
    except PdefitError as error:
        raise PdefitError(f"'{file.name}': {error}") from None
    # damaged bytes may raise any exception
    except Exception as error:
        raise PdefitError(
            f"'{file.name}' cannot be read as images ({first_line(error)}); copy it again, or store it as TIFF"
        ) from error
