import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, fisher, observed

import pdefit
from pdefit.inverse.objective.compiled import GRADIENT, RESIDUALS
from pdefit.inverse.offload.hosted import HostedFunctional, OffloadedRun
from pdefit.inverse.offload.planner import Chunking, choose_schedule
from pdefit.inverse.offload.schedule import StorageTier
from pdefit.inverse.offload.stores import HostStore, InMemory
from pdefit.inverse.offload.time_chunks import TimeChunks

At = pdefit.instruments.At
PERIODIC, WALL = pdefit.boundaries.Periodic(), pdefit.boundaries.NoFlux()


def grid(n, ndim=1, boundary=WALL, origin=0.3):
    return pdefit.CartesianGrid(shape=(n,) * ndim, extent=(1.0,) * ndim, origin=(origin,) * ndim, boundary=boundary)


def waves(ndim, boundary):
    """A product of sines, its averages over boxes of a width, and wave numbers that fit the box."""
    k = 2 * np.pi if boundary is PERIODIC else 2.0

    def mean(x, width=0.0):
        return np.prod(np.sin(k * x + 0.2) * np.sinc(k * width / (2 * np.pi)), axis=-1)

    return mean


def error(n, ndim, boundary, method, points, cells, width=None):
    """The largest error at the points of values that are averages over cells, or values at their centres."""
    mean, where = waves(ndim, boundary), grid(n, ndim, boundary)
    centres = np.stack(np.meshgrid(*(where.axis(i) for i in range(ndim)), indexing="ij"), axis=-1)
    field = jnp.asarray(mean(centres, 1 / n if cells else 0.0))
    seen = observed(At(where, points, method=method, average=width, cell_average=cells), {"u": field})["u"]
    return float(np.max(np.abs(np.asarray(seen) - mean(points, width or 0.0))))


@functools.cache
def errors(n, ndim):
    """The largest errors at scattered points without a width, by one program: by boundary, method and kind of values."""
    cases = list(itertools.product((PERIODIC, WALL), ("linear", "cubic"), (False, True)))
    points, fields, operators = scattered(ndim), list[np.ndarray](), list[At]()
    for boundary, method, cells in cases:
        where = grid(n, ndim, boundary)
        centres = np.stack(np.meshgrid(*(where.axis(i) for i in range(ndim)), indexing="ij"), axis=-1)
        fields.append(waves(ndim, boundary)(centres, 1 / n if cells else 0.0))
        operators.append(At(where, points, method=method, cell_average=cells))
    look = jax.jit(lambda fields: [o(0.0, {"u": u}, None)["u"] for o, u in zip(operators, fields, strict=True)])
    exact = [waves(ndim, boundary)(points) for boundary, *_ in cases]
    return {
        case: np.max(np.abs(np.asarray(seen) - mean))
        for case, seen, mean in zip(cases, look(fields), exact, strict=True)
    }


def scattered(ndim, low=0.3, high=1.3):
    """Points in the box, on its corners, and beside its walls."""
    inside = np.random.default_rng(0).uniform(low, high, (60, ndim))
    return np.concatenate([inside, np.full((1, ndim), low), np.full((1, ndim), high), np.full((1, ndim), high - 1e-3)])


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
@pytest.mark.parametrize(("method", "order"), [("linear", 2), ("cubic", 4)])
@pytest.mark.parametrize("cells", [False, True], ids=["points", "cells"])
def test_errors_fall_with_the_order_of_the_method_also_at_walls(ndim, boundary, method, order, cells):
    coarse, fine = (errors(n, ndim)[boundary, method, cells] for n in (12, 36))
    assert order - 0.45 < np.log(coarse / fine) / np.log(3) < order + 0.5


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("n", [7, 8])
@pytest.mark.parametrize("width", [None, 0.31])
def test_spectral_is_exact_for_values_averages_and_boxes(ndim, n, width):
    for cells in (False, True):
        assert error(n, ndim, PERIODIC, "spectral", scattered(ndim), cells, width) < 1e-13


@pytest.mark.parametrize("boundary", [PERIODIC, WALL], ids=["periodic", "wall"])
@pytest.mark.parametrize("width", [0.02, 0.21])
def test_averages_over_pixels_are_exact_integrals_to_fourth_order(boundary, width):
    points = scattered(2, 0.3 + width / 2, 1.3 - width / 2)
    coarse, fine = (error(n, 2, boundary, "cubic", points, True, width) for n in (12, 36))
    # or better, where a point comes near a centre of the finer grid
    assert np.log(coarse / fine) / np.log(3) > 3.5


def test_averages_taken_as_values_have_an_error_of_second_order():
    where, mean = grid(24, 1, PERIODIC), waves(1, PERIODIC)
    averages, points = jnp.asarray(mean(where.axis(0)[:, None], 1 / 24)), scattered(1)
    seen = observed(At(where, points, cell_average=False), {"u": averages})["u"]
    # h^2/24 u'' = (2 pi)^2 u / 24^3
    error = np.max(np.abs(np.asarray(seen) - mean(points)))
    np.testing.assert_allclose(error, (2 * np.pi) ** 2 / 24**3, rtol=0.05)


def test_cubics_are_interpolated_exactly_up_to_the_walls():
    where = grid(6, 1, WALL, origin=0.0)
    x, edges = np.linspace(0, 1, 9)[:, None], np.linspace(0, 1, 7)
    field = jnp.asarray(np.diff(edges**4) / np.diff(edges))
    np.testing.assert_allclose(observed(At(where, x), {"u": field})["u"], 4 * x[:, 0] ** 3, atol=1e-13)


def test_points_wrap_around_periodic_axes():
    field = jnp.asarray(np.random.default_rng(1).normal(size=(6, 5)))
    where = pdefit.CartesianGrid(shape=(6, 5), extent=(3.0, 1.0), boundary=PERIODIC)
    points = np.random.default_rng(2).uniform(0, 1, (9, 2))
    for method in ("linear", "cubic", "spectral"):
        here, there = (
            observed(At(where, p, method=method), {"u": field})["u"] for p in (points, points + np.array([[-6.0, 2.0]]))
        )
        np.testing.assert_allclose(here, there, atol=1e-12)


@pytest.mark.parametrize("method", ["linear", "cubic", "spectral"])
def test_the_adjoint_is_the_transpose(method):
    where = pdefit.CartesianGrid(shape=(6, 5), extent=(3.0, 1.0), boundary=PERIODIC)
    random = np.random.default_rng(3)
    u, v = jnp.asarray(random.normal(size=(6, 5))), jnp.asarray(random.normal(size=7))
    observe = At(where, random.uniform(0, 1, (7, 2)), method=method, average=(0.7, 0.1))

    @jax.jit
    def both(u, v):
        seen, back = jax.vjp(lambda u: observe(0.0, {"u": u}, None)["u"], u)
        return seen, back(v)[0]

    seen, pulled = both(u, v)
    np.testing.assert_allclose(np.vdot(v, seen), np.vdot(pulled, u), rtol=1e-12)


def test_fields_are_chosen_by_name_and_have_the_shape_of_the_grid():
    where, points = grid(6), [[0.5], [0.7]]
    state = {"u": jnp.ones(6), "c": jnp.ones((2, 6)), "total": jnp.ones(())}
    seen = observed(At(where, points), state)
    assert {n: x.shape for n, x in seen.items()} == {"u": (2,), "c": (2, 2)}
    assert list(observed(At(where, points, fields="u"), state)) == ["u"]
    with pytest.raises(pdefit.PdefitError, match="total"):
        At(where, points, fields="total")(0.0, state, None)
    with pytest.raises(pdefit.PdefitError, match="give points"):
        At(where)(0.0, state, None)
    assert observed(At(where, points), {"u": jnp.ones(6, jnp.float32)})["u"].dtype == jnp.float32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": [[2.0]]}, "in the box from 0.3 to 1.3"),
        ({"points": [[0.35]], "average": 0.2}, "half of average"),
        ({"points": [[0.5, 0.5]]}, r"\(n, 1\)"),
        ({"points": [[np.nan]]}, "finite"),
        ({"method": "spectral"}, "periodic axes only"),
        ({"method": "quintic"}, "did you mean cubic"),
        ({"average": (0.1, 0.1)}, "each of 1 axes"),
    ],
)
def test_what_cannot_be_observed_is_refused(options, words):
    with pytest.raises(pdefit.PdefitError, match=words):
        At(grid(6), **options)
    with pytest.raises(pdefit.PdefitError, match="4 values along every axis"):
        At(grid(3))


# --- points that come with the data ------------------------------------------------------------------------------------

TIMES = np.linspace(0.0, 2.0, 5)


START = fisher().init(None)


@functools.cache
def moving(count=6):
    """Different points in every frame, of which some are missing."""
    random = np.random.default_rng(5)
    where = random.uniform(-12.0, 4.0, (TIMES.size, count, 1))
    system = fisher(0.7, 1.2)
    record = pdefit.simulate(system, START, TIMES, dt=0.05, observe=At(system.grid), positions={"u": where})
    values, gone = np.array(record.values["u"]), random.uniform(size=(TIMES.size, count)) < 0.3
    return np.where(gone, np.nan, values), np.where(gone[..., None], np.nan, where)


def functional(values, where, count=5):
    system = fisher(1.0, 1.0)
    data = pdefit.Observations.build(TIMES, {"u": values}, 0.01, {"u": where}).at(slice(0, count))
    log = pdefit.transforms.Log()
    return pdefit.Functional(pdefit.Problem(system, START, At(system.grid)), data, {"D": log, "r": log}, dt=0.05)


def test_every_frame_is_observed_at_its_own_points():
    values, where = moving()
    made = functional(values, where)
    system = fisher(1.0, 1.0)
    states = pdefit.solve(system, START, TIMES, solver=pdefit.solvers.RK4(), dt=0.05, t0=0.0)
    expected = []
    for i in range(TIMES.size):
        known = np.isfinite(values[i])
        seen = At(system.grid, where[i][known])(0.0, {"u": states.u[i]}, None)["u"]
        expected.append((np.asarray(seen) - values[i][known]) / 0.01)
    found = np.asarray(RESIDUALS(made, made.theta0))
    assert made.observed_values == np.isfinite(values).sum() < values.size
    np.testing.assert_allclose(found[np.isfinite(values).ravel()], np.concatenate(expected), rtol=1e-9)
    assert np.all(found[~np.isfinite(values).ravel()] == 0)


def test_missing_points_may_lie_anywhere_and_others_may_not():
    values, where = moving()
    system, data = fisher(), pdefit.Observations.build(TIMES, {"u": values}, 0.01, {"u": where})
    # 0 is where missing points are put
    small = pdefit.CartesianGrid(shape=(64,), extent=(40.0,), origin=(100.0,))
    problem = pdefit.Problem(system, START, At(small))
    with pytest.raises(pdefit.PdefitError, match="positions of 'u' in the box from 100 to 140"):
        pdefit.Functional(problem, data, {"D": pdefit.transforms.Log()}, dt=0.05)
    gone = pdefit.Observations.build(TIMES, {"u": np.full_like(values, np.nan)}, 0.01, {"u": where})
    made = pdefit.Functional(problem, gone, {"D": pdefit.transforms.Log()}, dt=0.05)
    assert VALUE(made, made.theta0) == 0


def test_pieces_of_a_record_keep_its_points():
    made = functional(*moving())
    cut = Chunking(1, 4)
    schedule = choose_schedule(
        cut.count(made.layout.time_grid.intervals, made.layout.time_grid.length), {StorageTier.HOST: 2}
    )

    def route(like):
        pieces = TimeChunks(made.schedule, cut, InMemory(made.observations))
        return OffloadedRun(pieces, pdefit.adjoints.Checkpointed(2), schedule, {StorageTier.HOST: HostStore()})

    # the growth of the adjoint is measured over the pieces
    pairs = zip(HostedFunctional(made, route).watched_gradient(made.theta0), GRADIENT(made, made.theta0), strict=True)
    for found, expected in list(pairs)[:2]:
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_parameters_are_found_and_the_gradient_is_certified():
    made = functional(*moving())
    found = pdefit.fit(made)
    np.testing.assert_allclose([found.problem.system.D, found.problem.system.r], [0.7, 1.2], rtol=1e-6)
    certificate = pdefit.certify(made, made.theta0)
    assert certificate.passed, certificate


def test_recordings_may_have_different_times():
    values, where = moving()
    whole, part = functional(values, where), functional(values, where, count=3)
    both = pdefit.Recordings([whole, part])
    alone = VALUE(whole, whole.theta0) + VALUE(part, part.theta0)
    np.testing.assert_allclose(eqx.filter_jit(type(both).value)(both, both.theta0), alone, rtol=1e-12)


def test_records_of_fixed_points_hold_their_positions():
    system = fisher(0.7, 1.2)
    points = np.linspace(-10.0, 10.0, 64)[:, None]
    observe = pdefit.instruments.Compose((pdefit.instruments.Select("u"), At(system.grid, points, method="linear")))
    record = pdefit.simulate(system, START, TIMES[:2], dt=0.05, observe=observe)
    np.testing.assert_array_equal(record.positions["u"], points[None])
    bare = pdefit.Observations.build(record.ts, record.values)
    start = pdefit.Control(guess=pdefit.guesses.FromData())
    made = pdefit.Functional(pdefit.Problem(system, START, observe), bare, {"y0": {"u": start}}, dt=0.05)
    # as many points as cells, but elsewhere
    centres = system.grid.axis(0)
    expected = np.interp(centres, points[:, 0], np.asarray(record.values["u"][0]))
    np.testing.assert_allclose(made.problem.y0.u, expected, rtol=1e-12)
    with pytest.raises(pdefit.PdefitError, match="are not the points of At"):
        observe.located(pdefit.Observations.build(record.ts, record.values, 1.0, {"u": points + 0.1}))
