"""pdefit certify: tests of the gradient where an experiment would start, or at the estimate of a run."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pdefit._util.atomic import read_json, write_json
from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.build import build_experiment
from pdefit.cli.results.discretisation_refit import refit_finer
from pdefit.cli.results.pictures_of_runs import boolean
from pdefit.cli.runs.adjoint_scratch import checkpoints_in
from pdefit.cli.runs.certificates import certified, certified_start, demand, show
from pdefit.cli.runs.recorded_run import at_best, open_run, same_problem, warn_of

# key with which a run is fitted again with finer steps and cells
_KEY = "discretisation"


def run_certify(settings: Settings, directory: Path, name: str, console: Console) -> None:
    """Certify the gradient of an experiment where its fit would start.

    **Arguments:**

    - `settings`, `name`: the experiment, and its name for tables and files.
    - `directory`: of the run.
    """
    path = directory / "certificate.json"
    exp = build_experiment(settings)
    with checkpoints_in(directory, exp.driver):
        found = certified_start(exp, settings, path)
    show(found, console)
    console.print(f"written to {escape(str(path))}")
    demand(found)


def run_certify_on_a_run(arguments: list[str], console: Console) -> None:
    """Certify the gradient of a run again, at its estimate.

    Equations and data must still be those that the run was certified with.

    **Arguments:**

    - `arguments`: the directory of the run; with `discretisation=true` it is also fitted again with finer steps and
      cells.
    """
    asked = [a for a in arguments if a.startswith(f"{_KEY}=")]
    refits = any([boolean(a.partition("=")[2], _KEY) for a in asked])
    run = open_run([a for a in arguments if a not in asked], "certify")
    directory, saved = run.files.directory, run.files.saved
    if refits and saved is None:
        raise PdefitError(f"'{directory}' has no estimate yet, so nothing moves; pdefit resume it first")
    before = _hashes(directory)
    exp = build_experiment(run.settings)
    functional, theta = (exp.functional, exp.functional.theta0) if saved is None else at_best(exp, saved)
    with checkpoints_in(directory, exp.driver):
        found = certified(functional, theta, exp, run.settings, exp.stages[-1])
    same = {part: before.get(part) == value for part, value in found.hashes.items()}
    write_json(directory / "certificate_again.json", {"end": found.as_dict(), "same": same})
    show(found, console)
    warn_of(same_problem(before, found.hashes, directory), console)
    if refits:
        with checkpoints_in(directory, exp.driver):
            write_json(directory / "discretisation.json", refit_finer(exp, functional, theta, console))
    demand(found)


def _hashes(directory: Path) -> dict[str, Any]:
    """Hashes of equations and data that the certificate of a run holds."""
    recorded = read_json(directory / "certificate.json")
    certificate = recorded.get("end") or recorded.get("start")
    hashes = certificate.get("hashes") if isinstance(certificate, dict) else None
    if not isinstance(hashes, dict):
        raise PdefitError(f"'{directory / 'certificate.json'}' is not what pdefit wrote; put it back from a copy")
    return hashes
