"""Certificates of the gradient: before and after a fit, and for `pdefit certify`."""

import logging
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError
from pdefit.cli.config.command_line import boolean, options_among
from pdefit.cli.config.settings import Job, Settings
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.minimise import checkpoints_in
from pdefit.cli.run.plan import fit_cost
from pdefit.cli.run.recorded import at_best, open_run, same_problem
from pdefit.cli.run.refit_with_half_the_step import refit_finer
from pdefit.cli.runtime.terminal import say, show_table
from pdefit.inverse.certify.certificate import Certificate, NormalEquations, certify
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.summary import CertificateSection

log = logging.getLogger("pdefit")

_FILE = "certificate.json"


class Certificates:
    """Writer of certificate.json; it stops a run whose gradient is wrong.

    `certificate: stop` ends the run before the fit, and `warn` continues. `end` tests only the estimate.

    **Arguments:**

    - `exp`, `job`: the experiment and its run.
    """

    def __init__(self, exp: Experiment, job: Job):
        self._exp, self._job, self._path, self._failed = exp, job, job.directory / _FILE, ""

    def start(self) -> None:
        """Certify the objective of the first stage at its guess; a failure stops the run before the fit."""
        if self._job.settings.certificate == "end":
            # that of a try that ended before its fit
            self._path.unlink(missing_ok=True)
            return
        self._judge(certified_start(self._exp, self._job), "at the guess")
        self.demand()

    def end(self, found: fitting.Fit) -> CertificateSection:
        """Certify the objective of the last stage at the estimate.

        A failure is reported by `demand`, after all results are written.
        """
        settings, stage = self._job.settings, self._exp.stages[-1]
        recorded = RunFiles(self._job.directory).content(_FILE)
        # near a minimum a wrong factor of the gradient goes unseen, unless the guess was tested
        known = found.equations if stage.optimizer.tangents and (recorded.get("start") or {}).get("passed") else None
        equations = None if known is None else known[1]
        certificate = certified(found.functional, found.theta, self._exp, settings, stage, equations)
        write_json(self._path, {**recorded, "end": certificate.record()})
        self._judge(certificate, "at the estimate")
        return CertificateSection(passed=certificate.passed, scope=certificate.scope, reason=certificate.reason)

    def demand(self) -> None:
        """Raise `PdefitError` if a certificate failed, unless the settings ask for warnings only."""
        if self._failed and self._job.settings.certificate != "warn":
            raise PdefitError(f"{self._failed} (certificate=warn goes on all the same)")

    def _judge(self, found: Certificate, where: str) -> None:
        if found.passed:
            say(self._job.console, f"{_praise(found, where)} ({found.seconds:.1f} s with compilation)")
            return
        self._failed = f"The gradient fails its certificate {where}: {found.reason}"
        log.warning(self._failed)
        if self._job.settings.certificate == "warn":
            self._job.console.print(f"[yellow]{escape(self._failed)}[/]")


def _praise(found: Certificate, where: str) -> str:
    """One-line message about a passed certificate."""
    against = [c for c in found.checks if "differences" in c.name and "finding" in c.detail]
    plain = [c.error for c in against if not c.note]
    agree = f": differences agree to {max(plain):.0e}" if plain else ""
    noted: dict[str, list[str]] = {}
    for c in against:
        noted.setdefault(c.note, []).append(c.name.split(":")[0])
    scope = found.scope
    part = (
        ""
        if scope["observations"] == scope["of"]
        else "; controls were tested together, all with the same weight"
        if scope.get("together")
        else f"; each control by itself was tested on {scope['observations']} of {scope['of']} times"
    )
    notes = "".join(f"; {', '.join(paths)}: {note}" for note, paths in noted.items() if note)
    return f"gradient certified {where}{agree}{part}{notes}"


def certified_start(exp: Experiment, job: Job) -> Certificate:
    """Certificate of the first stage's objective at its guess, written to certificate.json."""
    functional = fitting.first_functional(exp.functional, exp.stages)
    found = certified(functional, functional.theta0, exp, job.settings, exp.stages[0])
    write_json(job.directory / _FILE, {"start": found.record()})
    return found


def certified(
    functional: AbstractObjective,
    theta: Array,
    exp: Experiment,
    settings: Settings,
    stage: fitting.Stage,
    equations: NormalEquations | None = None,
) -> Certificate:
    """Certificate of a stage's objective, at a cost limited by the cost of the fit.

    **Arguments:**

    - `functional`, `theta` (p,): the objective, and the point in search space.
    - `exp`, `settings`: the experiment.
    - `stage`: the stage whose optimizer determines the tests.
    - `equations`: as in `certify`.
    """
    return certify(
        functional,
        jnp.asarray(theta),
        key=jax.random.key(settings.seed),
        fit_cost=fit_cost(exp, settings),
        # of this stage only: another one may have fewer unknowns, and an optimizer that is meant for few
        optimizers=[stage.optimizer],
        driver=exp.driver,
        equations=equations,
    )


def show(found: Certificate, console: Console) -> None:
    """Print every check of a certificate."""
    marks = {True: "[green]ok[/]", False: "[red]FAILED[/]"}
    rows = ((marks[c.passed], escape(c.name), f"{c.error:.1e}", f"{c.limit:.1e}") for c in found.checks)
    show_table(console, ("", "check", "error", "limit"), rows)
    scope = found.scope
    alone = "none by itself" if scope.get("together") else f"every control by itself on {scope['observations']}"
    console.print(
        f"all controls together on all {scope['of']} observation times, {alone}; {found.seconds:.1f} s with compilation"
    )


def demand(found: Certificate) -> None:
    """Raise `PdefitError` if a certificate failed."""
    if not found.passed:
        raise PdefitError(f"The gradient fails its certificate: {found.reason}")


# key with which a run is fitted again with finer steps and cells
_KEY = "discretisation"


def run_certify(job: Job) -> None:
    """Certify the gradient of an experiment at the start of its fit."""
    exp = build_experiment(job.settings)
    with checkpoints_in(job.directory, exp.driver):
        found = certified_start(exp, job)
    show(found, job.console)
    job.console.print(f"written to {escape(str(job.directory / _FILE))}")
    demand(found)


def run_certify_on_a_run(arguments: list[str], console: Console) -> None:
    """Certify the gradient of a run again, at its estimate.

    Equations and data must be unchanged since the run was certified.

    **Arguments:**

    - `arguments`: the directory of the run; `discretisation=true` also refits it with finer steps and cells.
    """
    chosen, rest = options_among(arguments, {_KEY: "false"})
    refits, (job, saved) = boolean(chosen[_KEY], _KEY), open_run(rest, "certify", console)
    directory = job.directory
    if refits and saved is None:
        raise PdefitError(f"'{directory}' has no estimate yet, so nothing moves; pdefit resume it first")
    before = _hashes(directory)
    exp = build_experiment(job.settings)
    functional, theta = at_best(exp, saved)
    with checkpoints_in(directory, exp.driver):
        found = certified(functional, theta, exp, job.settings, exp.stages[-1])
    same = {part: before.get(part) == value for part, value in found.hashes.items()}
    write_json(directory / "certificate_again.json", {"end": found.record(), "same": same})
    show(found, console)
    same_problem(before, found.hashes, directory, console)
    if refits:
        with checkpoints_in(directory, exp.driver):
            write_json(directory / "discretisation.json", refit_finer(exp, functional, theta, console))
    demand(found)


def _hashes(directory: Path) -> dict[str, Any]:
    """Hashes of equations and data in the certificate of a run."""
    recorded = RunFiles(directory).content(_FILE)
    hashes = (recorded.get("end") or recorded.get("start") or {}).get("hashes")
    if not hashes:
        raise PdefitError(f"'{directory / 'certificate.json'}' is not what pdefit wrote; put it back from a copy")
    return hashes
