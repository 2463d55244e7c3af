"""Objectives over the cores of a machine: the same numbers, whatever their number."""

import os
import subprocess
import sys
from pathlib import Path

# the number of devices is settled when JAX starts
_SCRIPT = """
import os
os.sched_getaffinity = lambda _: {0, 1, 2}
from pdefit.cli.runtime.environment import prepare
prepare()
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_cardiac import BOCF
from pdefit_cardiac.parameter_sets import TUTORIAL
from problems import fisher_functional
import pdefit
from pdefit.cli.config.settings import choose_cores, choose_devices
from pdefit.inverse.objective.compiled import EQUATIONS, VALUE, normal_equations
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.objective.spread import at_points, over_cores

assert [choose_cores(n, "cores") for n in (None, 1, 2, 9)] == [3, 1, 2, 3]
assert choose_devices("all", "device") == ()

TEN = ("u_s", "u_so", "k_so", "tau_so1", "tau_si", "k_s", "u_u", "theta_v", "D", "tau_fi")
grid = pdefit.CartesianGrid(shape=(8, 8), extent=(8.0, 8.0), length_unit="1")
system = BOCF(grid=grid, **{**TUTORIAL, "D": 0.1})
y0, ts = system.init(None), 0.1 * np.arange(3)
y0 = y0._replace(u=jnp.linspace(0.0, 1.2, 64).reshape(8, 8))
data = pdefit.Observations.build(ts, {n: np.full((3, 8, 8), 0.3) for n in y0._fields})
controls = {n: pdefit.transforms.Log() for n in TEN}
tissue = pdefit.Functional(pdefit.Problem(system, y0), data, controls, dt=0.05)
# all tangents together, whose solver is prepared on every device
front = fisher_functional(solver=pdefit.solvers.IMEX())

def compared(one, two):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.max(np.abs(a)))

for functional, numbers in ((tissue, (2, 3)), (front, (2,))):
    theta = functional.theta0
    expected = normal_equations(functional, theta)
    for cores in numbers:
        shared = over_cores(functional, jax.devices()[:cores], least=0.0)
        assert "all-gather" in EQUATIONS.lower(shared, theta).compile().compiled.as_text()
        compared(expected, normal_equations(shared, theta))
assert over_cores(front, jax.devices()) is front
shared = over_cores(front, jax.devices(), least=0.0)
points = [front.theta0 + 0.1 * i for i in range(4)]
found = list(at_points(VALUE, shared, points))
compared([VALUE(front, x) for x in points], found)
# four points in as few rounds as on three, so two devices
assert VALUE._quick._cached._cache_size() == 1
before, after = fingerprint(front), fingerprint(shared)
assert {n for n in before if before[n] != after[n]} == {"flags"}
print("the same")
"""


def test_two_or_three_cores_give_the_numbers_of_one():
    tests = Path(__file__).parents[2]
    # flags that are not pdefit's own leave devices alone
    flags = os.environ.get("XLA_FLAGS", "none")
    environment = {**os.environ, "PYTHONPATH": str(tests), "PDEFIT_XLA_FLAGS": flags}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0 and "the same" in done.stdout, done.stdout + done.stderr
