"""pdefit infers parameters, hidden fields and initial states of differential equations from incomplete, noisy data.

Importing pdefit changes nothing in JAX and loads nothing else: a name is loaded when it is first used. Misfits are sums in
float64 whatever the precision of a run, so a script begins with `jax.config.update("jax_enable_x64", True)`.
"""

import importlib
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


def __getattr__(name: str) -> object:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    if not name.startswith("_"):
        public = importlib.import_module("pdefit._public")
        if hasattr(public, name):
            return getattr(public, name)
    raise AttributeError(f"module 'pdefit' has no attribute '{name}'")


def __dir__() -> list[str]:
    public = importlib.import_module("pdefit._public")
    return sorted([*(name for name in vars(public) if not name.startswith("_")), *_LATE])
