"""Free node states: what ties segments together, what counts, and what comes out of positions alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import MASSES, VALUE, planets, planets_functional, positions_functional
from scipy.optimize import least_squares
from small_systems import Decay, State

import pdefit
from pdefit.analysis.goodness.quality import size_of_gaps
from pdefit.inverse.objective.compiled import weighted

RESIDUALS = eqx.filter_jit(lambda f, theta: (f.residuals(theta), f.grouped_equations(theta).half_square))
VELOCITY = {"velocity": pdefit.transforms.Identity()}


def jumps(functional, theta):
    """End of each segment minus the next start, by a solver of its own run."""
    problem, layout, ts = functional.at(theta), functional.layout, functional.observations.ts
    out = []
    for s in range(layout.segments - 1):
        start = jax.tree.map(lambda x, s=s: x[s], problem.nodes)
        span = np.array([ts[layout.nodes[s + 1]]])
        end = pdefit.solve(
            problem.system,
            start,
            span,
            solver=functional.runner.solver,
            dt=functional.dt,
            t0=float(ts[layout.nodes[s]]),
        )
        out.append(np.asarray(end.velocity[0] - problem.nodes.velocity[s + 1]))
    return np.stack(out)


def test_a_jump_is_a_residual_of_the_segment_before_it():
    functional = positions_functional(continuity=1e-3)
    theta = functional.theta0 + 1e-3
    r, half_squares = RESIDUALS(functional, theta)
    r = np.reshape(r, (4, -1))
    found = r[:, -6:].reshape(4, 3, 2)
    size = np.sqrt(np.mean(np.asarray(functional.problem.nodes.velocity) ** 2, axis=(0, 2)))
    # steps that end at every observation are a little shorter
    np.testing.assert_allclose(found[:3], jumps(functional, theta) / (1e-3 * size[:, None]), rtol=1e-7)
    assert np.all(found[3] == 0)
    np.testing.assert_allclose(half_squares, np.sum(np.asarray(r) ** 2, axis=1) / 2, rtol=1e-12)
    assert functional.continuity_values == 18
    gap = size_of_gaps(functional, theta, weighted(functional, theta))
    np.testing.assert_allclose(gap, np.sqrt(np.sum(found**2) / 18), rtol=1e-9)


@pytest.mark.parametrize(
    ("nodes", "values", "tangents"),
    [
        ({}, 24 * 6, 3),
        (VELOCITY, 24 * 6, 3 + 6),
        ({"position": pdefit.transforms.Identity(), **VELOCITY}, 25 * 6, 3 + 12),
    ],
)
def test_every_datum_counts_once_and_the_first_only_where_its_node_is_free(nodes, values, tangents):
    functional = planets_functional(controls={"gm": MASSES, "nodes": nodes})
    theta = functional.theta0 + 1e-4
    assert functional.observed_values == values and functional.tangents == tangents
    value, residuals = VALUE(functional, theta), weighted(functional, theta)
    loss = sum(np.sum(x**2) for x in residuals.values())
    # where the free position of the first node leaves its datum, that is a residual
    first = residuals["position"][0, 0] ** 2
    np.testing.assert_allclose(first, 1e-8 if "position" in nodes else 0.0, rtol=1e-6)
    jumped = 2 * float(value) - loss
    assert jumped > 1 if nodes else abs(jumped) < 1e-12


def test_masses_and_velocities_are_found_from_positions_alone():
    functional = positions_functional()
    system, data = planets()
    truth = np.asarray(data.values["velocity"])[functional.layout.nodes]
    guess = np.asarray(functional.problem.nodes.velocity)
    # of two-body orbits: good, but not exact
    assert 1e-5 < np.max(np.abs(guess - truth)) < 1e-3
    stages = [
        pdefit.Stage(
            pdefit.optimizers.LevenbergMarquardt(tolerance=0.1), formulation=pdefit.formulations.Segments(0.25)
        )
    ]
    found = pdefit.fit(functional, [*stages, pdefit.optimizers.LevenbergMarquardt()])
    assert found.loss < 1e-3
    np.testing.assert_allclose(found.problem.system.gm, system.gm, rtol=1e-4)
    assert np.max(np.abs(np.asarray(found.problem.nodes.velocity) - truth)) < 1e-6
    size = np.sqrt(np.mean(guess**2, axis=(0, 2)))[:, None]
    assert np.max(np.abs(jumps(found.functional, found.theta)) / (1e-6 * size)) < 1


def test_intervals_cover_the_scatter_of_the_estimates():
    """30 realisations of noise, 12 segments: standard errors against the spread of the estimates, and coverage. The
    jackknife cuts the trajectory where it leaves a segment out, so it overstates the errors, here about threefold."""
    clean = positions_functional(
        controls={"gm": pdefit.transforms.Log(), "nodes": VELOCITY}, length=0.5, continuity=1e-7, dt=0.05
    )
    system, rng = clean.problem.system, np.random.default_rng(0)
    estimates, errors, inside = [], [], []
    for _ in range(30):
        seen = clean.observations.values["position"]
        noisy = seen + 1e-6 * rng.normal(size=seen.shape)
        functional = eqx.tree_at(
            lambda f: (f.observations.values["position"], f.problem.nodes.position),
            clean,
            (noisy, noisy[clean.layout.nodes]),
        )
        found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt(tolerance=1e-6)])
        intervals = pdefit.intervals(found.functional, found.theta)
        assert intervals.method.startswith("sandwich") and intervals.degrees == 11 and not intervals.unidentifiable
        estimates.append(np.asarray(found.theta[:3]))
        errors.append(intervals.error[:3])
        inside.append((intervals.low[:3] <= system.gm) & (system.gm <= intervals.high[:3]))
    ratio = np.median(errors, axis=0) / np.std(estimates, axis=0)
    assert np.all((ratio > 1) & (ratio < 6)), ratio
    assert np.mean(inside) > 0.95


def test_a_stage_with_other_windows_only_prepares_the_shared_controls():
    functional = positions_functional()
    short = pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 5, formulation=pdefit.formulations.Segments(0.25))
    last = pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 5)
    for stages, segments, size in (([short, last], 4, 3 + 24), ([last, short], 24, 3)):
        found = pdefit.fit(functional, stages)
        assert found.functional.layout.segments == segments and found.theta.size == size
        assert found.loss < found.loss_initial
        np.testing.assert_allclose(VALUE(found.functional, jnp.asarray(found.theta)), found.loss, rtol=1e-10)
        # histories follow the masses, through all stages
        assert {r.theta.size for r in found.history if r.theta is not None} == {3}
        assert {r.stage for r in found.history} == {1, 2}
    # the masses are carried over, the nodes start at their guesses
    first, second = (pdefit.fit(functional, s) for s in ([short], [short, last]))
    begin = next(r for r in second.history if r.stage == 2)
    np.testing.assert_array_equal(begin.theta, first.theta)
    assert begin.loss == pytest.approx(
        float(VALUE(functional, jnp.concatenate([first.theta, functional.theta0[3:]]))), rel=1e-9
    )


def test_a_missing_velocity_at_a_node_is_estimated_where_it_is_free():
    _, data = planets()
    values = {n: np.array(v) for n, v in data.values.items()}
    values["velocity"][6, 1] = np.nan
    holes = pdefit.Observations.build(data.ts, values)
    functional = planets_functional(controls={"gm": MASSES, "nodes": VELOCITY}, data=holes)
    gap = np.abs(np.asarray(functional.problem.nodes.velocity) - np.asarray(data.values["velocity"])[::6][:4])
    assert np.all(gap[[0, 2, 3]] == 0) and np.all(gap[1, [0, 2]] == 0) and 0 < gap[1, 1].max() < 1e-3
    with pytest.raises(pdefit.PdefitError, match=r"missing at the start of a segment; make nodes\.velocity a control"):
        planets_functional(data=holes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"controls": {"gm": pdefit.transforms.Log()}}, "'velocity' is not observed; make nodes.velocity a control"),
        ({"continuity": {"position": 1e-3}}, "add velocity, or give one number"),
        ({"controls": {"nodes": {"velocity": pdefit.Control(smoothing=2.0)}}}, "tie segments to each other"),
        (
            {"controls": {"nodes": {"velocity": pdefit.Control(guess=pdefit.guesses.Value(0.0))}}},
            "which gives its jumps no scale",
        ),
    ],
)
def test_what_cannot_be_tied_is_refused(options, message):
    with pytest.raises(pdefit.PdefitError) as error:
        positions_functional(**options)
    assert message in str(error.value)


class Mixed(pdefit.instruments.AbstractObservationOperator):
    """Each value with its neighbour, under the name and in the shape of the field."""

    shows: bool = False

    def __call__(self, t, y, args):
        return {"u": y.u + 0.25 * jnp.roll(y.u, 1)}

    @property
    def shows_states(self):
        return self.shows

    def inverted(self, observations):
        # by the eigenvectors of what has wrapped ends
        factor = 1 + 0.25 * jnp.exp(-2j * jnp.pi * jnp.arange(3) / 3)
        field = jnp.fft.ifft(jnp.fft.fft(observations.values["u"]) / factor[None]).real
        return eqx.tree_at(lambda o: o.values["u"], observations, field)


def decaying(observe, values, nodes=None, sigma=1e-3, **options):
    """A rate from windows of two frames."""
    data = pdefit.Observations.build(np.linspace(0.0, 2.0, 5), {"u": values}, sigma)
    problem, controls = pdefit.Problem(Decay(k=0.5), State(jnp.ones(3)), observe), {"k": pdefit.transforms.Log()}
    controls |= {} if nodes is None else {"nodes": {"u": nodes}}
    formulation = pdefit.formulations.Segments(1.0, **options)
    return pdefit.Functional(problem, data, controls, dt=0.1, formulation=formulation)


def test_windows_start_from_data_only_where_the_instrument_says_how():
    truth = np.exp(-0.7 * np.linspace(0.0, 2.0, 5))[:, None] * Decay.start
    seen = truth + 0.25 * np.roll(truth, 1, axis=1)
    for nodes in (None, pdefit.transforms.Identity()):
        start = decaying(Mixed(shows=True), seen, nodes).problem.nodes.u
        np.testing.assert_allclose(start, truth[[0, 2]], rtol=1e-12)
    with pytest.raises(pdefit.PdefitError, match=r"which Mixed does not show; make nodes\.<field> controls"):
        decaying(Mixed(), seen)
    assert decaying(Mixed(), seen, pdefit.transforms.Identity()).controls.nodes
    # a stage has its windows from the data, too
    whole = pdefit.Functional(
        pdefit.Problem(Decay(k=0.5), State(jnp.ones(3)), Mixed()),
        pdefit.Observations.build(np.linspace(0.0, 2.0, 5), {"u": seen}, 1e-3),
        {"k": pdefit.transforms.Log()},
        dt=0.1,
    )
    with pytest.raises(pdefit.PdefitError, match="which Mixed does not show"):
        whole.reformulated(pdefit.formulations.Segments(1.0), whole.theta0)


def test_nodes_in_a_unit_of_their_own_are_reached_in_few_evaluations():
    """Values of 1e4 with noise of 100: a limit of two of this unit would take 100 evaluations."""
    ts, random = np.linspace(0.0, 2.0, 5), np.random.default_rng(0)
    seen = 1e4 * np.exp(-0.7 * ts)[:, None] * Decay.start + 100 * random.standard_normal((5, 3))
    functional = decaying(
        pdefit.instruments.ObserveAll(), seen, pdefit.transforms.Identity(), sigma=100.0, continuity=1e-4
    )
    found = pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt(decrement=0.0)], max_iterations=30)
    assert found.converged
    # one trajectory, by its exact solution
    best = least_squares(
        lambda x: ((x[1:] * 1e4 * np.exp(-x[0] * ts)[:, None] - seen) / 100).ravel(), [0.5, *Decay.start], xtol=1e-14
    )
    np.testing.assert_allclose(found.problem.system.k, best.x[0], rtol=1e-4)


def test_other_windows_need_something_else_to_find():
    functional = positions_functional(controls={"nodes": VELOCITY})
    with pytest.raises(pdefit.PdefitError, match=r"remove stage\.window"):
        functional.reformulated(pdefit.formulations.Segments(0.5), functional.theta0)


@pytest.mark.parametrize("arguments", [(-1.0,), (1.0, 0.0), (1.0, {"velocity": -1.0})])
def test_segments_expect_positive_numbers(arguments):
    with pytest.raises(ValueError, match="positive"):
        pdefit.formulations.Segments(*arguments)
