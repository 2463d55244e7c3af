"""Scores of null models beside those of the page Reproduce the papers: what guesses, persistence, means and rest reach.

    ./run python tests/benchmarks/null_models.py [PART ...]

Parts are tissue, lyapunov, rest, planets, spheres, smallest, populations, embryos, pelts, growth, column, robertson, spiral,
hybrids, classics, flock and canine; without any, all run, in ten minutes. Nothing is fitted but in `smallest`, which states
the errors of twenty spheres in parts of the smallest mass of each draw, too. A line is a score: its name, and its number.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pdefit.cli.runtime.environment import prepare

prepare()

import h5py
import jax
import numpy as np

import pdefit

ROOT = Path(__file__).parents[2]
sys.path += [str(Path(__file__).parent), str(ROOT / "scripts")]
Scores = Iterator[tuple[str, float]]


def guess_errors(exp: pdefit.Experiment) -> dict[str, np.ndarray]:
    """The relative errors of the guesses of an experiment whose truth is known, by control."""
    J = exp.functional
    guess, known = J.at(J.theta0), {}
    for control in J.controls.items:
        if control.path.partition(".")[0] not in ("y0", "nodes"):
            known[control.path] = np.abs(np.asarray(control.where(guess)) / np.asarray(exp.true_value(control)) - 1)
    return known


def tissue() -> Scores:
    """Guesses of ten parameters, which depend on the seed and not on the grid; a small and short film is enough."""
    small = ["system.grid.shape=[16,16]", "system.grid.extent=[1.6,1.6]", "initial=system"]
    times = ["times={start: 0.0, stop: 1.0, count: 3, forecast: null}"]
    errors = [float(x) for x in guess_errors(pdefit.load_experiment("cardiac/bocf_parameters", small + times)).values()]
    yield "mean error of the guess", np.mean(errors)
    yield "median error of the guess", np.median(errors)


def lyapunov() -> Scores:
    """No growth, beside the exponent that the page shows with its standard error."""
    known = json.loads((ROOT / "docs/measured.json").read_text())
    exponent, error = (
        known[f"cardiac/bocf_parameters_512 on an H100: {name}, 1/ms"]["value"]
        for name in ("Lyapunov exponent", "standard error of the Lyapunov exponent")
    )
    yield "standard errors from zero", exponent / error


def rest() -> Scores:
    """Voltage of quiet tissue, predicted by the last fitted frame, by the mean of a cell over the fit, and by rest."""
    exp = pdefit.load_experiment("cardiac/ap_fits_bocf", ["stages.main.max_iterations=1"])
    film, n = np.asarray(exp.source.record.values["u"], float), exp.fitted
    for name, guess in {"persistence": film[n - 1], "mean of each cell": film[:n].mean(axis=0), "rest": 0.0}.items():
        yield f"forecast by {name}", np.mean(np.abs(film[n:] - guess))
    yield "noise of the film, mean size", np.sqrt(2 / np.pi) * 0.0053
    yield "fit by the mean of each cell", np.mean(np.abs(film[:n] - film[:n].mean(axis=0)))


def planets() -> Scores:
    """Guesses of the masses of the Sun and its planets."""
    exp = pdefit.load_experiment("particles/solar_system")
    errors = guess_errors(exp)["gm"]
    for name, error in zip(exp.functional.problem.system.names, errors, strict=True):
        if name in ("Sun", "Mars", "Jupiter", "Saturn"):
            yield f"error of the guess of gm.{name}", error
    yield "largest error of a guess", errors.max()


def draw(n: int, seed: int) -> pdefit.Experiment:
    """A draw of so many spheres, as the page has it."""
    box = f"system.box=[{np.sqrt(3.2 * n)}, {np.sqrt(3.2 * n)}]"
    return pdefit.load_experiment("particles/lennard_jones_20", [f"system.n={n}", box, f"seed={seed}"])


DRAWS = [*((20, seed) for seed in range(5)), (5, 0), (10, 0), (30, 0), (40, 0), (50, 0)]


def spheres() -> Scores:
    """Guesses of all masses, and by how much the largest mass of a draw exceeds the smallest."""
    errors, ratios = [], []
    for n, seed in DRAWS:
        exp = draw(n, seed)
        errors.append(guess_errors(exp)["mass"].max())
        mass = np.asarray(exp.truth.system.mass)
        ratios.append(mass.max() / mass.min())
        print(f"   {n} spheres, seed {seed}: guess {errors[-1]:.3g}, largest over smallest mass {ratios[-1]:.3g}")
    yield "largest error of a guess, least of ten draws", min(errors)
    yield "largest error of a guess, largest of ten draws", max(errors)
    yield "largest over smallest mass, largest of ten draws", max(ratios)


def smallest() -> Scores:
    """Errors of fitted masses in parts of their own true mass, and of the smallest one in the box."""
    for n, seed in DRAWS[:5]:
        exp = draw(n, seed)
        true, found = np.asarray(exp.truth.system.mass), np.asarray(exp.fit().problem.system.mass)
        yield f"{n} spheres, seed {seed}, of its own mass", np.max(np.abs(found - true) / true)
        yield f"{n} spheres, seed {seed}, of the smallest mass", np.max(np.abs(found - true)) / true.min()
        yield (
            f"{n} spheres, seed {seed}, masses off by more than a hundredth of it",
            np.sum(np.abs(found - true) > true.min() / 100),
        )


def populations() -> Scores:
    """The guess of 0.4 for every rate of the 500 systems of `members.py`."""
    (of_systems,) = map(np.random.default_rng, np.random.SeedSequence(0).spawn(1))
    errors = np.abs(0.4 - of_systems.uniform(0.1, 1.0, (500, 6))[:, :4])
    yield "mean error of the rates", errors.mean()
    yield "worst mean error of a system", errors.mean(axis=1).max()


def embryos() -> Scores:
    """No force, no delay and no rotation, medians and largest of three draws of four embryos."""
    import make_embryos as make
    from embryos import force_error, twin
    from pdefit_sphere import KnotForce

    turns, delays, forces = [], [], []
    for seed in range(3):
        seen = twin(seed, 4, "self")
        forces.append(force_error(KnotForce(make.KNOTS, make.TIMES), seen, "self"))
        turns += [make.angle_between(np.zeros(3), one.orientation) for one in seen]
        delays += [abs(one.delay) / make.FILM for one in seen]
    yield "error of the force", np.median(forces)
    yield "largest delay", max(delays)
    yield "largest orientation, rad", max(turns)


def pelts() -> Scores:
    """Pelts scaled by their maxima: sums of squares about the mean of each, and of the year before as forecast."""
    with open(ROOT / "data/populations/hudson_bay.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    series = [np.array([float(row[f"{n}_thousand_pelts"]) for row in rows]) for n in ("hare", "lynx")]
    series = [x / x.max() for x in series]
    yield "sum of squares about the means", sum(np.sum((x - x.mean()) ** 2) for x in series)
    yield "sum of squares of the year before", sum(np.sum(np.diff(x) ** 2) for x in series)


def growth() -> Scores:
    """Guesses of D in ten starts of `fisher_growth.py`, no growth, and guesses of the stencil of the shipped experiment."""
    guesses = [0.01 * np.exp(np.random.default_rng(s).uniform(np.log(0.3), np.log(3.0), 2)).mean() for s in range(10)]
    yield "largest error of a guess of D", np.max(np.abs(np.array(guesses) / 0.01 - 1))
    yield "error of no growth", 0.25
    errors = guess_errors_of_stencil(pdefit.load_experiment("reaction/fisher_kpp_discovery"))
    yield "largest error of a guessed weight of the stencil", max(errors)


def guess_errors_of_stencil(exp: pdefit.Experiment) -> list[float]:
    system, truth = exp.functional.at(exp.functional.theta0).system, exp.truth.system
    return [abs(float(getattr(system, n)) / float(getattr(truth, n)) - 1) for n in ("left", "right")]


def column() -> Scores:
    """The first frame as forecast of a column of fluid, over the fitted frames, and the guess of no flux."""
    exp = pdefit.load_experiment("reaction/boussinesq_closure")
    J, true = exp.functional, np.asarray(exp.source.true_states.T, float)[: exp.fitted]
    yield "sum of squares of persistence", np.sum((true - true[0]) ** 2)
    guess = pdefit.simulate(J.problem.system, J.at(J.theta0).y0, exp.source.record.ts[: exp.fitted], dt=0.005)
    yield "sum of squares of the guess", np.sum((np.asarray(guess.values["T"]) - true) ** 2)
    whole = np.asarray(exp.source.true_states.T, float)
    last = whole[exp.fitted - 1]
    yield "error of persistence at 3", np.linalg.norm(whole[-1] - last) / np.linalg.norm(whole[-1])


def robertson() -> Scores:
    """Means of the three species over ten points."""
    states = pdefit.load_experiment("pathways/robertson_discovery").source.true_states
    true = [np.asarray(x, float) for x in jax.tree.leaves(states)]
    yield "sum of squares about the means", sum(np.sum((x - x.mean()) ** 2) for x in true)


def spiral() -> Scores:
    """The mean of both components, and the start held."""
    from spiral_neural_ode import functional

    x = np.asarray(functional(0).observations.values["y"])
    yield "sum of squares about the means", np.sum((x - x.mean(axis=0)) ** 2)


def hybrids() -> Scores:
    """Guesses of the numbers of mechanisms that are compared, medians of 20 draws."""
    from hybrids import cases, data_of, functional

    known = cases()
    compared = {
        "apoptosis": ("kd2", "kd4"),
        "apoptosis_fixed": ("k1", "kd2", "kd3", "kd4"),
        "apoptosis_partial": ("kd2", "kd3", "kd4"),
        "glycolysis": known["glycolysis"].free[1:],
    }
    for name, numbers in compared.items():
        case, data = known[name], data_of(known[name], 0.05, 0)
        guesses = [functional(case, data, draw, True).problem.system for draw in range(20)]
        middle = [np.median([abs(float(getattr(g, n)) / case.truth[n] - 1) for g in guesses]) for n in numbers]
        for n, error in zip(numbers, middle, strict=True):
            yield f"{name}, median error of the guess of {n}", error
    case = known["glycolysis_partial"]
    data = data_of(case, 0.05, 0)
    parts = [((np.asarray(x) - np.asarray(x).mean()) / np.asarray(data.sigma[n])) ** 2 for n, x in data.values.items()]
    yield "glycolysis_partial, chi2 of a value about the means", np.mean(parts)


def classics() -> Scores:
    """The guess of every number, up or down by chance."""
    from classics import start

    yield "error of a guess", abs(float(start({"lambda": 1.0}, np.random.default_rng(0))["lambda"]) - 1)


def flock() -> Scores:
    """Solutions with the guesses of five numbers of a flock."""
    from cucker_smale import TRUTH, Setting

    for birds in (5, 20, 100, 200):
        setting = Setting(birds)
        wrong = np.asarray(jax.jit(setting.solution)(setting.theta0) - setting.data)
        yield f"{birds} birds, mean squared error of the guess", np.mean(wrong**2)
        yield f"{birds} birds, largest error of the guess", np.abs(wrong).max()
    off = np.exp(np.asarray(setting.theta0)) / np.array([*TRUTH.values()]) - 1
    yield "largest error of a guessed number", np.abs(off).max()


def canine() -> Scores:
    """Every trace predicted by the mean over all traces at each time, and by its own mean."""
    with h5py.File(ROOT / "data/cardiac/canine_traces.h5") as file:
        traces = np.asarray(file["voltage"]) * file["voltage"].attrs["scale_factor"]
    for samples in (250, 1200):
        part = traces[:, :samples]
        yield f"{samples} samples, misfit of the mean trace", np.mean((part - part.mean(axis=0)) ** 2)
        yield (
            f"{samples} samples, misfit of the mean of each trace",
            np.mean((part - part.mean(axis=1, keepdims=True)) ** 2),
        )


PARTS = (
    tissue, lyapunov, rest, planets, spheres, smallest, populations, embryos, pelts, growth, column, robertson, spiral, hybrids,
    classics, flock, canine,
)  # fmt: skip


def main() -> None:
    """Prints the scores of the parts that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[[], *(part.__name__ for part in PARTS)])
    asked = parser.parse_args().parts
    jax.config.update("jax_enable_x64", True)
    for part in PARTS:
        if not asked or part.__name__ in asked:
            for name, value in part():
                print(f"{part.__name__}: {name}: {float(value):.4g}", flush=True)


if __name__ == "__main__":
    main()
