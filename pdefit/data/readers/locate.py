"""Search for data files: in the user's directory, then in $PDEFIT_DATA, then among the data shipped with pdefit."""

import os
from importlib import resources
from pathlib import Path

from pdefit._util.errors import PdefitError


def locate(name: str, base: Path | None = None) -> Path:
    """The path of a data file, or an error that lists the searched places.

    **Arguments:**

    - `name`: the relative or absolute path of the file.
    - `base`: the first directory to search; by default the working directory.
    """
    places = [base or Path.cwd()]
    if configured := os.environ.get("PDEFIT_DATA"):
        places.append(Path(configured))
    places.append(Path(str(resources.files("pdefit_data"))))
    candidates = [Path(name)] if Path(name).is_absolute() else [place / name for place in places]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
        if candidate.is_dir():
            raise PdefitError(f"'{candidate}' is a folder, where a data file is expected; name a file in it")
    looked = ", ".join(str(c) for c in candidates)
    raise PdefitError(
        f"The data file '{name}' does not exist (looked at {looked}); correct the path or set PDEFIT_DATA"
    )
