"""A hidden law of two species: a network and its formula, beside sparse regression on the data.

    ./run python tests/benchmarks/two_species.py fit FOLDER
    PYTHON tests/benchmarks/two_species_sindy.py FOLDER
    ./run python tests/benchmarks/two_species.py roll FOLDER

`fit` fits reaction/two_species_discovery, writes its formula, and the film to `film.npz`. PySINDY, in an environment of its
own, regresses that film (`sindy.json`). `roll` follows all models from a start that nobody has seen, beside the truth.
"""

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np
from pdefit_reaction import SubstrateUptake

import pdefit

jax.config.update("jax_enable_x64", True)
# times of the roll-out, and the seed of its start
TIMES, SEED = np.linspace(0.0, 200.0, 41), 7


def fit(folder):
    exp = pdefit.load_experiment("reaction/two_species_discovery")
    begin = time.process_time()
    found = pdefit.fit(exp.functional, exp.stages)
    seconds = time.process_time() - begin
    record, system = exp.functional.observations, found.problem.system
    chi2 = 2 * float(found.loss)
    print(f"network: loss {chi2 / 2:.1f} of {exp.functional.observed_values} values, CPU s {seconds:.0f}")
    print(pdefit.intervals(found.functional, found.theta, sigma_stated=True))
    begin = time.process_time()
    formulas = pdefit.discover(found.functional, found.theta)
    print(f"discover: CPU s {time.process_time() - begin:.0f}, chi2 {formulas.best.chi2:.1f}")
    for one in (formulas.best, *formulas.rivals):
        errors = {n: [t.error for t in own] for n, own in one.terms.items()}
        print("  ", one, errors, f"criterion {one.criterion:.1f}")
    refit = formulas.functional.at(formulas.best.theta).system
    terms = [(str(t.expression), t.coefficient) for t in formulas.best.terms["uptake"]]
    out = {"D_u": float(refit.D_u), "D_v": float(refit.D_v), "terms": terms}
    (folder / "formula.json").write_text(json.dumps(out))
    print("  ", out)
    np.savez(
        folder / "film.npz",
        ts=record.ts,
        u=record.values["u"],
        v=record.values["v"],
        x=system.grid.axis(0),
    )
    np.savez(folder / "network.npz", theta=found.theta)


def roll(folder):
    exp = pdefit.load_experiment("reaction/two_species_discovery")
    truth = SubstrateUptake(exp.functional.problem.system.grid, *map(np.asarray, (2e-5, 1e-5, 0.04, 0.06)))
    y0 = truth.init(jax.random.key(SEED))
    wanted = film(truth, y0)
    own = json.loads((folder / "formula.json").read_text())
    text = " + ".join(f"({c}) * ({e})" for e, c in own["terms"])
    numbers = (own["D_u"], own["D_v"], 0.04, 0.06)
    models = {
        "network": exp.functional.at(np.load(folder / "network.npz")["theta"]).system,
        "formula": SubstrateUptake(truth.grid, *map(np.asarray, numbers), pdefit.terms.Formula(text, ("u", "v"))),
    }
    for name, model in models.items():
        said(name, film(model, y0), wanted)
    for name, rates in json.loads((folder / "sindy.json").read_text()).items():
        said(name, regressed(rates, y0, truth.grid.spacing[0]), wanted)


def film(system, y0):
    states = pdefit.solve(system, y0, TIMES, solver=pdefit.solvers.RK4(), dt=1.0, t0=0.0)
    return np.stack([states.u, states.v])


def regressed(rates, y0, h):
    """The film of a regression: by field the coefficient of each feature, by Heun's steps of 0.5 on the same stencil."""

    def features(w):
        u, v = w
        lap = [sum(np.roll(x, s, a) for s in (1, -1) for a in (0, 1)) - 4 * x for x in w]
        return {f"u{i}v{j}": u**i * v**j for i in range(4) for j in range(4 - i)} | {
            "lap_u": lap[0] / h**2,
            "lap_v": lap[1] / h**2,
        }

    def rate(w):
        known = features(w)
        return np.stack([sum((c * known[n] for n, c in rates[field].items()), 0 * w[0]) for field in "uv"])

    w, step, frames = np.stack([np.asarray(y0.u), np.asarray(y0.v)]), 0.5, []
    for t, after in zip(TIMES, [*TIMES[1:], TIMES[-1]], strict=True):
        frames.append(w)
        for _ in range(round((after - t) / step)):
            one = rate(w)
            w = w + step / 2 * (one + rate(w + step * one))
            # a model that blows up has no error that could be stated
            w = w if np.max(np.abs(w)) < 10 else np.full_like(w, np.nan)
    return np.stack(frames, 1)


def said(name, found, wanted):
    size = np.ptp(wanted, axis=(1, 2, 3))
    parts = []
    for last in (20, 40):
        off = np.sqrt(np.mean((found - wanted)[:, : last + 1] ** 2, axis=(1, 2, 3))) / size
        parts.append(f"to t = {TIMES[last]:.0f}: u {100 * off[0]:.2f} %, v {100 * off[1]:.2f} %")
    print(f"{name}: rms of the roll-out, {'; '.join(parts)}")


if __name__ == "__main__":
    {"fit": fit, "roll": roll}[sys.argv[1]](Path(sys.argv[2]))
