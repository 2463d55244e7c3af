"""Objectives over several devices."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from problems import fisher_functional

import pdefit

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "many_devices.py"


def test_values_and_gradients_are_those_of_one_device_and_no_field_is_gathered():
    # the number of devices is settled when JAX starts; tests/cli/run/test_processes.py has a process for each
    words = [sys.executable, BENCHMARK, "--cells", "16", "--devices", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2 devices") == 3 and "all-gather" not in done.stdout, done.stdout
    assert "collective-permute" in next(line for line in done.stdout.splitlines() if line.startswith("tissue"))


def test_one_device_changes_nothing():
    functional = fisher_functional()
    assert pdefit.spread(functional, jax.devices()[:1]) is functional
    batch = pdefit.batches.Devices(jax.devices()[:1], pdefit.batches.Loop())
    assert (batch.devices_for(6), batch.at_once(6), batch.recompute(6)) == (1, 1, 1)
    np.testing.assert_array_equal(batch(lambda x: 2 * x, np.arange(3.0)), [0.0, 2.0, 4.0])


def test_what_devices_cannot_share_is_refused():
    two = [jax.devices()[0]] * 2
    with pytest.raises(pdefit.PdefitError, match="3 recordings cannot be shared evenly by 2 devices"):
        pdefit.spread(pdefit.Recordings([fisher_functional()] * 3), two)
    with pytest.raises(pdefit.PdefitError, match="expects one device or more"):
        pdefit.batches.Devices(())
