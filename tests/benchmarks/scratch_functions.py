"""Diffusivity and growth of cells as free functions: what they leave over, and formulas in their place.

    ./run python tests/benchmarks/scratch_functions.py RUN

RUN is a fit of reaction/scratch_assay_discovery. Its misfit is that of tests/benchmarks/scratch_assay.py, beside which it
stands: frames of all eighteen wells to 36 h, and the photographs of 48 h, which were not fitted. Formulas are sought on one
well of each seeding, a third of the data: a search refits eight sets of terms, and eighteen profiles at the start make each
slow.
"""

import dataclasses
import sys
import time

import equinox as eqx
import jax
import numpy as np

import pdefit
from pdefit.analysis.discovery.band import band

jax.config.update("jax_enable_x64", True)
GRID = (50.0, 200.0, 400.0, 800.0, 1200.0, 1500.0, 1700.0)


def six(exp):
    """The functional of the first well of each seeding."""
    one, first = exp.functional, slice(None, None, 3)
    system = dataclasses.replace(one.problem.system, wells=6)
    problem = pdefit.Problem(system, jax.tree.map(lambda x: x[first], one.problem.y0))
    data = jax.tree.map(lambda x: x[:, first] if np.ndim(x) == 3 else x, one.observations)
    return pdefit.Functional(problem, data, exp.settings.controls, solver=pdefit.solvers.RK4(), dt=one.dt)


def main(path):
    exp, run = pdefit.load_experiment("reaction/scratch_assay_discovery"), pdefit.load_run(path)
    functional = exp.functional
    theta = functional.controls.theta(run.problem)
    record = exp.source.record
    states = pdefit.solve(
        run.problem.system, run.problem.y0, record.ts, solver=pdefit.solvers.RK4(), dt=functional.dt, t0=0.0
    )
    r, sigma = np.asarray(record.values["u"] - states.u), np.asarray(record.sigma["u"])
    print(
        f"chi2 {np.sum((r / sigma)[:4] ** 2):.0f} of {r[:4].size} values ({np.mean((r / sigma)[:4] ** 2):.3f} a value); rms "
        f"{np.sqrt(np.mean(r[:4] ** 2)):.1f}, 48 h {np.sqrt(np.mean(r[4] ** 2)):.1f} cells/mm^2 (counting "
        f"{np.sqrt(np.mean(sigma[4] ** 2)):.1f})"
    )
    # as evidence of the other models is: over starts, functions and their priors
    average = pdefit.marginal_likelihood(functional, theta)
    print(f"k {average.effective_unknowns:.1f}, ln Z {average.log_evidence or np.nan:.1f} {average.reason}")
    F = np.asarray(eqx.filter_jit(lambda f, x: f.normal_equations(x)[2])(functional, theta))
    covariance, u = np.linalg.inv(F), np.array(GRID)
    for name in ("D", "growth"):
        found = band(functional, theta, name, (u,), covariance)
        said = "  ".join(f"{x:.0f}: {v:.3g} +- {e:.2g}" for x, v, e in zip(u, found.value, found.error, strict=True))
        print(f"{name} at u = {said}")
    visited = np.linspace(0.0, float(np.max(np.asarray(states.u))), 400)
    print(f"least D up to u = {visited[-1]:.0f}: {float(np.min(run.problem.system.D(visited))):.4g} mm^2/day")
    begin, part = time.process_time(), six(exp)
    fit = pdefit.fit(part, exp.stages)
    print(
        f"six wells: chi2 {2 * float(fit.loss):.0f}, {fit.iterations} evaluations, CPU s {time.process_time() - begin:.0f}"
    )
    begin = time.process_time()
    found = pdefit.discover(fit.functional, fit.theta, degree=3, most=5)
    print(f"discover: CPU s {time.process_time() - begin:.0f}, {found.values} values, misses: {found.misses}")
    for one in (found.best, *found.rivals):
        print(f"  {one}  errors {dict(one.errors)}  chi2 {one.chi2:.1f}  criterion {one.criterion:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
