"""Predictions of a fit: through the instrument, at the times of the record, between them and beyond."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher
from small_systems import Decay, Lines

import pdefit

TS = np.array([0.0, 0.2, 0.5, 1.0, 1.3])
MIDDLE = pdefit.formulations.Segments(0.9)


class Sum(pdefit.instruments.AbstractObservationOperator):
    """The logarithm of the sum of all values, with an offset."""

    offset: jnp.ndarray

    def __call__(self, t, y, args):
        return {"light": jnp.log(jnp.sum(y.u)) + self.offset * t}


def seen(t, k=1.0):
    return np.log(6 * np.exp(-k * np.asarray(t))) + 0.3 * np.asarray(t)


def fitted(observe=None, values=None, ts=TS, k=1.0, scope="shared", **options):
    """A fit that stands at k already."""
    system = Decay(k=jnp.asarray(k))
    data = pdefit.Observations.build(ts, {"light": seen(ts) + 0.1} if values is None else values, 0.05)
    problem = pdefit.Problem(system, system.init(None), observe or Sum(jnp.asarray(0.3)))
    J = pdefit.Functional(
        problem, data, {"k": pdefit.Control(pdefit.transforms.Log(), scope=scope)}, dt=0.01, **options
    )
    return pdefit.Fit(J, J.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])


def test_the_difference_from_the_data_is_the_residual():
    found = fitted()
    there = pdefit.predict(found)
    np.testing.assert_array_equal(there.ts, TS)
    np.testing.assert_allclose(there.values["light"], seen(TS), rtol=1e-8)
    data = found.functional.observations.values["light"]
    np.testing.assert_allclose((there.values["light"] - data) / 0.05, found.residuals["light"][0], rtol=1e-12)


def test_windows_that_begin_at_the_data_are_predicted_as_they_are_fitted():
    u = 2 * np.exp(-TS)[:, None] * Decay.start
    found = fitted(pdefit.instruments.ObserveAll(), {"u": u}, formulation=MIDDLE)
    there = pdefit.predict(found).values["u"]
    residual = (there - u) / 0.05
    # the first window starts from y0, the second from what was seen at t = 1, where the first one ends
    np.testing.assert_allclose(residual[:4], found.residuals["u"][0], rtol=1e-10)
    np.testing.assert_allclose(residual[4], found.residuals["u"][1, 1], atol=1e-8)


def test_times_between_frames_and_beyond_the_record():
    ts, found = [0.1, 0.7, 1.3, 4.0], fitted()
    there = pdefit.predict(found, times=ts, states=True)
    np.testing.assert_allclose(there.values["light"], seen(ts), rtol=1e-8)
    np.testing.assert_allclose(there.states.u, np.exp(-np.asarray(ts))[:, None] * Decay.start, rtol=1e-8)
    assert pdefit.predict(found).states is None


def test_what_cannot_be_predicted_is_refused():
    found = fitted()
    with pytest.raises(pdefit.PdefitError, match="begins at t = 0 s, but a prediction is asked for -1 s"):
        pdefit.predict(found, times=[-1.0])
    with pytest.raises(pdefit.PdefitError, match="increasing finite times"):
        pdefit.predict(found, times=[1.0, 0.5])
    with pytest.raises(pdefit.PdefitError, match=r"instrument at points \(At\), but the fit has Sum"):
        pdefit.predict(found, places={"u": [[0.5]]})


def test_each_recording_has_a_prediction_of_its_own():
    J = pdefit.Recordings([fitted(k=k, scope="experiment").functional for k in (1.0, 2.0)])
    found = pdefit.Fit(J, J.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])
    each = pdefit.predict(found)
    for k, one in zip((1.0, 2.0), each, strict=True):
        np.testing.assert_allclose(one.values["light"], seen(TS, k), rtol=1e-8, atol=1e-8)


def test_axes_and_units_are_those_of_the_field_or_running_numbers():
    system, ts = fisher(), np.linspace(0.0, 0.1, 2)
    for observe, dims in ((None, ("x",)), (pdefit.instruments.At(points=[[1.0], [2.0]]), ("u_point",))):
        data = pdefit.simulate(
            system, system.init(None), ts, dt=0.05, **({} if observe is None else {"observe": observe})
        )
        problem = pdefit.Problem(system, system.init(None), observe)
        J = pdefit.Functional(problem, data, {"D": pdefit.transforms.Log()}, dt=0.05)
        there = pdefit.predict(pdefit.Fit(J, J.theta0, 0.0, 0.0, [], 0, "done", True, {}, []))
        assert there.coords["u"].dims == dims and there.coords["u"].unit == system.coords()["u"].unit
        np.testing.assert_allclose(there.values["u"], data.values["u"], rtol=1e-12)


def test_other_places_and_points_that_move():
    """Points of a linear profile at rest observe the profile."""
    system, ts = fisher(), np.linspace(0.0, 0.1, 3)
    places = {"u": np.array([[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]]])}
    data = pdefit.simulate(system, system.init(None), ts, dt=0.05, observe=pdefit.instruments.At(), positions=places)
    problem = pdefit.Problem(system, system.init(None), pdefit.instruments.At())
    J = pdefit.Functional(problem, data, {"D": pdefit.transforms.Log()}, dt=0.05)
    found = pdefit.Fit(J, J.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])
    np.testing.assert_allclose(pdefit.predict(found).values["u"], data.values["u"], rtol=1e-12)
    with pytest.raises(pdefit.PdefitError, match="differ from time to time; give places with times"):
        pdefit.predict(found, times=[0.05])
    there = pdefit.predict(found, times=ts, places={"u": [[3.0], [4.0], [6.0]]})
    assert there.values["u"].shape == (3, 3) and there.coords["u"].dims == ("u_point",)
    np.testing.assert_allclose(there.values["u"][1, :2], data.values["u"][1], rtol=1e-12)
    np.testing.assert_allclose(there.values["u"][2, 2], data.values["u"][2, 1], rtol=1e-12)


def test_a_trajectory_that_begins_before_the_first_frame():
    system = Lines(a=jnp.asarray(1.0), b=jnp.asarray(0.0), c=jnp.asarray(2.0))
    data = pdefit.Observations.build([1.0, 2.0], {"u": [2.0, 6.0], "v": [1.0, 4.0]}).with_nothing_at(0.0)
    problem = pdefit.Problem(system, system.init(None))
    J = pdefit.Functional(problem, data, {"a": pdefit.transforms.Identity()}, dt=0.5)
    found = pdefit.Fit(J, J.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])
    there = pdefit.predict(found, times=[0.0, 0.5, 1.0])
    np.testing.assert_allclose(there.values["u"], [0.0, 0.75, 2.0], rtol=1e-12)
