"""pdefit infers parameters, hidden fields and initial states of differential equations from incomplete, noisy data.

Importing pdefit changes nothing in JAX and loads nothing else: a name is loaded from its file when it is first used. Misfits
are sums in float64 whatever the precision of a run, so a script begins with `jax.config.update("jax_enable_x64", True)`.
"""

import functools
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pdefit._public import *  # noqa: F403
    from pdefit.cli.python.experiments import Experiment as Experiment
    from pdefit.cli.python.experiments import load_experiment as load_experiment
    from pdefit.cli.python.runs import Run as Run
    from pdefit.cli.python.runs import load_run as load_run
    from pdefit.data.readers.observations import read_observations as read_observations

# names that need libraries for files and configurations: each is loaded from its file when it is first used
_LATE = {
    "Experiment": "pdefit.cli.python.experiments",
    "Run": "pdefit.cli.python.runs",
    "load_experiment": "pdefit.cli.python.experiments",
    "load_run": "pdefit.cli.python.runs",
    "read_observations": "pdefit.data.readers.observations",
}

__version__ = "0.2.0"


@functools.cache
def _places() -> dict[str, str]:
    """Module of every public name.

    The list of `_public.py` is read as text, since an import would load all modules that it names.
    """
    listed = Path(__file__).with_name("_public.py").read_text(encoding="utf-8")
    return {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", listed, re.MULTILINE)} | _LATE


def __getattr__(name: str) -> object:
    if (module := _places().get(name)) == "pdefit":
        return importlib.import_module(f"pdefit.{name}")
    if module is not None:
        return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'pdefit' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(_places())
