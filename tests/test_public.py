"""The public names, and what importing them does."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from problems import fisher

import pdefit

NAMESPACES = (
    "adjoints", "batches", "boundaries", "capabilities", "drivers", "formulations", "guesses", "instruments", "optimizers",
    "priors", "regularizers", "solvers", "transforms",
)  # fmt: skip

_IMPORTS = """
import os, sys
before = dict(os.environ)
import pdefit
assert "jax" not in sys.modules and dict(os.environ) == before
import jax
pdefit.Functional, pdefit.solvers.RK4
assert not jax.config.read("jax_enable_x64")
"""


def test_importing_changes_no_global_state():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _IMPORTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_is_in_one_place():
    top = set(dir(pdefit))
    assert set(NAMESPACES) <= top
    for name in NAMESPACES:
        inside = {n for n in vars(getattr(pdefit, name)) if n[:1].isupper()}
        assert inside and not inside & top


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pdefit.Nothing


def test_single_precision_is_refused_with_the_remedy():
    system = fisher()
    y0 = system.init(None)
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(pdefit.PdefitError, match="jax_enable_x64"):
            pdefit.simulate(system, y0, np.linspace(0.0, 1.0, 3))
    finally:
        jax.config.update("jax_enable_x64", True)
