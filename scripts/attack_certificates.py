"""Attacks on the gradient certificate: false alarms, hard switches, planted faults.

    ./run python scripts/attack_certificates.py alarms [--only lorenz,kdv] [--seeds 12] [--shipped 4]
    ./run python scripts/attack_certificates.py switches [--only relay,front]
    ./run python scripts/attack_certificates.py faults [--only NAME,...]

`alarms` certifies correct gradients of smooth systems, all shipped fits among them, at guesses far and near. None may
be refused. `switches` certifies right-hand sides with jumps of every size. A jump that moves an estimate by a tenth of
its interval must be refused. Kinks, whose derivatives are right, must pass. `faults` plants wrong derivatives in every
part; each must be refused, or the reason why not is printed.

All runs use default settings. Each prints a row, and counts at the end. The exit code is 1 if a claim fails.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import equinox as eqx
import hydra
import jax
import jax.numpy as jnp
import numpy as np
from gradient_faults import FAULTS, certificate
from switches import KINKS, SWITCHES, moved
from zoo.cases import CASES

import pdefit
from pdefit.cli.config.configuration import register_resolvers
from pdefit.cli.config.read import read_settings
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.certify import certified
from pdefit.cli.runtime import plugins
from pdefit.cli.runtime.environment import forget_programs
from pdefit.inverse.fit.fit import first_functional
from pdefit.inverse.objective.compiled import RESIDUALS

jax.config.update("jax_enable_x64", True)

_TISSUE = (
    "system.grid.shape=[32,32] system.grid.extent=[3.2,3.2] times.forecast=null initial.rounds=2 lyapunov=false twin=self "
    "solver=euler times.stop=10.0 times.count=21 dt=0.07"
)
_PLANETS = "times.stop=8000.0 times.fit_until=4000.0"
SHIPPED = {
    "reaction/fisher_front": "system.grid.shape=[80] dt=0.05",
    "reaction/fisher_front_2d": "system.grid.shape=[64,8] times.count=17 dt=0.05",
    "particles/solar_system": _PLANETS,
    "particles/solar_system_positions": _PLANETS,
    "cardiac/bocf_parameters": _TISSUE,
    "cardiac/bocf_hard_data": f"{_TISSUE} stages.whole.window=10.0",
    "cardiac/bocf_noisy": _TISSUE.replace("initial.rounds=2", "initial.rounds=2 stages.free_15.until=8.0"),
    "cardiac/bocf_quiet": _TISSUE.replace("initial.rounds=2", ""),
    "cardiac/bocf_parameters_512": f"{_TISSUE} initial.squares=3",
}
# distances from the truth, as fractions of that of a guess
PLACES = {"guess": 1.0, "near": 0.03, "truth": 0.0}
# shift of an estimate, in half widths of its interval, from which on a missing derivative must be found
MOVES = 0.1
JACOBIAN: Callable = eqx.filter_jit(lambda functional, theta: functional.jacobian(theta))


def row(*cells: Any) -> None:
    print("  ".join(str(cell) for cell in cells), flush=True)


def short(reason: str) -> str:
    return reason if len(reason) < 400 else f"{reason[:400]}..."


# --- false alarms --------------------------------------------------------------------------------------------------------


def drawn(name: str, seeds: int) -> Iterator[tuple[str, pdefit.Certificate]]:
    """Certificates of one case of the test zoo, at each place in turn."""
    case = CASES[name]
    for seed in range(seeds):
        place = list(PLACES)[seed % len(PLACES)]
        objective, driver = case.draw(seed, PLACES[place]), case.driver and case.driver()
        theta = objective.theta0
        yield f"seed {seed}, {place}", pdefit.certify(objective, theta, key=jax.random.key(seed), driver=driver)


def shipped(name: str, seeds: int) -> Iterator[tuple[str, pdefit.Certificate]]:
    """Certificates of a shipped fit at its guess and near the truth."""
    plugins.register()
    register_resolvers()
    for seed in range(seeds):
        with hydra.initialize_config_module("pdefit_conf", version_base="1.3"):
            overrides = [f"experiment={name}", f"seed={seed}", *SHIPPED[name].split()]
            settings = read_settings(hydra.compose("config", overrides=overrides))
        exp = build_experiment(settings)
        functional = first_functional(exp.functional, exp.stages)
        yield f"seed {seed}, guess", certified(functional, functional.theta0, exp, settings, exp.stages[0])
        if exp.truth is not None:
            rng = np.random.default_rng(seed)
            theta = exp.functional.controls.theta(
                eqx.tree_at(lambda p: p.nodes, exp.truth, exp.functional.problem.nodes, is_leaf=lambda x: x is None)
            )
            theta = theta * (1 + 1e-3 * rng.normal(size=theta.size))
            yield f"seed {seed}, near", certified(exp.functional, theta, exp, settings, exp.stages[-1])


def alarms(only: list[str], seeds: int, of_shipped: int) -> bool:
    wrong, total, cases = 0, 0, [(n, drawn(n, seeds)) for n in CASES] + [(n, shipped(n, of_shipped)) for n in SHIPPED]
    for name, certificates in cases:
        if only and name not in only:
            continue
        count, refused, seconds, begin = 0, 0, 0.0, time.perf_counter()
        for where, found in certificates:
            count, refused, seconds = count + 1, refused + (not found.passed), seconds + found.seconds
            if not found.passed:
                row(f"  FALSE ALARM {name}, {where}: {short(found.reason)}")
        scope = found.scope.get("observations"), found.scope.get("of")
        took = f"{seconds:6.1f} s of {time.perf_counter() - begin:6.1f} s"
        row(f"{name:24} {count:3} certificates, {refused} false, {took}, scope {scope[0]} of {scope[1]}")
        total, wrong = total + count, wrong + refused
        forget_programs()
    row(f"{wrong} false alarms in {total} certificates")
    return wrong == 0


# --- switches ------------------------------------------------------------------------------------------------------------


def fits(name: str, seeds: int) -> Iterator[tuple[str, pdefit.Functional, Any]]:
    """Fits of a kind of switch, of all sizes, with data of the same equations or of slightly different ones."""
    hard = name in SWITCHES
    kind = SWITCHES[name] if hard else KINKS[name]
    for seed in range(seeds):
        for k, size in enumerate(np.geomspace(*kind.sizes, 8 if hard else 4)):
            for wrong in (0.0, 2.0, 4.0) if hard else (0.0, 4.0):
                functional = kind.draw(size, 100 * seed + k, wrong)
                yield f"{name:12} size {size:8.2g} error {wrong:.0f} sigma", functional, jax.random.key(seed)


def switches(only: list[str], seeds: int) -> bool:
    missed = matter = at_guess = refused = kinks = pass_too = 0
    for name in [n for n in (*SWITCHES, *KINKS) if n in only or not only]:
        hard = name in SWITCHES
        for label, functional, key in fits(name, seeds):
            there = moved(functional, RESIDUALS, JACOBIAN)
            places = {"guess": functional.theta0, "estimate": there.theta}
            found = {where: pdefit.certify(functional, theta, key=key) for where, theta in places.items()}
            caught = [where for where, certificate in found.items() if not certificate.passed]
            matters = hard and there.shift >= MOVES
            verdict = "MISSED" if matters and not caught else "FALSE ALARM" if caught and not hard else ""
            # a question mark: the minimum was not found, so the shift is an estimate
            row(
                f"{label}  shift {there.shift:8.3f}{' ' if there.found else '?'} caught: {', '.join(caught) or '-'}  {verdict}"
            )
            if verdict:
                row("   ", short("; ".join(c.reason for c in found.values())) or worst(found["estimate"]))
            matter, missed = matter + matters, missed + (matters and not caught)
            at_guess, pass_too = (
                at_guess + (matters and "guess" in caught),
                pass_too + (hard and not matters and not caught),
            )
            kinks, refused = kinks + (not hard), refused + (not hard and bool(caught))
        forget_programs()
    row(
        f"{missed} of {matter} switches that move the estimate by {MOVES:g} half intervals or more missed, {at_guess} caught at"
    )
    row(f"the guess already; {pass_too} smaller ones pass; {refused} of {kinks} kinks refused")
    return missed == 0 and refused == 0


def worst(found: pdefit.Certificate) -> str:
    """The check that came nearest to its limit."""
    check = max(found.checks, key=lambda c: c.error / c.limit if c.limit else 0.0)
    return str(check)


# --- planted faults ------------------------------------------------------------------------------------------------------


def answer(objective: Any, driver: Any, what: str, theta: jax.Array) -> np.ndarray:
    """What a fit is told, through its driver."""
    driver = driver or pdefit.drivers.Traced()
    objective = driver.resolve_for(objective) if isinstance(driver, pdefit.drivers.Hosted) else objective
    if what == "product":
        return np.asarray(driver.product(objective, theta, jnp.ones_like(theta)))
    if what == "gradient":
        return np.asarray(driver.watched_gradient(objective, theta)[1])
    return np.concatenate([np.ravel(x) for x in driver.normal_equations(objective, theta)[1:]])


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def faults(only: list[str]) -> bool:
    """Plant every fault and certify; print what came of it."""
    missed, caught, explained = [], 0, 0
    for name, one in FAULTS.items():
        if only and not any(part in (name, one.room) for part in only):
            continue
        try:
            with one.planted() as planted:
                theta, size = planted.objective.theta0, "-"
                if one.wrong:
                    found = answer(planted.objective, planted.driver, one.wrong, theta)
                certificate_ = certificate(planted)
            if one.wrong:
                expected = answer(planted.clean, None, one.wrong, theta)
                size = f"{error(found, expected):.1e}"
                if not np.all(np.isfinite(expected)):
                    raise FloatingPointError("the fit is not finite without the fault")
            verdict = "caught" if not certificate_.passed else ("explained" if one.explained else "MISSED")
            said = certificate_.reason[:160] if not certificate_.passed else one.explained
        except Exception as problem:  # noqa: BLE001
            verdict, size, said = "ERROR", "?", f"{type(problem).__name__}: {str(problem)[:300]}"
        print(f"{one.room:16} {name:48} error {size:8} {verdict:9} {said}", flush=True)
        caught, explained = caught + (verdict == "caught"), explained + (verdict == "explained")
        missed += [name] if verdict in ("MISSED", "ERROR") else []
    total = caught + explained + len(missed)
    print(f"{caught} caught, {explained} explained, {len(missed)} missed of {total}: {', '.join(missed)}")
    return not missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("alarms", "switches", "faults"))
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--shipped", type=int, default=3, help="seeds of shipped fits")
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name]
    if given.what == "alarms":
        good = alarms(only, given.seeds or 12, given.shipped)
    elif given.what == "switches":
        good = switches(only, given.seeds or 1)
    else:
        good = faults(only)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
