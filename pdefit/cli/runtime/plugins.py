"""Plugins: packages with systems, found by entry points and in the folder `plugins` of a checkout.

A file of equations that the command line names counts as one, too.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from pdefit._util.errors import PdefitError
from pdefit.cli.runtime import equations

GROUP = "pdefit.plugins"
_ROOT = Path(__file__).parents[3]


def plugins() -> dict[str, ModuleType]:
    """All plugins by the names of their packages."""
    found: dict[str, ModuleType] = {}
    for name in _names():
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise PdefitError(f"The plugin '{name}' cannot be imported ({error}); reinstall or remove it") from None
        if not isinstance(getattr(module, "SYSTEMS", None), dict):
            raise PdefitError(f"The plugin '{name}' has no SYSTEMS, a mapping from names to system classes")
        found[module.__name__] = module
    if (file := equations.named()) is not None:
        found[equations.MODULE] = file.module
    return found


def prefix(package: str) -> str:
    """Prefix of the names of a plugin's classes in a configuration; empty for a file of equations."""
    return "" if package == equations.MODULE else f"{package.removeprefix('pdefit_')}/"


def _names() -> list[str]:
    """Names of the packages of all plugins, each once."""
    return [*dict.fromkeys((*_installed(), *_beside()))]


@functools.cache
def _installed() -> list[str]:
    # the metadata of all packages are read once: many members ask for their system hundreds of times
    return [entry.value for entry in importlib.metadata.entry_points(group=GROUP)]


def _beside() -> list[str]:
    """Packages `plugins/pdefit_*` of the checkout that holds this file, if any; they need no installation."""
    folder = _ROOT / "plugins"
    if not (_ROOT / "pyproject.toml").is_file():
        return []
    names = sorted(file.parent.name for file in folder.glob("pdefit_*/__init__.py"))
    if names and str(folder) not in sys.path:
        sys.path.append(str(folder))
    return names


def systems() -> dict[str, type]:
    """All systems of all plugins by their names in configurations, `PLUGIN/SYSTEM`."""
    return {name: cls for module in plugins().values() for name, cls in module.SYSTEMS.items()}


def folders() -> list[tuple[str, Path]]:
    """Folders of the packages of all plugins.

    They are found without an import, which would load JAX for the equations and take seconds.
    """
    found: dict[str, Path] = {}
    for name in _names():
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise PdefitError(f"The plugin '{name}' cannot be found; reinstall or remove it")
        found[name] = Path(spec.origin).parent
    return [*found.items()]


def configurations() -> list[tuple[str, Path]]:
    """Folders of configurations of all plugins."""
    return [(name, folder / "conf") for name, folder in folders()]


def proposal(data: str) -> dict[str, Any]:
    """Lines of an experiment that the first plugin with `conf/proposal/DATA.yaml` proposes for such data; else none.

    **Arguments:**

    - `data`: `vectors`, velocities in a plane with units, or `angles`, components at angles on a sphere.
    """
    files = (folder / "proposal" / f"{data}.yaml" for _, folder in configurations())
    return next((yaml.safe_load(file.read_text(encoding="utf-8")) for file in files if file.is_file()), {})


class PluginConfigurations(SearchPathPlugin):
    """Plugin of Hydra that adds the `conf` folders of pdefit's plugins to the search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for name, folder in configurations():
            if folder.is_dir():
                search_path.append(provider=name, path=f"file://{folder}")


def register() -> None:
    """Register the folders of plugins with Hydra, before it composes a configuration."""
    Plugins.instance().register(PluginConfigurations)
