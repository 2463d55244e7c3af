"""Certificates of a fit: before its first iteration, and at its estimate."""

import logging
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import read_json, write_json
from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.runtime.messages import say
from pdefit.inverse.certify.certificate import Certificate, certify
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.objective.abstract import AbstractObjective

log = logging.getLogger("pdefit")


class Certificates:
    """Writer of certificate.json, which also stops a run whose gradient is wrong.

    `certificate: stop` ends the run before the fit, and `warn` continues. With `end` only the estimate is tested.

    **Arguments:**

    - `exp`, `settings`: the experiment.
    - `directory`: of the run.
    """

    def __init__(self, exp: Experiment, settings: Settings, directory: Path):
        self._exp, self._settings, self._path = exp, settings, directory / "certificate.json"
        self._failed = ""

    def start(self, console: Console) -> None:
        """Certify the objective of the first stage at its guess; a failure stops the run before the fit."""
        if self._settings.certificate == "end":
            return
        self._judge(certified_start(self._exp, self._settings, self._path), "at the guess", console)
        self.demand()

    def end(self, found: fitting.Fit, console: Console) -> dict[str, Any]:
        """Certify the objective of the last stage at the estimate.

        A failure is reported by `demand`, when all results are written.
        """
        certificate = certified(found.functional, found.theta, self._exp, self._settings, self._exp.stages[-1])
        recorded = read_json(self._path) if self._path.is_file() else {}
        write_json(self._path, {**recorded, "end": certificate.as_dict()})
        self._judge(certificate, "at the estimate", console)
        return {"passed": certificate.passed, "scope": certificate.scope, "reason": certificate.reason}

    def demand(self) -> None:
        """Raise `PdefitError` if a certificate failed, unless failures are only warned of."""
        if self._failed and self._settings.certificate != "warn":
            raise PdefitError(f"{self._failed} (certificate=warn goes on all the same)")

    def _judge(self, found: Certificate, where: str, console: Console) -> None:
        if found.passed:
            say(console, f"{_praise(found, where)} ({found.seconds:.1f} s with compilation)")
            return
        self._failed = f"The gradient fails its certificate {where}: {found.reason}"
        log.warning(self._failed)
        if self._settings.certificate == "warn":
            console.print(f"[yellow]{escape(self._failed)}[/]")


def _praise(found: Certificate, where: str) -> str:
    """Message about a certificate that passed, in one line."""
    against = [c for c in found.checks if "differences" in c.name and "finding" in c.detail]
    worst = max((c.error for c in against if not c.note), default=0.0)
    noted = {c.name.split(":")[0]: c.note for c in against if c.note}
    scope = found.scope
    part = (
        ""
        if scope["observations"] == scope["of"]
        else "; controls were tested together, all with the same weight"
        if scope.get("together")
        else f"; each control by itself was tested on {scope['observations']} of {scope['of']} times"
    )
    notes = "".join(f"; {path}: {note}" for path, note in noted.items())
    return f"gradient certified {where}: differences agree to {worst:.0e}{part}{notes}"


def certified_start(exp: Experiment, settings: Settings, path: Path) -> Certificate:
    """Certificate of the objective of the first stage at its guess; written to `path`."""
    functional = fitting.first_functional(exp.functional, exp.stages)
    found = certified(functional, functional.theta0, exp, settings, exp.stages[0])
    write_json(path, {"start": found.as_dict()})
    return found


def certified(
    functional: AbstractObjective, theta: Array, exp: Experiment, settings: Settings, stage: fitting.Stage
) -> Certificate:
    """Certificate of the objective of a stage, within the cost that the fit of this experiment allows.

    **Arguments:**

    - `functional`, `theta` (p,): the objective, and the point in search space.
    - `exp`, `settings`: the experiment.
    - `stage`: whose optimizer determines what is tested.
    """
    return certify(
        functional,
        jnp.asarray(theta),
        key=jax.random.key(settings.seed),
        fit_cost=fit_cost(exp, settings),
        # of this stage only: another one may have fewer unknowns, and an optimizer that is meant for few
        optimizers=[stage.optimizer],
        driver=exp.driver,
    )


def fit_cost(exp: Experiment, settings: Settings) -> float:
    """Cost of a fit in forward runs, if it uses all its iterations."""
    each = [stage.max_iterations * evaluation_cost(exp.functional, stage) for stage in exp.stages]
    most = sum(stage.max_iterations for stage in exp.stages)
    bound = most if settings.max_iterations is None else min(most, settings.max_iterations)
    return sum(each) * bound / most


def evaluation_cost(functional: AbstractObjective, stage: fitting.Stage) -> float:
    """Approximate cost of an evaluation in a stage in forward runs: of all tangents together, or of a gradient."""
    return tangents_cost(functional) if stage.optimizer.tangents else 5.0


def tangents_cost(functional: AbstractObjective) -> float:
    """Approximate cost of all tangents together in forward runs."""
    return 1 + functional.tangents / 2


def show(found: Certificate, console: Console) -> None:
    """Print every check of a certificate."""
    table = Table("", "check", "error", "limit", box=None, header_style="bold")
    for check in found.checks:
        mark = "[green]ok[/]" if check.passed else "[red]FAILED[/]"
        table.add_row(mark, escape(check.name), f"{check.error:.1e}", f"{check.limit:.1e}")
    console.print(table)
    scope = found.scope
    alone = "none by itself" if scope.get("together") else f"every control by itself on {scope['observations']}"
    console.print(
        f"all controls together on all {scope['of']} observation times, {alone}; {found.seconds:.1f} s with compilation"
    )


def demand(found: Certificate) -> None:
    """Raise `PdefitError` if a certificate failed."""
    if not found.passed:
        raise PdefitError(f"The gradient fails its certificate: {found.reason}")
