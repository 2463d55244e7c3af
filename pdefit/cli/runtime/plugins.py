"""Plugins: packages that bring systems, found by entry points, and in the folder `plugins` of a checkout."""

import importlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from pdefit._util.errors import PdefitError

GROUP = "pdefit.plugins"
_ROOT = Path(__file__).parents[3]


def plugins() -> dict[str, ModuleType]:
    """Every plugin by the name of its package."""
    found: dict[str, ModuleType] = {}
    for name in dict.fromkeys((*_installed(), *_beside())):
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise PdefitError(f"The plugin '{name}' cannot be imported ({error}); reinstall or remove it") from None
        if not isinstance(getattr(module, "SYSTEMS", None), dict):
            raise PdefitError(f"The plugin '{name}' has no SYSTEMS, a mapping from names to system classes")
        found[module.__name__] = module
    return found


def _installed() -> list[str]:
    return [entry.value for entry in importlib.metadata.entry_points(group=GROUP)]


def _beside() -> list[str]:
    """Packages `plugins/pdefit_*` of the checkout that this file is in, if it is in one; they need no installation."""
    folder = _ROOT / "plugins"
    if not (_ROOT / "pyproject.toml").is_file():
        return []
    names = sorted(file.parent.name for file in folder.glob("pdefit_*/__init__.py"))
    if names and str(folder) not in sys.path:
        sys.path.append(str(folder))
    return names


def systems() -> dict[str, type]:
    """Every system of every plugin by its configuration name, e.g. `reaction/fisher_kpp`."""
    return {name: cls for module in plugins().values() for name, cls in module.SYSTEMS.items()}


def folders() -> list[tuple[str, Path]]:
    """The folder of each plugin's package, found without importing it: its equations take JAX, which takes seconds."""
    found: dict[str, Path] = {}
    for name in dict.fromkeys((*_installed(), *_beside())):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise PdefitError(f"The plugin '{name}' cannot be found; reinstall or remove it")
        found[name] = Path(spec.origin).parent
    return [*found.items()]


def configurations() -> list[tuple[str, Path]]:
    """The configuration folder of each plugin."""
    return [(name, folder / "conf") for name, folder in folders()]


class PluginConfigurations(SearchPathPlugin):
    """Adds the plugins' `conf` folders to Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for name, folder in configurations():
            if folder.is_dir():
                search_path.append(provider=name, path=f"file://{folder}")


def register() -> None:
    """Tell Hydra; to be called before it composes a configuration."""
    Plugins.instance().register(PluginConfigurations)
