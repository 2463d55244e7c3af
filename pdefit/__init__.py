"""pdefit infers parameters, hidden fields and initial states of differential equations from incomplete, noisy data.

Importing pdefit changes nothing in JAX and loads nothing else: a name is loaded from its file when it is first used. Misfits
are sums in float64 whatever the precision of a run, so a script begins with `jax.config.update("jax_enable_x64", True)`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pdefit._util.late import late_names

if TYPE_CHECKING:
    from pdefit._public import *  # noqa: F403

    # these need libraries for files and configurations
    from pdefit.cli.python.experiments import Experiment as Experiment
    from pdefit.cli.python.experiments import load_experiment as load_experiment
    from pdefit.cli.python.experiments import load_members as load_members
    from pdefit.cli.python.runs import Run as Run
    from pdefit.cli.python.runs import load_run as load_run
    from pdefit.data.readers.observations import read_observations as read_observations

__version__ = "0.2.0"

__getattr__, __dir__ = late_names(__name__, Path(__file__), Path(__file__).with_name("_public.py"))
