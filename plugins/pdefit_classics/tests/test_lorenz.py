"""Lorenz's equations against another method, and known properties of their attractor."""

import h5py
import jax.numpy as jnp
import numpy as np
from pdefit_classics import Lorenz

import pdefit
from pdefit.data.readers.locate import locate

SYSTEM = Lorenz(10.0, 28.0, 8 / 3)


def test_a_run_of_another_method():
    """Up to t = 8: errors grow by a factor e in 1.1 on average."""
    with h5py.File(locate("classics/lorenz.h5")) as file:
        t, states = file["time"][:401:40], [file[name][:401:40] for name in "xyz"]
    found = pdefit.solve(SYSTEM, SYSTEM.init(None), t, solver=pdefit.solvers.RK4(), dt=2e-3, t0=0.0)
    np.testing.assert_allclose(np.stack(found), states, atol=2e-4)


def test_the_two_centres_stand_still():
    x = np.sqrt(8 / 3 * 27)
    for sign in (1, -1):
        y = type(SYSTEM.init(None))(*map(jnp.asarray, (sign * x, sign * x, 27.0)))
        np.testing.assert_allclose(np.stack(SYSTEM.vector_field(0.0, y, None)), 0.0, atol=1e-12)
