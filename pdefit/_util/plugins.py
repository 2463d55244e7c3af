"""Plugin packages, found by entry points and in the folder `plugins` of a checkout, and their modules."""

import functools
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from pdefit._util.errors import PdefitError, unknown

_ROOT = Path(__file__).parents[2]


def packages() -> dict[str, Path]:
    """Folders of all plugins by the names of their packages.

    They are found without importing them, since their equations would load JAX, which takes seconds.
    """
    found: dict[str, Path] = {}
    for name in dict.fromkeys((*_installed(), *_beside())):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise PdefitError(f"The plugin '{name}' cannot be found; reinstall or remove it")
        found[name] = Path(spec.origin).parent
    return found


@functools.cache
def _installed() -> list[str]:
    # the metadata of all packages are read once: many members ask for their system hundreds of times
    return [entry.value for entry in importlib.metadata.entry_points(group="pdefit.plugins")]


def _beside() -> list[str]:
    """Packages `plugins/pdefit_*` of the checkout that holds this file, if any; they need no installation."""
    folder = _ROOT / "plugins"
    if not (_ROOT / "pyproject.toml").is_file():
        return []
    names = sorted(file.parent.name for file in folder.glob("pdefit_*/__init__.py"))
    if names and str(folder) not in sys.path:
        sys.path.append(str(folder))
    return names


def plugin_of(package: str) -> str:
    """Name of a plugin, as it precedes `/` in the names of its classes.

    **Arguments:** `package`: the name of its package.
    """
    return package.removeprefix("pdefit_")


def parts(file: str) -> dict[str, tuple[str, Path]]:
    """Module name and path of the file with this name in each plugin that has it, by plugin name.

    **Arguments:** `file`: its name without `.py`.
    """
    found = {package: folder / f"{file}.py" for package, folder in packages().items()}
    return {plugin_of(package): (f"{package}.{file}", path) for package, path in found.items() if path.is_file()}


def part(plugin: str, file: str) -> ModuleType:
    """A module of a plugin, loaded without its package, whose equations would load JAX.

    **Arguments:** `plugin`, `file`: the names of the plugin, and of the file without `.py`.
    """
    found = parts(file)
    if plugin not in found:
        raise unknown(f"plugin with a file {file}.py", plugin, found)
    name, path = found[plugin]
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        # dataclasses look for their module there
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]
