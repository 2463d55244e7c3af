"""Plugins as modules with systems, and their configurations.

A file of equations named on the command line counts as one, too.
"""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from pdefit._util.errors import PdefitError
from pdefit._util.plugins import packages, plugin_of
from pdefit.cli.runtime import equations


def plugins() -> dict[str, ModuleType]:
    """All plugins by the names of their packages."""
    found: dict[str, ModuleType] = {}
    for name in packages():
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
    return "" if package == equations.MODULE else f"{plugin_of(package)}/"


def systems() -> dict[str, type]:
    """All systems of all plugins by their names in configurations, `PLUGIN/SYSTEM`."""
    return {name: cls for module in plugins().values() for name, cls in module.SYSTEMS.items()}


def configurations() -> list[tuple[str, Path]]:
    """Folders of configurations of all plugins."""
    return [(name, folder / "conf") for name, folder in packages().items()]


def proposal(data: str) -> dict[str, Any]:
    """Lines that the first plugin with `conf/proposal/DATA.yaml` proposes for such data; empty without one.

    **Arguments:**

    - `data`: `vectors` (velocities in a plane with units) or `angles` (components at angles on a sphere).
    """
    files = (folder / "proposal" / f"{data}.yaml" for _, folder in configurations())
    return next((yaml.safe_load(file.read_text(encoding="utf-8")) for file in files if file.is_file()), {})


class PluginConfigurations(SearchPathPlugin):
    """Hydra plugin that adds the `conf` folders of pdefit's plugins to the search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for name, folder in configurations():
            if folder.is_dir():
                search_path.append(provider=name, path=f"file://{folder}")


def register() -> None:
    """Register the folders of plugins with Hydra, before it composes a configuration."""
    Plugins.instance().register(PluginConfigurations)
