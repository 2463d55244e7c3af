"""Lotka-Volterra: an invariant, the period of small orbits, crowding, and a table of another method."""

import subprocess
import sys
from pathlib import Path

import diffrax
import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_populations import HybridLotkaVolterra, LotkaVolterra
from pdefit_populations.lotka_volterra import State

import pdefit
from pdefit.data.readers.recordings import split_recordings

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_populations.py"
SYSTEM = LotkaVolterra(alpha=0.7, beta=0.9, gamma=0.5, delta=0.6, start=(0.4, 0.3))


def run(system, ts, dt=0.02):
    return pdefit.solve(system, system.init(None), np.asarray(ts), solver=diffrax.Dopri8(), dt=dt, t0=0.0)


def test_an_orbit_keeps_its_constant_and_crowding_does_not():
    crowded = LotkaVolterra(alpha=0.7, beta=0.9, gamma=0.5, delta=0.6, c1=-0.05, start=(0.4, 0.3))
    first = float(SYSTEM.invariants(SYSTEM.init(None))["V"])
    for system, limit in ((SYSTEM, 1e-11), (crowded, None)):
        film = run(system, np.linspace(0.0, 40.0, 9))
        drift = np.abs(np.asarray(jax.vmap(SYSTEM.invariants)(film)["V"]) - first).max()
        assert drift < limit if limit else drift > 0.01


def test_small_orbits_have_the_known_period():
    centre = np.array([0.5 / 0.6, 0.7 / 0.9])
    system = LotkaVolterra(alpha=0.7, beta=0.9, gamma=0.5, delta=0.6, start=tuple(centre * [1.001, 1.0]))
    back = run(system, [2 * np.pi / np.sqrt(0.7 * 0.5)])
    np.testing.assert_allclose(np.ravel(back), np.asarray(system.start), atol=1e-6)


def test_prey_alone_grows_to_its_capacity_and_both_rest_there():
    """x = -alpha / c1 without a predator, by the logistic law."""
    system = LotkaVolterra(alpha=0.8, beta=0.5, gamma=0.5, delta=0.1, c1=-0.4, start=(0.1, 0.0))
    t = np.array([2.0, 5.0, 12.0])
    prey, predator = run(system, t)
    np.testing.assert_allclose(prey, 2 / (1 + 19 * np.exp(-0.8 * t)), rtol=1e-10)
    assert np.all(np.asarray(predator) == 0)
    rest = system.vector_field(0.0, State(jnp.asarray(2.0), jnp.asarray(0.0)), None)
    np.testing.assert_allclose(np.ravel(rest), 0.0, atol=1e-15)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two tables of the same three systems, without noise and with 10 %."""
    made = {level: tmp_path_factory.mktemp("tables") / f"{level}.h5" for level in (0.0, 0.1)}
    for level, path in made.items():
        command = [sys.executable, str(SCRIPT), str(path), "--systems", "3", "--level", str(level)]
        subprocess.run(command, check=True, timeout=600)
    return made


def test_a_table_of_another_method(tables):
    with h5py.File(tables[0.0]) as file:
        for number in range(3):
            rates = {name: file[name][number] for name in ("alpha", "beta", "gamma", "delta")}
            start = (file["prey_start"][number], file["predator_start"][number])
            found = run(LotkaVolterra(**rates, start=start), file["time"][:], 0.05)
            expected = [file[name][number] for name in ("prey", "predator")]
            np.testing.assert_allclose(np.stack(found), expected, rtol=1e-8)
    assert split_recordings(tables[0.0], "system") == ["0", "1", "2"]


def test_noise_of_a_table_is_a_share_of_each_value(tables):
    with h5py.File(tables[0.0]) as exact, h5py.File(tables[0.1]) as noisy:
        np.testing.assert_array_equal(exact["alpha"][:], noisy["alpha"][:])
        shares = [noisy[name][:] / exact[name][:] - 1 for name in ("prey", "predator")]
    assert np.std(shares) == pytest.approx(0.1, rel=0.1) and abs(np.mean(shares)) < 0.01
    small, large = (np.std(np.asarray(shares)[:, :, part]) for part in (slice(0, 100), slice(100, 200)))
    assert small == pytest.approx(large, rel=0.2)


class Encounters(eqx.Module):
    """The rates of encounters, plus an additional growth of the prey."""

    growth: jax.Array

    def __call__(self, both):
        x, y = both
        return jnp.stack([self.growth * x - 0.9 * x * y, 0.6 * x * y])


def test_a_network_stands_for_encounters_and_takes_over_the_growth_of_the_prey():
    y = State(jnp.asarray(0.4), jnp.asarray(0.3))
    known = SYSTEM.vector_field(0.0, y, None)
    for alpha in (0.7, 0.2):
        hybrid = HybridLotkaVolterra(
            alpha=alpha, beta=0.9, gamma=0.5, delta=0.6, net=Encounters(jnp.asarray(0.7 - alpha))
        )
        np.testing.assert_allclose(np.ravel(hybrid.vector_field(0.0, y, None)), np.ravel(known), rtol=1e-12)
    assert {"alpha", "gamma", "net"} <= set(pdefit.parameters(HybridLotkaVolterra))
