"""Closures of a fluid with memory beside an affine rival: errors of the stress at a frequency that no fit saw.

    ./run python tests/benchmarks/fene_p_closure.py [--starts 5]

All are trained on pathways/fene_p_closure, up to t = 2 pi, and tested at the frequency 1.5 up to t = 10. The truth is that
of scripts/make_fene_p.py. Starts are seeds of the networks, and of the rival's constants. Printed is, for one and for two
latent states, the root mean square error of each start, and the median of the ratio of the rival's best to it.
Published: more than 50 (C. Rackauckas et al., arXiv:2001.04385).
"""

import argparse
import runpy
import time
from pathlib import Path

from pdefit.cli.runtime.environment import prepare

prepare()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_pathways import ShearStress

import pdefit

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_fene_p.py"
TERMS = "stress", "memory1", "memory2"
ONE = [f"system.{n}.inputs=[phi1,g]" for n in TERMS]


def overrides(kind: str, latent: int, start: int) -> list[str]:
    """Settings of a start; with one latent state the second is not used by anything."""
    given = ONE if latent == 1 else []
    if kind == "closure":
        seeds = [f"++system.{n}.seed={10 * start + k}" for k, n in enumerate(TERMS)]
        return given + seeds + ([f"system.{n}.sizes=[4.0,12.0]" for n in TERMS] if latent == 1 else [])
    rng = np.random.default_rng(start)
    inputs = ("phi1", "g") if latent == 1 else ("phi1", "phi2", "g")
    formula = " + ".join(["c0", *(f"c{i + 1} * {n}" for i, n in enumerate(inputs))])
    numbers = [
        f"system.{n}.constants={{{','.join(f'c{i}: {c:.3f}' for i, c in enumerate(0.1 * rng.normal(size=len(inputs) + 1)))}}}"
        for n in TERMS
    ]
    return given + [f"system.{n}.formula='{formula}'" for n in TERMS] + numbers


def error(kind: str, latent: int, start: int, truth: np.ndarray, ts: np.ndarray) -> float:
    """The root mean square error of a fit at the other frequency."""
    begun = time.process_time()
    exp = pdefit.load_experiment(f"pathways/fene_p_{kind}", overrides(kind, latent, start))
    fit = pdefit.fit(exp.functional, exp.stages)
    system = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, fit.problem.system)
    system = eqx.tree_at(lambda s: s.frequency, system, jnp.asarray(1.5))
    solver = pdefit.solvers.RK4()
    film = pdefit.simulate(system, system.init(None), ts, observe=ShearStress(), solver=solver, dt=0.0635)
    off = float(np.sqrt(np.mean((np.asarray(film.values["stress"]) - truth) ** 2)))
    print(
        f"  {kind} {latent} start {start}: test {off:.5f}  {fit.iterations} evaluations  converged {fit.converged}  "
        f"{time.process_time() - begun:.0f} CPU s",
        flush=True,
    )
    return off


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=5)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    ts = np.linspace(0.0, 10.0, 160)
    truth = runpy.run_path(str(SCRIPT))["stress"](ts, 1.5)
    for latent in (2, 1):
        rival = min(error("affine", latent, start, truth, ts) for start in range(2))
        nets = [error("closure", latent, start, truth, ts) for start in range(asked.starts)]
        ratios = np.sort(rival / np.asarray(nets))
        print(f"{latent} latent: rival {rival:.4f}, ratios {np.round(ratios, 1)}, median {np.median(ratios):.1f}")


if __name__ == "__main__":
    main()
