"""Certificates where fits with free initial states, fields and networks have not converged: false alarms, and faults caught.

    ./run python tests/benchmarks/certificate_alarms.py [alarms] [faults] [--only fisher,lorenz] [--seeds 5]

Initial states start from noisy data. There and after two and five iterations the steps of the certificate lead to places
where many of these models blow up. `alarms` certifies right derivatives, none of which may be refused. `faults` plants
wrong ones and a hard switch in a front at the same places; each must be refused.
"""

import argparse
import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp
import numpy as np
from gradient_faults.adjoints import OfGradient
from jaxtyping import Array
from pdefit_cardiac import BOCF, EPI, AlievPanfilov
from pdefit_cardiac.parameter_sets import ALIEV_PANFILOV
from pdefit_reaction import FisherKPP
from pdefit_reaction.fisher_kpp import State
from zoo.case import Case
from zoo.cases import CASES, FRONT, LOG, two

import pdefit
from pdefit.cli.runtime.environment import forget_programs

jax.config.update("jax_enable_x64", True)

GAUSS_NEWTON, QUASI_NEWTON = pdefit.optimizers.GaussNewtonCG(), pdefit.optimizers.LBFGS()
# iterations after which fits are certified
STOPS = (2, 5)
SQUARE = pdefit.CartesianGrid(shape=(16, 8), extent=(32.0, 16.0), origin=(-16.0, 0.0))
TISSUE = pdefit.CartesianGrid(shape=(8, 8), extent=(0.4, 0.4), length_unit="cm")
MEASURED = {"u": pdefit.Control(guess=pdefit.guesses.FromData())}


def freed(name: str, noise: float, **changes: Any) -> Case:
    """A case of the zoo with noisy data and the initial state as an unknown that starts from them."""
    case = dataclasses.replace(CASES[name], noise=noise, recordings=1, driver=None, **changes)
    return dataclasses.replace(case, free={**case.free, "y0": MEASURED})


def tissue(model: type, values: dict[str, Any], names: tuple[str, ...], stop: float, dt: float) -> Case:
    """Eight by eight cells of heart tissue whose voltage at the start is unknown, too."""
    return Case(
        None,
        tuple(values[n] for n in names),
        None,
        two(11, stop),
        dt,
        {**dict.fromkeys(names, LOG), "y0": MEASURED},
        noise=0.05,
        system=lambda **p: model(grid=TISSUE, **{**values, **p}),
    )


def front(system: Callable = FisherKPP, **options: Any) -> Case:
    """Fisher's front; densities below zero fall without bounds."""
    make = functools.partial(system, grid=FRONT, front=-5.0)
    return freed("fisher", 0.02, system=lambda **p: make(**{k: jnp.asarray(v) for k, v in p.items()}), options=options)


ALARMS: dict[str, tuple[Case, Any]] = {
    "fisher": (front(), GAUSS_NEWTON),
    "fisher_2d": (
        freed("fisher", 0.05, system=lambda **p: FisherKPP(grid=SQUARE, front=-5.0, **p)),
        QUASI_NEWTON,
    ),
    "logistic": (freed("logistic", 0.3), GAUSS_NEWTON),
    "lorenz": (freed("lorenz", 1.0), GAUSS_NEWTON),
    "lotka_volterra": (freed("lotka_volterra", 0.3), QUASI_NEWTON),
    "fitzhugh_nagumo": (freed("fitzhugh_nagumo", 0.2), GAUSS_NEWTON),
    "brusselator": (freed("brusselator", 0.3), QUASI_NEWTON),
    "burgers": (freed("burgers", 0.1), QUASI_NEWTON),
    "kdv": (freed("kdv", 0.05), GAUSS_NEWTON),
    "gray_scott": (freed("gray_scott", 0.05, options={}), QUASI_NEWTON),
    "network": (freed("network", 0.1), QUASI_NEWTON),
    "bocf": (tissue(BOCF, EPI, ("D", "k_so"), 5.0, 0.05), GAUSS_NEWTON),
    "aliev_panfilov": (tissue(AlievPanfilov, ALIEV_PANFILOV, ("D", "k"), 20.0, 0.2), QUASI_NEWTON),
    # the strength of excitation is a field
    "tissue_field": (
        tissue(AlievPanfilov, {**ALIEV_PANFILOV, "k": np.full((8, 8), ALIEV_PANFILOV["k"])}, ("D", "k"), 20.0, 0.2),
        QUASI_NEWTON,
    ),
}


# --- faults --------------------------------------------------------------------------------------------------------------


class Stopped(FisherKPP):
    """The derivative in r is lost."""

    def reaction(self, t, y, args):
        return State(jax.lax.stop_gradient(self.r) * y.u * (1 - y.u))


@jax.custom_jvp
def _growth(u: Array) -> Array:
    return u * (1 - u)


@_growth.defjvp
def _(primals, tangents):
    (u,), (v,) = primals, tangents
    return _growth(u), (1 + 1e-4) * (1 - 2 * u) * v


class Off(FisherKPP):
    """The derivative of growth is too large by 1e-4."""

    def reaction(self, t, y, args):
        return State(self.r * _growth(y.u))


class Switched(FisherKPP):
    """Growth is faster above a density."""

    def reaction(self, t, y, args):
        return State(jnp.where(y.u > 0.3, 1.5, 1.0) * self.r * y.u * (1 - y.u))


def scaled(gradient: Array, probes: Any) -> Array:
    return (1 + 1e-4) * gradient


def dropped(gradient: Array, probes: Any) -> Array:
    return gradient.at[0].set(0.0)


FAULTS: dict[str, Case] = {
    "gradient times 1 + 1e-4": front(adjoint=OfGradient(change=scaled)),
    "gradient without D": front(adjoint=OfGradient(change=dropped)),
    "stop_gradient of r": front(Stopped),
    "tangent times 1 + 1e-4": front(Off),
    "hard switch": front(Switched),
}


# --- certificates --------------------------------------------------------------------------------------------------------


def certificates(case: Case, optimizer: Any, seeds: int) -> Iterator[tuple[str, pdefit.Certificate]]:
    """Certificates of fits at their guess and where they stop early."""
    for seed in range(seeds):
        functional = case.draw(seed)
        places = {0: functional.theta0}
        for stop in STOPS:
            # data of the front may lie so far below zero that the model blows up where the fit starts
            with contextlib.suppress(pdefit.PdefitError):
                places[stop] = jnp.asarray(pdefit.fit(functional, [optimizer], max_iterations=stop).theta)
        for stop, theta in places.items():
            key = jax.random.key(100 * seed + stop)
            yield (
                f"seed {seed}, {stop} iterations",
                pdefit.certify(functional, theta, key=key, optimizers=[optimizer]),
            )


def ratio(found: pdefit.Certificate) -> float:
    """The largest error of a check in units of its limit, but for what is noted beside an error."""
    return max((c.error / c.limit for c in found.checks if c.limit and not c.note), default=0.0)


def shortened(found: pdefit.Certificate) -> int:
    """The number of comparisons whose largest steps did not count, because the model blows up."""
    return sum(c.detail["steps"][0] < 2**-4 for c in found.checks if c.detail.get("steps"))


def alarms(only: list[str], seeds: int) -> bool:
    total = wrong = blown = 0
    worst = 0.0
    for name, (case, optimizer) in ALARMS.items():
        if only and name not in only:
            continue
        begin, before = time.perf_counter(), total
        for where, found in certificates(case, optimizer, seeds):
            if found.checks[0].name == "finite residuals":
                print(f"  not finite, and not counted: {name}, {where}", flush=True)
                continue
            total, blown = total + 1, blown + (shortened(found) > 0)
            if not found.passed:
                wrong += 1
                print(f"  FALSE ALARM {name}, {where}: {found.reason[:400]}", flush=True)
            else:
                worst = max(worst, ratio(found))
        print(f"{name:16} {total - before:3} certificates, {time.perf_counter() - begin:.0f} s", flush=True)
        forget_programs()
    print(
        f"{wrong} false alarms in {total} certificates, in {blown} of which the model blows up at the largest steps; "
        f"worst error {worst:.2g} of its limit"
    )
    return wrong == 0


def faults(only: list[str], seeds: int) -> bool:
    total = caught = blown = 0
    for name, case in FAULTS.items():
        if only and name not in only:
            continue
        for where, found in certificates(case, QUASI_NEWTON, seeds):
            if found.checks[0].name == "finite residuals":
                continue
            total, caught = total + 1, caught + (not found.passed)
            blown += shortened(found) > 0
            if found.passed:
                print(f"  MISSED {name}, {where}: worst error {ratio(found):.2g} of its limit", flush=True)
        print(f"{name:24} {caught} caught of {total} so far", flush=True)
        forget_programs()
    print(f"{caught} caught of {total} planted, in {blown} of which the model blows up at the largest steps")
    return caught == total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["alarms", "faults"])
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name]
    tests = {"alarms": alarms, "faults": faults}
    return 0 if all([tests[what](only, given.seeds) for what in given.what]) else 1


if __name__ == "__main__":
    sys.exit(main())
