"""Experiments in Python: the objects behind `pdefit fit experiment=NAME`."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import demand_float64
from pdefit.cli.config.catalogue import experiments
from pdefit.cli.config.compose import apart, composed, register_experiment
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.settings import Settings
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.build_members import MemberExperiment, build_members
from pdefit.cli.run.experiment import Experiment as Experiment
from pdefit.cli.runtime.equations import using


def load_experiment(
    name: str | os.PathLike[str], overrides: Sequence[str] = (), equations: str | os.PathLike[str] | None = None
) -> Experiment:
    """An experiment with its observations, built like `pdefit fit experiment=NAME key=value ...`.

    No run directory is made, and the state of Hydra in this process is unchanged. Relative paths of data files start
    from the working directory.

    **Arguments:**

    - `name`: the name of an installed experiment (`pdefit list experiments`), or the path of its file,
      `my_equation.yaml`.
    - `overrides`: changed settings as on the command line, such as `["seed=3", "controls.D.guess=2.0"]`.

    - `equations`: the path of a file of equations, `my_equation.py`, which is executed; None for installed equations.

    **Errors:** PdefitError for a wrong name or value, for an experiment with `members` (`load_members`), and if JAX has
    no float64.
    """
    with _settings(name, overrides, equations) as settings:
        if settings.members:
            raise PdefitError(
                f"The experiment '{os.fspath(name)}' has members, each with a fit of its own; write pdefit.load_members(...)"
            )
        return build_experiment(settings)


def load_members(
    name: str | os.PathLike[str], overrides: Sequence[str] = (), equations: str | os.PathLike[str] | None = None
) -> MemberExperiment:
    """Many fits of one kind with their observations, built like `pdefit fit experiment=NAME members=...`.

    **Arguments:**

    - `name`, `overrides`, `equations`: as in `load_experiment`.

    **Errors:** PdefitError as in `load_experiment`, or if the experiment has no members.
    """
    with _settings(name, overrides, equations) as settings:
        if not settings.members:
            raise PdefitError(f"The experiment '{os.fspath(name)}' has no members; write pdefit.load_experiment(...)")
        return build_members(settings)


@contextmanager
def _settings(
    name: str | os.PathLike[str], overrides: Sequence[str], equations: str | os.PathLike[str] | None
) -> Iterator[Settings]:
    """Context manager with the settings of an experiment, inside which its equations are registered."""
    demand_float64()
    name = os.fspath(name)
    if name.endswith(".py"):
        raise PdefitError(
            f"load_experiment expects an experiment, but got the file of equations '{name}'; write "
            f"load_experiment('EXPERIMENT.yaml', equations={name!r})"
        )
    if isinstance(overrides, str):
        raise PdefitError(f"overrides expects a list of settings, but got one text; write [{overrides!r}]")
    with apart(), using(None if equations is None else Path(equations)):
        if name.endswith((".yaml", ".yml")):
            name = register_experiment(Path(name))
        elif name not in (known := experiments()):
            raise unknown("experiment", name, known)
        yield read_settings(composed([f"experiment={name}", *map(str, overrides)]))
