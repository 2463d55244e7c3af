"""The certificates of a fit: before its first iteration, and at its estimate."""

import logging
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pdefit.app.certify_command import certified
from pdefit.app.experiment import Experiment
from pdefit.errors import PdefitError
from pdefit.files.atomic import read_json, write_json
from pdefit.inverse import fit as fitting
from pdefit.inverse.certificate import Certificate

log = logging.getLogger("pdefit")


class Certificates:
    """certificate.json, and what a failure means for the run (`certificate: stop | warn`)."""

    def __init__(self, exp: Experiment, cfg: dict[str, Any], directory: Path):
        if cfg["certificate"] not in ("stop", "warn"):
            raise PdefitError(f"certificate expects stop or warn, but got '{cfg['certificate']}'")
        self._exp, self._cfg, self._path = exp, cfg, directory / "certificate.json"
        self._failed = ""

    def start(self, console: Console) -> None:
        """Certify what the first stage minimises, at its guess; a failure stops the run before it has cost anything."""
        functional = fitting.first_functional(self._exp.functional, self._exp.stages)
        found = certified(functional, functional.theta0, self._exp, self._cfg)
        write_json(self._path, {"start": found.as_dict()})
        self._judge(found, "at the guess", console)
        self.demand()

    def end(self, found: fitting.Fit, console: Console) -> dict[str, Any]:
        """Certify the last functional at the estimate; `demand` complains later, when all results are written."""
        certificate = certified(found.functional, found.theta, self._exp, self._cfg)
        recorded = read_json(self._path) if self._path.is_file() else {}
        write_json(self._path, {**recorded, "end": certificate.as_dict()})
        self._judge(certificate, "at the estimate", console)
        return {"passed": certificate.passed, "scope": certificate.scope, "reason": certificate.reason}

    def demand(self) -> None:
        """Raise if a certificate failed and the run is to stop for it."""
        if self._failed and self._cfg["certificate"] == "stop":
            raise PdefitError(f"{self._failed} (certificate=warn goes on all the same)")

    def _judge(self, found: Certificate, where: str, console: Console) -> None:
        scope = found.scope
        part = "" if scope["observations"] == scope["of"] else f", on {scope['observations']} of {scope['of']} times"
        if found.passed:
            worst = max((c.error for c in found.checks if "differences" in c.name), default=0.0)
            message = f"gradient certified {where}: differences agree to {worst:.0e}{part} ({found.seconds:.1f} s)"
            log.info(message)
            console.print(message)
            return
        self._failed = f"The gradient fails its certificate {where}: {found.reason}"
        log.warning(self._failed)
        if self._cfg["certificate"] == "warn":
            console.print(f"[yellow]{escape(self._failed)}[/]")
