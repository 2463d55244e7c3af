"""Maps of scars in heart tissue by cardiac/scar_map: shapes, values, and how far to trust them.

    ./run python tests/benchmarks/scars.py                      # all cases, ten minutes
    ./run python tests/benchmarks/scars.py disc half [SETTING ...]

Every case is a truth, and the fit does not know it. `disc` and `corner` (of two boxes) conduct 0.3 times as well as what is
around them, `dead` a thousandth, and in `none` there is no scar. In `half` the film ends when the wave has crossed half
of the tissue. Settings are those of the command line, such as `regularizers=null`.

A cell counts as scar below 0.65 of healthy tissue, in truth and estimate. Dice is twice the cells that are scar in both over
the cells of both. A cell deviates where truth and estimate differ by more than three posterior standard deviations. Draws of
the posterior give the interval of the mean inside.
"""

import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import pdefit

HEALTHY, SCAR = 1e-3, 0.65
NONE = "{name: cardiac/ellipses, background: 1e-3, centres: [[1.2, 1.4]], radii: [[0.4, 0.3]], values: %g}"
CORNER = "{name: cardiac/patches, background: 1e-3, boxes: [[[0.7, 1.0], [0.6, 1.7]], [[0.7, 1.6], [0.6, 0.95]]], values: 3e-4}"
CASES = {
    "disc": [],
    "corner": [f"system.D={CORNER}"],
    "none": [f"system.D={NONE % 1e-3}"],
    "dead": [f"system.D={NONE % 1e-6}"],
    "half": ["times.stop=100", "times.count=51"],
}


def score(case: str, settings: list[str], rank: int = 300) -> dict[str, str]:
    """The row of one case."""
    experiment = pdefit.load_experiment("cardiac/scar_map", [*CASES[case], *settings])
    truth = np.asarray(experiment.truth.system.D) / HEALTHY
    fit = experiment.fit()
    posterior = pdefit.field_posterior(fit.functional, fit.theta, rank=rank)
    found = np.asarray(fit.problem.system.D) / HEALTHY
    deviation = posterior.standard_deviation["D"] / HEALTHY
    draws = posterior.samples(200, jax.random.key(0))["D"] / HEALTHY
    np.savez(f"/tmp/scars_{case}.npz", truth=truth, found=found, deviation=deviation, prior=posterior.prior_standard_deviation["D"])
    scar, seen = truth < SCAR, found < SCAR
    row = {}
    both = np.sum(scar) + np.sum(seen)
    row["Dice"] = f"{2 * np.sum(scar & seen) / both:.2f}" if both else "no cell"
    if scar.any():
        low, high = np.percentile(draws[:, scar].mean(1), [2.5, 97.5])
        row["inside"] = f"{found[scar].mean():.3f} ({low:.3f} to {high:.3f}), true {truth[scar].mean():.3f}"
    outside = ~scar
    row["outside"] = f"{found[outside].mean():.3f}, true {truth[outside].mean():.3f}"
    row["rms outside"] = f"{np.sqrt(np.mean((found - truth)[outside] ** 2)):.3f}"
    row["off by 5 %"] = f"{np.mean(np.abs(found / truth - 1)[outside] > 0.05):.1%}"
    row["beyond 3 sd"] = f"{np.mean(np.abs(found - truth) > 3 * deviation):.1%}"
    relative = deviation / found
    row["freedom"] = f"{posterior.degrees_of_freedom:.0f}"
    row["sd"] = f"{np.median(relative[:32]):.3f} left, {np.median(relative[32:]):.3f} right"
    row["iterations"] = f"{fit.iterations}, {fit.status}, factor {posterior.amplitude_factors['D']:.2f}"
    return row


def main(words: list[str]):
    cases = [word for word in words if word in CASES] or list(CASES)
    settings = [word for word in words if word not in CASES]
    for case in cases:
        row = score(case, settings)
        if case == cases[0]:
            print("| case |", " | ".join(row), "|")
            print("|---" * (len(row) + 1) + "|")
        print(f"| {case} |", " | ".join(row.values()), "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
