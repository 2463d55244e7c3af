"""A FENE-P fluid: stresses of another method, its limit of long springs, and equivalent closures."""

import runpy
from pathlib import Path

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_pathways import FeneP, FluidClosure, ShearStress

import pdefit
from pdefit.terms import Formula

ROOT = Path(__file__).parents[3]
STATES = ("phi1", "phi2", "g")


def stresses(fluid, ts, dt=0.02):
    seen = pdefit.simulate(fluid, fluid.init(None), ts, observe=ShearStress(), solver=pdefit.solvers.RK4(), dt=dt)
    return np.asarray(seen.values["stress"])


def test_shipped_stresses_are_those_of_the_fluid_and_of_a_closure_with_its_laws():
    with h5py.File(ROOT / "data" / "pathways" / "fene_p.h5") as file:
        ts, frequency, expected = file["time"][:], file["frequency"][3], file["stress"][3]
    fluid = FeneP(relaxation=2.0, extension=2.0, viscosity=4.0, frequency=frequency)
    np.testing.assert_allclose(stresses(fluid, ts), expected, atol=1e-5)
    # phi1 and phi2 as theta11 and theta12
    f = "(4 + 0.5 * phi1 / (2 - phi1 / 8))"
    same = FluidClosure(
        stress=Formula(f"{f} * phi2 / 2", STATES),
        memory1=Formula("2 * g * phi2 - 4 * phi1 / (2 - phi1 / 8)", STATES),
        memory2=Formula(f"4 * g / {f} - {f} * phi2 / 2", STATES),
        frequency=frequency,
    )
    np.testing.assert_allclose(stresses(same, ts), expected, atol=1e-5)


def test_long_springs_are_a_linear_fluid():
    """For large L, f is 1 and the stress has one relaxation mode, in closed form."""
    eta, time, g, w = 4.0, 2.0, 0.5, 1.5
    ts = np.linspace(0.0, 6.0, 13)
    fluid = FeneP(relaxation=time, extension=1e4, viscosity=eta, amplitude=g, frequency=w)
    size = eta * g / (1 + (w * time) ** 2)
    expected = size * (np.cos(w * ts) + w * time * np.sin(w * ts) - np.exp(-ts / time))
    np.testing.assert_allclose(stresses(fluid, ts), expected, atol=1e-6)


def test_the_script_makes_the_stress_at_any_frequency():
    ts = np.linspace(0.0, 10.0, 21)
    made = runpy.run_path(str(ROOT / "scripts" / "make_fene_p.py"))["stress"](ts, 1.5)
    fluid = FeneP(relaxation=2.0, extension=2.0, viscosity=4.0, frequency=1.5)
    np.testing.assert_allclose(stresses(fluid, ts), made, atol=1e-5)


def test_one_latent_state_leaves_the_second_at_rest():
    closure = FluidClosure(stress=Formula("phi1", ("phi1",)), memory1=Formula("g - phi1", ("phi1", "g")))
    y = closure.init(None)._replace(phi1=jnp.asarray(0.3))
    rates = closure.vector_field(0.0, y, None)
    assert float(rates.phi1) == pytest.approx(11.7) and float(rates.phi2) == 0.0
