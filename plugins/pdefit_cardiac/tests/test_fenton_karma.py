"""One cell of Fenton and Karma: rest, an action potential against another method, and the times of the stimulus."""

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_cardiac import FentonKarma
from pdefit_cardiac.fenton_karma import State
from scipy.integrate import solve_ivp

import pdefit
from pdefit.data.readers.locate import locate


def test_a_cell_without_stimulus_rests():
    system = FentonKarma(amplitude=0.0)
    rate = system.vector_field(jnp.asarray(3.0), system.init(None), None)
    # what the smooth switches leave open at rest: 4e-8 of the slow inward current, 5e-12 of the others
    np.testing.assert_allclose(rate, [1.4e-9, 0.0, 0.0], atol=2e-10)
    end = pdefit.solve(system, system.init(None), np.array([500.0]), solver=pdefit.solvers.RK4(), dt=0.5, t0=0.0)
    np.testing.assert_allclose(np.ravel(end), [0.0, 1.0, 1.0], atol=1e-7)


def test_an_action_potential_of_another_method():
    """The equations coded independently, with adaptive steps of the eighth order."""
    p = FentonKarma(t0=-140.0, period=300.0)

    def switch(x, k):
        return (1 + np.tanh(k * x)) / 2

    def rate(t, y):
        u, v, w = y
        a = switch(u - 0.13, 100)
        current = 0.16 * switch(t + 140, 1) * np.sin(np.pi * (t + 140) / 300) ** 500
        inward = v * a * (1 - u) * (u - 0.13) / 0.25 + w * switch(u - 0.85, 10) / 29
        opening = 19.6 * switch(0.04 - u, 100) + 1250 * switch(u - 0.04, 100)
        return [
            current + inward - u * (1 - a) / 12.5 - a / 33.3,
            (1 - a) * (1 - v) / opening - a * v / 3.33,
            (1 - a) * (1 - w) / 41 - a * w / 870,
        ]

    ts = np.array([2.0, 8.0, 14.0, 40.0, 100.0])
    expected = solve_ivp(rate, (0.0, 100.0), [0.0, 1.0, 1.0], "DOP853", ts, rtol=1e-10, atol=1e-12).y
    # an upstroke and a plateau
    assert expected[0, 0] < 0.1 < 0.8 < expected[0, 2] < expected[0, 4]
    found = pdefit.solve(p, p.init(None), ts, solver=pdefit.solvers.RK4(), dt=0.02, t0=0.0)
    np.testing.assert_allclose(np.stack(found), expected, atol=1e-5)


def test_stimuli_come_half_a_period_after_t0_and_then_after_each_period():
    system = FentonKarma(t0=-20.0, period=150.0, amplitude=0.2)
    t = np.arange(0.0, 400.0, 0.25)
    current = np.asarray(jax.vmap(system.stimulus)(jnp.asarray(t)))
    peaks = t[1:-1][(current[1:-1] > current[:-2]) & (current[1:-1] > current[2:])]
    np.testing.assert_allclose(peaks, [55.0, 205.0, 355.0])
    np.testing.assert_allclose(current[np.isin(t, peaks)], 0.2, rtol=1e-12)
    # none comes before t0
    assert float(system.stimulus(jnp.asarray(-95.0))) == pytest.approx(0.0, abs=1e-15)


def test_the_recordings_fit_the_equations():
    with h5py.File(locate("cardiac/canine_traces.h5")) as file:
        voltage, time = file["voltage"][:] * file["voltage"].attrs["scale_factor"], file["time"][:]
        cycle, phase = file["cycle_length"][:], file["phase"][:]
    assert voltage.shape == (62, 1200) and voltage.min() == 0 and voltage.max() == pytest.approx(1.0)
    np.testing.assert_allclose(np.diff(time), 2.0017, atol=1e-4)
    # upstrokes follow the stimuli that the file guesses: the first one after the start of each recording
    for u, length, start in zip(voltage[::7], cycle[::7], phase[::7], strict=True):
        up = time[1:][np.diff(u) > 0.1]
        after = np.mod(up - (start + length / 2) + length / 2, length) - length / 2
        assert up.size and np.abs(np.median(after)) < 10.0


def test_own_guesses_come_from_the_file_with_bounds_around_them():
    names = ["trace_01", "trace_15"]
    each = "recordings={" + ", ".join(f"{n}: {{data: {{select: {{trace: {n}}}}}}}" for n in names) + "}"
    joint = pdefit.load_experiment("cardiac/canine_traces", [each, "times.fit_until=25"]).functional
    controls = joint.controls
    box = dict(zip(controls.names(), np.transpose([*controls.bounds, joint.theta0]), strict=True))
    assert len(box) == 13 + 2 * 5
    with h5py.File(locate("cardiac/canine_traces.h5")) as file:
        for e, place in enumerate((0, 14)):
            for name, column, scale in (("t0", "phase", 3.0), ("period", "cycle_length", 1.0)):
                guess = file[column][place]
                np.testing.assert_allclose(box[f"{name}[{e}]"] * scale, [guess - 10, guess + 10, guess])
            first = file["voltage"][place, 0] * 1e-4
            assert float(joint.problem.y0.u[e]) == pytest.approx(first)
    assert State._fields == ("u", "v", "w")
