"""Diffusivity and growth of cells as free functions: what they leave over beside three given forms.

    ./run python tests/benchmarks/scratch_functions.py [fisher] [porous] [lag] [free]

As reaction/scratch_assay_discovery, on the first well of each seeding, a third of the data: with all eighteen profiles at
the start an evaluation takes much longer. All models have the same unknown
profiles. The photographs of 48 h are predicted. The misfit is in units of the counting error, priors apart.
"""

import dataclasses
import sys
import time

import equinox as eqx
import jax
import numpy as np

import pdefit
from pdefit.terms import Formula, Series

jax.config.update("jax_enable_x64", True)
POINTS = (50.0, 200.0, 400.0, 800.0, 1200.0, 1500.0, 1700.0)
# a power of nothing has no derivative
POROUS = Formula("D0 * (abs(u) / 1700 + 0.001)^m", ("u",), {"D0": 0.012, "m": 0.5})
CONSTANT = Formula("D0", ("u",), {"D0": 0.012})
GROWTH = Formula("1000 * r * (u / 1000) * (1 - u / (1700 * K))", ("u",), {"r": 1.2, "K": 1.0})
# of the free functions and of the given forms, whose controls are none but constants
MODELS = {"fisher": (CONSTANT, GROWTH, ()), "porous": (POROUS, GROWTH, ()), "lag": (CONSTANT, GROWTH, ("lag",))}
WELLS = slice(None, None, 3)
# those of the experiment
CONTROLS = {
    "D": pdefit.Control(prior=pdefit.priors.Normal(-4.4, 0.7), bounds=(-8.0, -3.0)),
    "growth": pdefit.Control(scale=500.0, prior=pdefit.priors.Normal(0.0, 1000.0)),
    "y0": {"u": pdefit.Control(guess=pdefit.guesses.FromData(), smoothing=pdefit.Smoothing(0.1, 400.0))},
}


def six(exp, D=None, growth=None, more=()):
    """The functional of the first well of each seeding, with other terms."""
    one = exp.functional
    system = dataclasses.replace(one.problem.system, wells=6, lag=np.asarray(0.3 if "lag" in more else 0.0))
    controls = dict(CONTROLS)
    if D is not None:
        system = dataclasses.replace(system, D=D, growth=growth)
        controls |= {"D": {"constants": {n: _control(n) for n in D.constants}}, "growth": pdefit.Control()}
    controls |= {name: pdefit.Control(bounds=(0.01, 5.0)) for name in more}
    data = jax.tree.map(lambda x: x[:, WELLS] if np.ndim(x) == 3 else x, one.observations)
    problem = pdefit.Problem(system, jax.tree.map(lambda x: x[WELLS], one.problem.y0))
    return pdefit.Functional(problem, data, controls, solver=pdefit.solvers.RK4(), dt=one.dt)


def _control(name):
    if name == "D0":
        return pdefit.Control(pdefit.transforms.Log(), bounds=(1e-4, 0.05))
    return pdefit.Control(bounds=(0.0, 3.0))


def misfits(name, exp, found, seconds):
    problem, record = found.problem, exp.source.record
    states = pdefit.solve(
        problem.system, problem.y0, record.ts, solver=pdefit.solvers.RK4(), dt=exp.functional.dt, t0=0.0
    )
    r, sigma = np.asarray(record.values["u"])[:, WELLS] - states.u, np.asarray(record.sigma["u"])[:, WELLS]
    square = np.asarray(r / sigma) ** 2
    print(
        f"{name}: chi2 {square[:4].sum():.0f} of {square[:4].size} values, with priors {2 * float(found.loss):.0f}; rms "
        f"{np.sqrt(np.mean(r[:4] ** 2)):.1f}, at 48 h {np.sqrt(np.mean(r[4] ** 2)):.1f} (counting "
        f"{np.sqrt(np.mean(sigma[4] ** 2)):.1f}) cells/mm^2; {found.iterations} evaluations, converged {found.converged}, "
        f"CPU s {seconds:.0f}",
        flush=True,
    )
    return states


def main(names):
    exp = pdefit.load_experiment("reaction/scratch_assay_discovery")
    fits = {}
    for name in names or (*MODELS, "free"):
        given = MODELS.get(name, (None, None, ()))
        begin = time.process_time()
        fits[name] = pdefit.fit(six(exp, *given), exp.stages)
        states = misfits(name, exp, fits[name], time.process_time() - begin)
        system = fits[name].problem.system
        if name != "free":
            print(
                "   ",
                {n: float(x) for n, x in {**system.D.constants, **system.growth.constants, "lag": system.lag}.items()},
            )
            continue
        F = np.asarray(eqx.filter_jit(lambda f, x: f.normal_equations(x)[2])(fits[name].functional, fits[name].theta))
        for term in ("D", "growth"):
            found = pdefit.band(fits[name].functional, fits[name].theta, term, (np.array(POINTS),), np.linalg.inv(F))
            rows = zip(POINTS, found.value, found.error, strict=True)
            print(f"    {term}", "  ".join(f"{u:.0f}: {x:.3g} +- {e:.2g}" for u, x, e in rows))
        assert isinstance(system.D, Series)
        visited = np.linspace(0.0, float(np.max(np.asarray(states.u))), 400)
        print(f"    least D up to u = {visited[-1]:.0f}: {float(np.min(system.D(visited))):.3g}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
