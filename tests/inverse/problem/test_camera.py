"""The camera as an observation operator."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import GRID, fisher
from small_systems import Decay, State

import pdefit
from pdefit.instruments import Camera, Compose, ObserveAll, Select, Subsample
from pdefit.inverse.problem.observed_fields import observed_fields

VALUE_AND_GRAD = eqx.filter_jit(pdefit.Functional.value_and_grad)
PERIODIC = pdefit.CartesianGrid(shape=(16, 12), extent=(4.0, 3.0), boundary=pdefit.boundaries.Periodic())
MIXED = pdefit.CartesianGrid(
    shape=(16, 12), extent=(4.0, 3.0), boundary=(pdefit.boundaries.NoFlux(), pdefit.boundaries.Periodic())
)
FOURIER = pdefit.FourierGrid(shape=(16, 12), extent=(4.0, 3.0))
KNOTS = {"knots": [0.0, 2.0, 4.0], "baseline": [0.1, 0.3, 0.0], "bleaching": [0.0, -0.4, -0.6]}


def _image(camera, u, t=0.0):
    return np.asarray(camera(jnp.asarray(t), {"u": jnp.asarray(u)}, None)["u"])


@pytest.mark.parametrize("grid", [PERIODIC, MIXED, FOURIER], ids=["periodic", "no flux", "fourier"])
def test_the_blur_of_a_cosine_is_exact(grid):
    x, y = np.meshgrid(grid.axis(0), grid.axis(1), indexing="ij")
    # half periods fit between walls
    k, q = (np.pi * 3 / 4 if grid is MIXED else 2 * np.pi * 3 / 4), 2 * np.pi * 2 / 3
    wave = np.cos(k * x) * np.cos(q * y)
    blurred = _image(Camera(blur=0.2, grid=grid), 1.0 + wave)
    np.testing.assert_allclose(blurred, 1.0 + np.exp(-(k**2 + q**2) * 0.02) * wave, rtol=0, atol=1e-14)


def test_a_blur_keeps_the_mean_and_has_a_derivative():
    u = np.random.default_rng(0).uniform(size=MIXED.shape)
    assert np.mean(_image(Camera(blur=0.3, grid=MIXED), u)) == pytest.approx(np.mean(u), rel=1e-14)
    np.testing.assert_allclose(_image(Camera(blur=0.0, grid=MIXED), u), u, atol=1e-14)

    def energy(width):
        return jnp.sum(Camera(blur=width, grid=MIXED)(jnp.asarray(0.0), {"u": jnp.asarray(u)}, None)["u"] ** 2)

    difference = float(energy(0.3 + 1e-5) - energy(0.3 - 1e-5)) / 2e-5
    assert float(jax.grad(energy)(0.3)) == pytest.approx(difference, rel=1e-7)


def test_without_a_blur_nothing_is_transformed():
    text = str(jax.make_jaxpr(lambda u: Camera(gain=2.0)(jnp.asarray(0.0), {"u": u}, None))(jnp.ones(8)))
    assert "fft" not in text


def _decay(substeps, k=0.7):
    camera = Camera(exposure=0.5, substeps=substeps)
    return pdefit.Problem(Decay(k), State(jnp.asarray([1.0, 2.0, 3.0])), camera)


def test_an_exposure_is_the_mean_to_fourth_order():
    exact = np.array([1.0, 2.0, 3.0]) * (1 - np.exp(-0.35)) / 0.35
    errors = [np.max(np.abs(p.instrument(jnp.asarray(0.0), p.y0, None)["u"] - exact)) for p in (_decay(2), _decay(4))]
    assert errors[1] < 2e-6 and 14 < errors[0] / errors[1] < 18


def test_derivatives_of_an_exposure_follow_the_parameters():
    """The only observation is that of the start, which depends on k through the exposure alone."""
    data = pdefit.Observations.build(np.arange(2.0), {"u": np.array([[0.5] * 3, [np.nan] * 3])})
    functional = pdefit.Functional(_decay(16), data, {"k": pdefit.transforms.Identity()}, dt=0.5)
    theta, a = jnp.asarray([0.7]), np.array([1.0, 2.0, 3.0])
    mean = (1 - np.exp(-0.35)) / 0.35
    slope = 0.5 * (np.exp(-0.35) * 1.35 - 1) / 0.35**2
    expected = np.sum((a * mean - 0.5) * a * slope)
    assert float(VALUE_AND_GRAD(functional, theta)[1][0]) == pytest.approx(expected, rel=1e-6)
    curvature = pytest.approx(np.sum((a * slope) ** 2), rel=1e-6)
    # tangents of each kind reach the equations that the instrument steps
    assert float(eqx.filter_jit(pdefit.Functional.normal_equations)(functional, theta)[2][0, 0]) == curvature
    assert float(eqx.filter_jit(pdefit.Functional.gauss_newton_product)(functional, theta, jnp.ones(1))[0]) == curvature


def test_substeps_of_an_exposure_are_stable():
    system = fisher()
    count = Camera(exposure=2.0).on(system).substeps
    assert count % 2 == 0 and 2.0 / count <= system.stable_step(system.init(None)) < 2.0 / (count - 4)
    assert Camera(exposure=0.01).on(system).substeps == 4


def _record(camera, ts=(0.0, 1.0, 3.0)):
    ts = np.asarray(ts)
    u = np.random.default_rng(1).uniform(size=(len(ts), 64))
    seen = np.stack([_image(camera, x, t) for t, x in zip(ts, u, strict=True)])
    seen[1, 5] = np.nan
    return u, pdefit.Observations.build(ts, {"u": seen})


@pytest.mark.parametrize("behind", [False, True], ids=["camera", "composed"])
def test_gain_offset_and_drift_are_undone(behind):
    camera = Camera(gain=300.0, offset=20.0, **KNOTS)
    u, data = _record(camera)
    observe = Compose((camera, Subsample((1,)))) if behind else camera
    problem = pdefit.Problem(fisher(), fisher().init(None), observe)
    found = observed_fields(problem, data)
    assert not found.mask["u"][1, 5] and np.sum(~np.asarray(found.mask["u"])) == 1
    np.testing.assert_allclose(np.where(found.mask["u"], found.values["u"], u), u, rtol=0, atol=1e-13)


def test_a_guess_from_data_behind_a_blur_has_the_unit_of_the_field():
    _, data = _record(Camera(gain=300.0, offset=20.0))
    blurred = Camera(gain=300.0, offset=20.0, blur=1.0)
    for observe in (blurred, Compose((blurred, Subsample((2,), (0,))))):
        kept = data if observe is blurred else pdefit.Observations.build(data.ts, {"u": data.values["u"][:, ::2]})
        problem = pdefit.Problem(fisher(), fisher().init(None), observe)
        guess = pdefit.guesses.FromData().value(problem.y0.u, "y0.u", jax.random.key(0), kept, problem)
        assert guess.shape == (64,) and np.max(np.abs(guess)) < 3


def test_saturated_values_are_missing():
    camera = Camera(saturation=0.9)
    u, data = _record(camera)
    located = Compose((camera, Select("u"))).located(data)
    expected = u < 0.9
    expected[1, 5] = False
    np.testing.assert_array_equal(located.mask["u"], expected)
    problem = pdefit.Problem(fisher(), fisher().init(None), camera)
    functional = pdefit.Functional(problem, data, {"D": pdefit.transforms.Log()}, dt=0.05)
    assert functional.observed_values == expected.sum()


class Free(pdefit.AbstractSystem, pdefit.capabilities.AbstractConstrained):
    """Nothing moves, and the sum is zero."""

    time_unit = "s"

    def vector_field(self, t, y, args):
        return jax.tree.map(jnp.zeros_like, y)

    def init(self, key):
        return State(jnp.zeros(3))

    def project(self, y):
        return State(y.u - jnp.mean(y.u))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Camera(knots=[0.0, 1.0], baseline=[0.0]), "a value for each of 2 knots"),
        (lambda: Camera(knots=[1.0, 0.0]), "increasing knots"),
        (lambda: Camera(exposure=-1.0), "exposure >= 0"),
        (lambda: Camera(exposure=1.0, substeps=3), "even number"),
        (lambda: Camera(exposure=1.0).on(Free()), "explicit steps"),
        (lambda: Camera(blur=1.0).on(Decay(1.0)), "works on a grid"),
        (lambda: Compose((ObserveAll(), Camera(exposure=1.0))), "put camera before"),
        (lambda: _image(Camera(blur=1.0, grid=GRID), np.ones(32)), "put camera before subsample"),
        (lambda: _image(Camera(fields="v"), np.ones(3)), "field of the state"),
        (lambda: _image(Camera(exposure=1.0), np.ones(3)), "instrument of a problem"),
    ],
)
def test_what_a_camera_cannot_do_is_refused(make, words):
    with pytest.raises(pdefit.PdefitError, match=words):
        make()


def test_an_unknown_gain_and_blur_are_recovered():
    truth, ts = fisher(), np.linspace(0.0, 4.0, 9)
    y0 = truth.init(None)
    camera = Camera(gain=300.0, offset=20.0, blur=1.5, exposure=0.1)
    data = pdefit.simulate(truth, y0, ts, dt=0.05, observe=camera)
    guess = Camera(gain=200.0, offset=20.0, blur=0.8, exposure=0.1)
    controls = {"D": pdefit.transforms.Log(), "observe": {n: pdefit.transforms.Log() for n in ("gain", "blur")}}
    functional = pdefit.Functional(pdefit.Problem(fisher(0.7), y0, guess), data, controls, dt=0.05)
    result = pdefit.fit(functional)
    found = functional.controls.values(jnp.asarray(result.theta))
    assert {n: round(float(x), 4) for n, x in found.items()} == {"D": 1.0, "observe.gain": 300.0, "observe.blur": 1.5}
