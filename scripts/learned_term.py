"""The figure of docs/how-to/discover.md: a growth that a network learned, with its band, over the densities that were seen.

    ./run python scripts/learned_term.py [RUN]

Without a run the experiment reaction/fisher_kpp_discovery is fitted first, which takes a minute. The band is two standard
errors from the matrix of the fit, its prior included. Below stands how often each density was observed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np

import pdefit

jax.config.update("jax_enable_x64", True)
ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "how-to" / "learned_term.png"


def fitted(folder: str) -> Path:
    """Run directory of a fit of reaction/fisher_kpp_discovery, made in a folder."""
    command = [
        "pdefit",
        "fit",
        "experiment=reaction/fisher_kpp_discovery",
        f"hydra.run.dir={folder}/run",
        "render=false",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return Path(folder) / "run"


def main() -> None:
    functional = pdefit.load_experiment("reaction/fisher_kpp_discovery").functional
    with tempfile.TemporaryDirectory() as folder:
        run = pdefit.load_run(Path(sys.argv[1]) if len(sys.argv) > 1 else fitted(folder))
        theta = functional.controls.theta(run.problem)
    matrix = np.asarray(eqx.filter_jit(lambda f, x: f.normal_equations(x)[2])(functional, theta))
    # after the first frame, which does not tell of any rate
    seen = np.asarray(functional.observations.values["u"])[1:].ravel()
    u = np.linspace(-0.2, 1.4, 200)
    found = pdefit.band(functional, theta, "growth", (u,), np.linalg.inv(matrix))
    inside = (u >= seen.min()) & (u <= seen.max())
    off = np.abs(found.value - u * (1 - u))
    print(
        f"seen from {seen.min():.2f} to {seen.max():.2f}; there off by at most {off[inside].max():.3f}, standard error at most "
        f"{found.error[inside].max():.3f}; at {u[-1]:.1f} off by {off[-1]:.2f}, standard error {found.error[-1]:.2f}"
    )
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(6.0, 4.2), sharex=True, height_ratios=(4, 1), layout="constrained"
    )
    above.fill_between(u, found.value - 2 * found.error, found.value + 2 * found.error, alpha=0.3, lw=0)
    above.plot(u, found.value, label="learned, with two standard errors")
    above.plot(u, u * (1 - u), "k--", lw=1, label="true")
    above.set(ylabel="growth f(u)", ylim=(-0.9, 0.6))
    above.legend(frameon=False, loc="lower center")
    below.hist(seen, bins=40, color="0.6")
    below.set(xlabel="density u", yticks=[], ylabel="seen")
    figure.savefig(PICTURE, dpi=100)
    print(f"{PICTURE} was written")


if __name__ == "__main__":
    main()
