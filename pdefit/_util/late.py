"""Public names that are loaded from their files when they are first used."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path


def places(*files: Path) -> dict[str, str]:
    """Modules of the public names that these files list as `from MODULE import NAME as NAME`.

    The files are read as text, since importing them would load all modules. Type checkers and the documentation read
    them, too.
    """
    lines = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return {name: module for module, name in re.findall(r"^ *from (\S+) import (\w+) as \2$", lines, re.MULTILINE)}


def late_names(package: str, *files: Path) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names these files list.

    **Arguments:**

    - `package`: its name; a name listed as imported from the package itself is a module.
    - `files`: as in `places`.
    """
    found = places(*files)

    def load(name: str) -> object:
        if name not in found:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        if found[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(found[name]), name)

    return load, lambda: sorted(found)
