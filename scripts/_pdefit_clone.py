"""A finder that `./run` puts into its environment: a folder called `pdefit` beside a script is not the package.

A clone has no `__init__.py` at its top, so that Python takes a clone called `pdefit` for a namespace package, and looks for
the installed one no further. Here any regular package comes before it. Nothing else changes.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder


class RegularFirst:
    """Asked before Python's own finders, about `pdefit` alone."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The installed package, where Python would take a folder for it."""
        if name != "pdefit":
            return None
        found = PathFinder.find_spec(name)
        if found is None or found.origin is not None:
            return None
        others = [f for f in sys.meta_path if f not in (cls, PathFinder)]
        return next((s for f in others if (s := f.find_spec(name, None)) and s.origin), None)


sys.meta_path.insert(0, RegularFirst)  # pyright: ignore[reportArgumentType]
