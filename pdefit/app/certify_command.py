"""pdefit certify experiment=NAME: the evidence for a gradient where a fit would start."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pdefit.app.certificates import certified, demand, show
from pdefit.app.experiment import experiment
from pdefit.files.atomic import write_json
from pdefit.inverse import fit as fitting


def run_certify(cfg: dict[str, Any], directory: Path, name: str, console: Console) -> None:
    """Certify an experiment where its fit would start."""
    exp = experiment(cfg)
    start = fitting.first_functional(exp.functional, exp.stages)
    found = certified(start, start.theta0, exp, cfg)
    write_json(directory / "certificate.json", {"start": found.as_dict()})
    show(found, console)
    console.print(f"written to {escape(str(directory / 'certificate.json'))}")
    demand(found)
