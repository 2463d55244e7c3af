"""The figure of docs/how-to/discover.md: the growth and the diffusivity of cells as functions of their density, with bands.

    ./run python scripts/learned_term.py [RUN]

Without a run the experiment reaction/scratch_assay_discovery is fitted first, which takes some minutes. Bands are two standard
errors from the matrix of the fit, its priors included, with the stated counting error. Below stands how often a density was
counted.
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
from pdefit.analysis.discovery.band import band

jax.config.update("jax_enable_x64", True)
ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "how-to" / "learned_term.png"
LABELS = {"D": "diffusivity D, mm$^2$/day", "growth": "growth f, cells/mm$^2$/day"}


def fitted(folder: str) -> Path:
    """Run directory of a fit of reaction/scratch_assay_discovery, made in a folder."""
    command = ["pdefit", "fit", "experiment=reaction/scratch_assay_discovery", f"hydra.run.dir={folder}/run"]
    subprocess.run([*command, "render=false"], cwd=folder, check=True)
    return Path(folder) / "run"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = pdefit.load_run(Path(sys.argv[1]) if len(sys.argv) > 1 else fitted(folder))
        functional = pdefit.load_experiment("reaction/scratch_assay_discovery").functional
        theta = functional.controls.theta(run.problem)
    covariance = np.linalg.inv(np.asarray(eqx.filter_jit(lambda f, x: f.normal_equations(x)[2])(functional, theta)))
    counted = np.asarray(functional.observations.values["u"]).ravel()
    u = np.linspace(0.0, float(np.quantile(counted, 0.99)), 200)
    figure, axes = plt.subplots(
        2, 2, figsize=(8.0, 3.6), sharex=True, height_ratios=(4, 1), layout="constrained", squeeze=False
    )
    for column, (name, label) in zip(axes.T, LABELS.items(), strict=True):
        found = band(functional, theta, name, (u,), covariance)
        column[0].fill_between(u, found.value - 2 * found.error, found.value + 2 * found.error, alpha=0.3, lw=0)
        column[0].plot(u, found.value)
        column[0].axhline(0.0, color="0.7", lw=0.8)
        column[0].set_ylabel(label)
        column[1].hist(counted, bins=np.linspace(0.0, u[-1], 40), color="0.6")
        column[1].set(xlabel="density u, cells/mm$^2$", yticks=[], ylabel="counted")
    figure.savefig(PICTURE, dpi=100)
    print(f"{PICTURE} was written")


if __name__ == "__main__":
    main()
