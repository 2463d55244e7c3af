"""Five mistakes of users, and the message with which pdefit catches each.

    ./run python scripts/failures.py [NAME ...]

Prints the command of each mistake and the message. The exit code is 1 if a mistake goes unnoticed, or if something
right is refused. Takes about two minutes on two cores.
"""

import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_TISSUE = (
    "experiment=cardiac/bocf_parameters system.grid.shape=[32,32] system.grid.extent=[3.2,3.2] times.forecast=null "
    "initial.rounds=2 lyapunov=false twin=self solver=euler"
)
_COARSE = "experiment=reaction/fisher_front system.grid.shape=[40] noise=2e-4 render=false"


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake and what must happen.

    **Arguments:**

    - `what`: the mistake in words.
    - `command`: arguments of pdefit.
    - `said`: regular expression that its output must match.
    - `stops`: whether pdefit must end with an error.
    """

    what: str
    command: str
    said: str
    stops: bool


MISTAKES = {
    "backsolve": Mistake(
        "diffusion solved backward in time, with one backup",
        "certify experiment=reaction/fisher_front adjoint=backsolve adjoint.backups=1 stages=lbfgs",
        r"The gradient fails its certificate: .*gradient against tangent.*the adjoint is wrong",
        stops=True,
    ),
    "switch": Mistake(
        "thresholds that jump, differentiated",
        f"certify {_TISSUE} system.is_smooth=false",
        r"The gradient fails its certificate: .*errors jump from step to step.*a hard switch",
        stops=True,
    ),
    "width": Mistake(
        "one width for all smooth switches",
        "simulate experiment=cardiac/cable system.is_smooth=true +system.sharpness=[50,50,50,50]",
        r"sharpness of 50 leaks: .*theta_v_minus.*35% on",
        stops=True,
    ),
    "step": Mistake(
        "a step that the forward run survives, and the linearised equations do not",
        "certify experiment=cardiac/bocf_parameters system=cardiac/bocf_epi system.grid.shape=[32,32] "
        "system.grid.extent=[0.8,0.8] initial=system times.forecast=null lyapunov=false twin=self solver=euler dt=0.13",
        r"The step dt = 0.13 ms is beyond the stability limit [\d.]+ ms of BOCF with Euler",
        stops=True,
    ),
    "crime": Mistake(
        "a grid too coarse for the front",
        f"fit {_COARSE}",
        r"converged but the model misses structure: residuals are larger than sigma \(chi2 per value 1\d",
        stops=False,
    ),
}
# compared with the last one: data made on the model's own grid hide the same mistake
CRIME = Mistake(
    "the same, of data made on that grid",
    f"fit {_COARSE} twin=self",
    r"fitted to the noise: chi2.*half the cell width would move r by .*the discretisation decides",
    stops=False,
)


def caught(mistake: Mistake, folder: Path) -> bool:
    """Run a command and print its message; returns whether that was the expected one."""
    begin = time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).parent / "pdefit"), *mistake.command.split()],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "COLUMNS": "2000"},
    )  # fmt: skip
    lines = [line for text in (done.stdout, done.stderr) for line in text.splitlines() if line.strip()]
    found = next((line for line in lines if re.search(mistake.said, line)), None)
    is_right = found is not None and (done.returncode != 0) == mistake.stops
    print(f"{'caught' if is_right else 'SILENT'}  {mistake.what} ({time.perf_counter() - begin:.0f} s)")
    print(f"        pdefit {mistake.command}\n        {found or ' / '.join(lines[-3:])}\n", flush=True)
    return is_right


def main(names: list[str]) -> int:
    if unknown := set(names) - set(MISTAKES):
        sys.exit(f"no such mistake: {', '.join(sorted(unknown))}; there are: {', '.join(MISTAKES)}")
    chosen = [MISTAKES[name] for name in names or MISTAKES]
    if MISTAKES["crime"] in chosen:
        chosen.append(CRIME)
    with tempfile.TemporaryDirectory() as scratch:
        return int(not all([caught(mistake, Path(scratch)) for mistake in chosen]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
