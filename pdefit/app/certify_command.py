"""pdefit certify: the evidence for a gradient, on an experiment's guess or on a finished run's estimate."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit.app.experiment import Experiment, experiment
from pdefit.app.recorded_run import open_run
from pdefit.errors import PdefitError
from pdefit.files.atomic import read_json, write_json
from pdefit.inverse import fit as fitting
from pdefit.inverse.certificate import Certificate, certify
from pdefit.inverse.functional import Functional
from pdefit.inverse.run_state import RunState


def run_certify(cfg: dict[str, Any], directory: Path, name: str, console: Console) -> None:
    """Certify an experiment where its fit would start."""
    exp = experiment(cfg)
    start = fitting.first_functional(exp.functional, exp.stages)
    found = certified(start, start.theta0, exp, cfg)
    write_json(directory / "certificate.json", {"start": found.as_dict()})
    _show(found, console)
    console.print(f"written to {escape(str(directory / 'certificate.json'))}")
    _demand(found)


def certify_run(arguments: list[str], console: Console) -> None:
    """Certify a run again at its estimate, if its equations and data are still those it was certified with."""
    run = open_run(arguments, "certify")
    recorded = read_json(run.directory / "certificate.json")
    before = _hashes(recorded, run.directory)
    exp = experiment(run.plain)
    functional, theta = exp.functional, exp.functional.theta0
    if run.saved is not None:
        state = RunState(run.saved.numbers, run.saved.arrays)
        functional, theta = fitting.restored(exp.functional, exp.stages, state)
    found = certified(functional, theta, exp, run.plain)
    same = {part: before.get(part) == value for part, value in found.hashes.items()}
    write_json(run.directory / "certificate_again.json", {"end": found.as_dict(), "same": same})
    _show(found, console)
    if not same["flags"]:
        console.print("[yellow]versions, flags or device differ from the run's: its round-off need not be the same[/]")
    changed = [part for part in ("equations", "data") if not same[part]]
    # other versions may trace the same equations to another program
    if changed and same["flags"]:
        raise PdefitError(f"The {' and '.join(changed)} are not those that '{run.directory}' was certified with")
    if changed:
        console.print(f"[yellow]the hash of its {' and '.join(changed)} differs too[/]")
    _demand(found)


def _hashes(recorded: dict[str, Any], directory: Path) -> dict[str, Any]:
    """What a certificate says it was made of."""
    certificate = recorded.get("end") or recorded.get("start")
    hashes = certificate.get("hashes") if isinstance(certificate, dict) else None
    if not isinstance(hashes, dict):
        raise PdefitError(f"'{directory / 'certificate.json'}' is not what pdefit wrote; put it back from a copy")
    return hashes


def certified(functional: Functional, theta: Array, exp: Experiment, cfg: dict[str, Any]) -> Certificate:
    """The certificate of a functional within the cost that this experiment's fit allows."""
    return certify(
        functional,
        jnp.asarray(theta),
        key=jax.random.key(cfg["seed"]),
        fit_cost=fit_cost(exp, cfg),
        tangents=exp.stages[-1].optimizer.tangents,
    )


def fit_cost(exp: Experiment, cfg: dict[str, Any]) -> float:
    """Forward solves that a fit may take, if it uses up its iterations."""
    p = exp.functional.controls.size
    each = [stage.max_iterations * (1 + p / 2 if stage.optimizer.tangents else 5) for stage in exp.stages]
    most = sum(stage.max_iterations for stage in exp.stages)
    bound = most if cfg["max_iterations"] is None else min(most, cfg["max_iterations"])
    return sum(each) * bound / most


def _show(found: Certificate, console: Console) -> None:
    table = Table("", "check", "error", "limit", box=None, header_style="bold")
    for check in found.checks:
        mark = "[green]ok[/]" if check.passed else "[red]FAILED[/]"
        table.add_row(mark, escape(check.name), f"{check.error:.1e}", f"{check.limit:.1e}")
    console.print(table)
    scope = found.scope
    console.print(f"on {scope['observations']} of {scope['of']} observation times, in {found.seconds:.1f} s")


def _demand(found: Certificate) -> None:
    if not found.passed:
        raise PdefitError(f"The gradient fails its certificate: {found.reason}")
