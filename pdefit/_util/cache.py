"""The folder of what can be made again."""

import os
from pathlib import Path


def cache_folder(part: str) -> Path:
    """$XDG_CACHE_HOME/pdefit/PART, by default in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdefit" / part
