"""Import hook that `./run` installs in its environment: a folder called `pdefit` beside a script is not the package.

A clone has no `__init__.py` at its top. Python takes a clone called `pdefit` for a namespace package, and stops looking
for the installed one. With this hook any regular package comes before it. No other import changes.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder


class RegularFirst:
    """Finder that is called before those of Python, and acts on the name `pdefit` alone."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The installed package, where Python would take a folder for it; None leaves the search to Python."""
        if name != "pdefit":
            return None
        found = PathFinder.find_spec(name)
        if found is None or found.origin is not None:
            return None
        others = [f for f in sys.meta_path if f not in (cls, PathFinder)]
        return next((s for f in others if (s := f.find_spec(name, None)) and s.origin), None)


sys.meta_path.insert(0, RegularFirst)  # pyright: ignore[reportArgumentType]
