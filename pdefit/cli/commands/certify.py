"""pdefit certify experiment=NAME: the evidence for a gradient where a fit would start."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pdefit.cli.experiment.experiment import experiment
from pdefit.cli.runs.adjoint_scratch import checkpoints_in
from pdefit.cli.runs.certificates import certified_start, demand, show


def run_certify(cfg: dict[str, Any], directory: Path, name: str, console: Console) -> None:
    """Certify an experiment where its fit would start."""
    path = directory / "certificate.json"
    exp = experiment(cfg)
    with checkpoints_in(directory, exp.driver):
        found = certified_start(exp, cfg, path)
    show(found, console)
    console.print(f"written to {escape(str(path))}")
    demand(found)
