"""Parameters from data of hard switches."""

import dataclasses

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_cardiac import BOCF, TUTORIAL

import pdefit

FACTORS = {"u_s": 1.15, "tau_si": 0.85, "u_u": 1.15, "theta_v": 0.85, "D": 1.15, "tau_fi": 0.85}


@pytest.fixture(scope="module")
def record():
    """A wave along a cable, seen every half a millisecond while its front passes."""
    grid = pdefit.CartesianGrid(shape=(48,), extent=(4.8,), length_unit="cm")
    tissue = BOCF(grid, **TUTORIAL, is_smooth=False)
    start = pdefit.solve(tissue, tissue.init(None), np.array([3.0]), solver=diffrax.Euler(), dt=0.05, t0=0.0)
    y0 = type(start)(*(x[-1] for x in start))
    return tissue, y0, pdefit.simulate(tissue, y0, np.linspace(0.0, 10.0, 21), solver=diffrax.Euler(), dt=0.05)


def errors(record, smooth_tangents):
    """Relative errors of parameters that start 15 % off, on windows that restart from the data."""
    tissue, y0, data = record
    guess = {n: jnp.asarray(TUTORIAL[n] * f) for n, f in FACTORS.items()}
    model = dataclasses.replace(tissue, is_smooth=not smooth_tangents, sharpness=None, **guess)
    functional = pdefit.Functional(
        pdefit.Problem(model, y0), data, {n: pdefit.transforms.Log() for n in FACTORS}, solver=diffrax.Euler(), dt=0.05,
        formulation=pdefit.formulations.Segments(0.5), smooth_tangents=smooth_tangents,
    )  # fmt: skip
    found = pdefit.fit(functional, [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 25)])
    return {n: abs(float(getattr(found.problem.system, n)) / TUTORIAL[n] - 1) for n in FACTORS}


def test_hard_residuals_with_smooth_tangents_find_the_parameters(record):
    assert max(errors(record, smooth_tangents=True).values()) < 1e-4


def test_a_smooth_model_is_biased(record):
    assert max(errors(record, smooth_tangents=False).values()) > 0.01
