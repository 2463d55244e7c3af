"""Maps of scars in heart tissue by cardiac/scar_map: shapes, values, and how far to trust them.

    ./run python tests/benchmarks/scars.py                      # all cases, half an hour
    ./run python tests/benchmarks/scars.py disc half [SETTING ...]

Every case is a truth, and the fit does not know it. `disc` and `corner` (of two boxes) conduct 0.3 times as well as what is
around them, `dead` a thousandth, and in `none` there is no scar. In `half` the film ends when the wave has crossed about half
of the tissue. In `bocf` the tissue has the BOCF equations, and gates that recover from a wave, which are known.

Settings are those of the command line, such as `regularizers.edges.weight=1e5`.

A cell counts as scar below 0.65 of healthy tissue, in truth and estimate. Dice is twice the cells that are scar in both over
the cells of both. Means are geometric, over the true scar (with the interval of 95 %) and over all else. A cell is far off
where truth and estimate differ by more than three posterior standard deviations. The deviation of ln D is the median over
the cells that the wave passed, and over the others.
"""

import sys
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import pdefit

HEALTHY, SCAR = 1e-3, 0.65  # cm^2/ms, and the part of it
DISC = "{name: cardiac/ellipses, background: 1e-3, centres: [[1.2, 1.4]], radii: [[0.4, 0.3]], values: %g}"
CORNER = "{name: cardiac/patches, background: 1e-3, boxes: [[[0.7, 1.0], [0.6, 1.7]], [[0.7, 1.6], [0.6, 0.95]]], values: 3e-4}"
CASES = {
    "disc": [],
    # another class: the arguments of an ellipse are taken away
    "corner": ["~system.D.centres", "~system.D.radii", f"system.D={CORNER}"],
    "none": [f"system.D={DISC % 1e-3}"],
    # in a scar that nothing passes the search tries large D, for which steps are too long: so D has an upper bound
    "dead": [
        f"system.D={DISC % 1e-6}",
        "controls.D.transform={logit: [0.0, 1.2e-3]}",
        "controls.D.smoothing.amplitude=1.5",
        "stages.main.max_iterations=150",
    ],
    "half": ["times.stop=100", "times.count=51"],
    # BOCF tissue that recovers from a wave, and is then paced
    "bocf": [
        "system=cardiac/bocf_tutorial",
        "system.grid={shape: [64, 64], extent: [6.4, 6.4]}",
        "+system.D={name: cardiac/ellipses, background: 1e-3, centres: [[3.2, 3.7]], radii: [[1.07, 0.8]], values: 3e-4}",
        "initial={name: cardiac/random_excitation, rounds: 1, squares: 3, interval: 330.0, last: null}",
        "args.boxes=[[0.0, 0.3], [0.0, 6.4]]",
        "times={start: 0.0, stop: 200.0, count: 201}",
        "dt=0.1",
        "controls.D.smoothing.length=0.13",
        "regularizers.edges={name: total_variation, control: D, weight: 2.7e6, slope: 3.7e-4, spacing: 0.1}",
        # a front that is a cell late is far off: so the beginning of the film comes first
        "+stages.main.until=50",
        "stages.main.max_iterations=60",
        "+stages.longer={optimizer: {name: lbfgs, memory: 20}, until: 100, max_iterations: 60}",
        "+stages.all={optimizer: {name: lbfgs, memory: 20}, max_iterations: 80}",
    ],
}
HEADER = (
    "| case | Dice | inside | true | outside | true | rms outside | far off | sd where passed | elsewhere | freedom |"
)


def row(case: str, settings: list[str], rank: int = 152) -> str:
    """The row of one case. Truth, estimate and standard deviation are written to scars_CASE.npz for pictures."""
    experiment = pdefit.load_experiment("cardiac/scar_map", [*CASES[case], *settings])
    assert experiment.truth is not None
    truth = np.asarray(experiment.truth.system.D) / HEALTHY
    fit = experiment.fit()
    posterior = pdefit.field_posterior(fit.functional, fit.theta, rank=rank)
    found = np.asarray(fit.problem.system.D) / HEALTHY
    deviation = posterior.standard_deviation["D"] / HEALTHY / found
    np.savez(Path(f"scars_{case}.npz"), truth=truth, found=found, deviation=deviation)
    scar, seen = truth < SCAR, found < SCAR
    dice = f"{2 * np.sum(scar & seen) / (scar.sum() + seen.sum()):.2f}" if scar.any() else f"{seen.sum()} cells"
    inside, true = "", ""
    if scar.any():
        draws = np.log(posterior.samples(200, jax.random.key(0))["D"] / HEALTHY)[:, scar].mean(1)
        centre, spread = np.log(found[scar]).mean(), 1.96 * draws.std()
        inside = "{:.4f} ({:.4f} to {:.4f})".format(*np.exp([centre, centre - spread, centre + spread]))
        true = f"{np.exp(np.log(truth[scar]).mean()):.4f}"
    passed = np.max(np.asarray(experiment.source.record.values["u"]), axis=0) > 0.5
    cells = [
        case, dice, inside, true,
        *(f"{np.exp(np.log(x[~scar]).mean()):.4f}" for x in (found, truth)),
        f"{np.sqrt(np.mean((found - truth)[~scar] ** 2)):.3f}",
        f"{np.mean(np.abs(found - truth) > 3 * deviation * found):.1%}",
        *(f"{np.median(deviation[where]):.2f}" if where.any() else "" for where in (passed, ~passed)),
        f"{posterior.degrees_of_freedom:.0f} of {posterior.eigenvalues.size}",
    ]  # fmt: skip
    print(f"{case}: J {fit.loss:.1f} after {fit.iterations}, {posterior.remark}", file=sys.stderr)
    return f"| {' | '.join(cells)} |"


def main(words: list[str]):
    """Prints the rows of the cases that are named, or of all."""
    print(HEADER, "|---" * 11 + "|", sep="\n")
    for case in [word for word in words if word in CASES] or CASES:
        print(row(case, [word for word in words if word not in CASES]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
