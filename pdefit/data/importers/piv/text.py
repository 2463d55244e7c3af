"""Tables of numbers below a header."""

import re
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.memory import too_large

# names that other programs give to components
_NAMES = {f"{word}{c}": n for word in ("v", "vel_", "velocity_", "velocity ") for c, n in zip("xy", "uv", strict=True)}
_NAMES |= {f"velocity {n}": n for n in "uv"}


def header(line: str) -> tuple[dict[str, str | None], str]:
    """Names of columns, in small letters, with their units, such as of `x [px],y [px]`; and what separates them."""
    separator = next((s for s in ";\t," if s in line), r"\s+")
    # a blank before a unit separates no columns
    cells = re.split(separator.replace("+", r"+(?![\s\[(])"), line.strip("\ufeff# \r\n"))
    found = [re.fullmatch(r"(.*?)\s*(?:[\[(](.*)[\])])?", cell.strip(' "')) for cell in cells]
    stated = {cell[1].lower(): cell[2] for cell in found if cell is not None}
    return {name if _NAMES.get(name) in stated else _NAMES.get(name, name): u for name, u in stated.items()}, separator


def holds_vectors(line: str) -> bool:
    """Test for a header with columns x, y, u and v."""
    return {"x", "y", "u", "v"} <= {*header(line)[0]}


def lines(start: bytes) -> list[str]:
    """The first lines of a text, at least one."""
    return start.decode(errors="replace").splitlines() or [""]


def numbers(path: Path, names: list[str], separator: str, skip: int) -> dict[str, np.ndarray]:
    """Columns of a table, each (n,); empty cells are NaN.

    **Arguments:**

    - `path`: the file.
    - `names`: of its columns, in their order.
    - `separator`: of the cells.
    - `skip`: lines above the numbers.
    """
    import pandas

    # a number takes two characters or more in the file
    if size := too_large((path.stat().st_size, 4)):
        raise PdefitError(f"'{path.name}' takes {size} of memory; cut it into one file a frame")
    try:
        options = {"header": None, "dtype": float, "skipinitialspace": True, "encoding_errors": "replace"}
        # pandas takes a name such as http:a.csv for an address
        table = pandas.read_csv(path.absolute(), sep=separator, skiprows=skip, comment="#", **options)
    except (ValueError, OverflowError) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise PdefitError(f"'{path.name}' cannot be read as a table of numbers: {reason}; export it again") from None
    if table.shape[1] != len(names):
        raise PdefitError(
            f"'{path.name}' has rows of {table.shape[1]} numbers, but its header names {len(names)} columns "
            f"({', '.join(names)}); export it again"
        )
    return {name: table[column].to_numpy(float) for column, name in enumerate(names)}
