"""Solitons, published solutions, and a chaotic flame front from another method."""

import equinox as eqx
import h5py
import jax.numpy as jnp
import numpy as np
import scipy.io
from pdefit_classics import AllenCahn, FourierBurgers, KortewegDeVries, KuramotoSivashinsky

import pdefit
from pdefit.data.readers.locate import locate

ETDRK4 = pdefit.solvers.ETDRK4()


def published(name, *variables):
    record = scipy.io.loadmat(locate(f"classics/{name}.mat"))
    return [np.real(record[v]).squeeze() for v in variables]


def soliton(system, t):
    return np.asarray(eqx.filter_jit(lambda system, t: system.soliton(t).u)(system, jnp.asarray(t)))


def run(system, u, ts, dt):
    y0 = type(system.init(None))(jnp.asarray(u))
    return np.asarray(pdefit.solve(system, y0, np.asarray(ts), solver=ETDRK4, dt=dt, t0=ts[0]).u)


def test_two_solitons_pass_through_each_other_and_are_shifted():
    """Amplitudes 3 c / a are conserved. The collision shifts the fast one forward and the slow one back, by known shifts."""
    system = KortewegDeVries(pdefit.FourierGrid((512,), (80.0,), (-40.0,)), 6.0, 1.0, 4.0, -20.0)
    slow = KortewegDeVries(system.grid, 6.0, 1.0, 1.0, 0.0)
    t = 10.0
    u = run(system, soliton(system, 0.0) + soliton(slow, 0.0), [0.0, t], 1e-3)[-1]
    # a speed c belongs to the wave number sqrt(c); the logarithm of ((2 + 1) / (2 - 1))^2 is shared in inverse proportion
    shift = 2 * np.log(3.0)
    ahead = KortewegDeVries(system.grid, 6.0, 1.0, 4.0, -20.0 + shift / 2)
    behind = KortewegDeVries(system.grid, 6.0, 1.0, 1.0, -shift)
    exact = soliton(ahead, t) + soliton(behind, t)
    np.testing.assert_allclose(u, exact, atol=2e-5)
    assert np.abs(exact - soliton(system, t)).max() > 0.4


def test_solitons_keep_shape_and_momentum():
    """Momentum is conserved up to the error of the steps."""
    system = KortewegDeVries(pdefit.FourierGrid((512,), (80.0,), (-40.0,)), 6.0, 1.0, 4.0, -20.0)
    first, last = run(system, system.init(None).u, [0.0, 10.0], 1e-3)
    np.testing.assert_allclose(np.sum(last**2), np.sum(first**2), rtol=1e-8)
    np.testing.assert_allclose(last, soliton(system, 10.0), atol=1e-6)


def test_the_published_solution_of_korteweg_and_de_vries():
    x, t, u = published("KdV", "x", "tt", "uu")
    system = KortewegDeVries(pdefit.FourierGrid((256,), (2.0,), (-1.0,)), 1.0, 0.0025)
    np.testing.assert_allclose(system.grid.axis(0), x[::2], atol=1e-14)
    found = run(system, u[::2, 0], t[[0, 40, 160]], 1e-3)
    np.testing.assert_allclose(found, u[::2, [0, 40, 160]].T, atol=1e-6)


def test_the_published_solution_of_allen_and_cahn():
    x, t, u = published("AC", "x", "tt", "uu")
    system = AllenCahn(pdefit.FourierGrid((512,), (2.0,), (-1.0,)), 1e-4, 5.0, 5.0)
    np.testing.assert_allclose(system.init(None).u, u[:, 0], atol=1e-14)
    np.testing.assert_allclose(run(system, u[:, 0], t[[0, 100, 200]], 5e-3), u[:, [0, 100, 200]].T, atol=2e-8)


def test_the_published_shock():
    x, t, u = published("burgers_shock", "x", "t", "usol")
    # every fourth point is one of the record
    system = FourierBurgers(pdefit.FourierGrid((1020,), (2.0,), (-1.0,)), 1.0, 0.01 / np.pi)
    found = run(system, system.init(None).u, t[[0, 50, 99]], 2.5e-3)
    np.testing.assert_allclose(system.grid.axis(0)[::4], x[:-1], atol=1e-14)
    np.testing.assert_allclose(found[:, ::4], u[:-1, [0, 50, 99]].T, atol=3e-5)


def test_the_energy_spectrum_of_a_flame_front():
    """Period 32 pi, mean over t = 50 to 100, against another method at a smaller step; u itself agrees to t = 100."""
    with h5py.File(locate("classics/kuramoto_sivashinsky.h5")) as file:
        t, u = file["time"][:101], file["u"][:101]
    system = KuramotoSivashinsky(pdefit.FourierGrid((128,), (32 * np.pi,)), 1.0, 1.0, 1.0)
    found = run(system, system.init(None).u, t, 0.05)
    np.testing.assert_allclose(found, u, atol=1e-3)

    def spectrum(u):
        return np.mean(np.abs(np.fft.rfft(u[50:], axis=1)[:, :30] / 128) ** 2, axis=0)

    np.testing.assert_allclose(spectrum(found), spectrum(u), rtol=1e-4, atol=1e-12)
