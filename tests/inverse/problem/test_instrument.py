"""Observation operators that depend on time and inputs, against exact solutions, differences and other drivers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import VALUE, central_difference
from small_systems import Driven, State

import pdefit
from pdefit.inverse.offload.hosted import HostedFunctional, OffloadedRun
from pdefit.inverse.offload.planner import Chunking, choose_schedule
from pdefit.inverse.offload.schedule import StorageTier
from pdefit.inverse.offload.stores import HostStore, InMemory
from pdefit.inverse.offload.time_chunks import TimeChunks

TS = np.array([0.0, 0.3, 0.5, 0.9, 1.2, 1.6, 2.0])
LOG = pdefit.transforms.Log()
CONTROLS = {"k": LOG, "args": {"rate": LOG}, "observe": {"gain": LOG, "bleaching": LOG}}
NODES = {**CONTROLS, "nodes": {"u": pdefit.transforms.Identity()}}
GRADIENT = eqx.filter_jit(lambda functional, theta: functional.value_and_grad(theta)[1])


class Voltage(eqx.Module):
    """1 + cos(rate t)."""

    rate: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, float))

    def __call__(self, t):
        return 1 + jnp.cos(self.rate * t)


class Clamp(pdefit.instruments.AbstractObservationOperator):
    """gain exp(-bleaching t) u (V(t) + 1), under the name of the field; or under a name of its own."""

    gain: jax.Array = pdefit.parameter(unit="nS", positive=True)
    bleaching: jax.Array = pdefit.parameter(unit="1/s", default=0.3)
    name: str = eqx.field(static=True, default="u")

    def __call__(self, t, y, args):
        return {self.name: self.gain * jnp.exp(-self.bleaching * t) * y.u * (args(t).astype(y.u.dtype) + 1)}

    @property
    def shows_states(self):
        return True


def problem(k=1.0, gain=2.0, rate=1.5, name="u"):
    system = Driven(k=k)
    return pdefit.Problem(system, system.init(None), Clamp(gain, name=name), args=Voltage(rate))


def record(rate=1.5, ts=TS, name="u"):
    truth = problem(rate=rate, name=name)
    clean = pdefit.simulate(truth.system, truth.y0, ts, dt=0.01, observe=truth.observe, args=truth.args)
    return clean.with_sigma({name: 0.05})


def functional(controls=CONTROLS, guess=(0.8, 1.6, 1.4), data=None, **options):
    return pdefit.Functional(problem(*guess), data or record(), controls, **{"dt": 0.05, **options})


def windows(**options):
    return functional(NODES, formulation=pdefit.formulations.Segments(0.9), **options)


def test_time_is_that_of_the_observation_and_inputs_are_those_of_the_problem():
    data = record()
    states = pdefit.solve(Driven(k=1.0), State(jnp.array([1.0, 2.0])), TS, t0=0.0, dt=0.01, args=Voltage(1.5),
                          solver=pdefit.solvers.RK4())  # fmt: skip
    expected = 2 * np.exp(-0.3 * TS) * (2 + np.cos(1.5 * TS))
    np.testing.assert_allclose(data.values["u"], expected[:, None] * states.u, rtol=1e-13)
    twin = pdefit.Twin(Driven(k=1.0), pdefit.solvers.RK4(), 0.01)
    made = twin.record(State(jnp.array([1.0, 2.0])), TS, Clamp(2.0), Voltage(1.5))[0]
    np.testing.assert_allclose(made.values["u"], data.values["u"], rtol=1e-13)
    # at the truth nothing is left, whole or in windows
    for make in (functional, windows):
        truth = make(guess=(1.0, 2.0, 1.5), dt=0.01)
        assert float(VALUE(truth, truth.theta0)) < 1e-12


@pytest.mark.parametrize("make", [functional, windows], ids=["single", "windows"])
def test_tangents_and_reverse_pass_agree_and_are_those_of_differences(make):
    made = make()
    theta = made.theta0 + 0.02
    v = jax.random.normal(jax.random.key(1), theta.shape)
    gradient = GRADIENT(made, theta)
    assert central_difference(made, theta, v, 1e-3) == pytest.approx(float(gradient @ v), rel=1e-8)
    r, jac = eqx.filter_jit(pdefit.Functional.residuals_and_jacobian)(made, theta)
    _, slope, matrix = eqx.filter_jit(pdefit.Functional.normal_equations)(made, theta)
    product = eqx.filter_jit(pdefit.Functional.gauss_newton_product)(made, theta, v)
    size = float(jnp.max(jnp.abs(gradient)))
    np.testing.assert_allclose(jac.T @ r, gradient, rtol=1e-10, atol=1e-10 * size)
    np.testing.assert_allclose(slope, gradient, rtol=1e-10, atol=1e-10 * size)
    np.testing.assert_allclose(matrix @ v, product, rtol=1e-10, atol=1e-10 * float(jnp.max(jnp.abs(product))))
    np.testing.assert_allclose(jac.T @ (jac @ v), product, rtol=1e-10, atol=1e-10 * float(jnp.max(jnp.abs(product))))


@pytest.mark.parametrize("make", [functional, windows], ids=["single", "windows"])
def test_pieces_of_the_hosted_driver_know_their_own_times(make):
    made = make()
    theta, cut = made.theta0, Chunking(1, 2)
    grid = made.layout.time_grid
    schedule = choose_schedule(cut.count(grid.intervals, grid.length), {StorageTier.HOST: 2})

    def route(like):
        pieces = TimeChunks(made.schedule, cut, InMemory(made.observations))
        return OffloadedRun(pieces, pdefit.adjoints.Checkpointed(2), schedule, {StorageTier.HOST: HostStore()})

    hosted = HostedFunctional(made, route)
    gradient = GRADIENT(made, theta)
    size = float(jnp.max(jnp.abs(gradient)))
    np.testing.assert_allclose(hosted.watched_gradient(theta)[1], gradient, rtol=1e-10, atol=1e-12 * size)
    np.testing.assert_allclose(hosted.normal_equations(theta)[1], gradient, rtol=1e-10, atol=1e-10 * size)


def test_a_continuous_adjoint_has_the_gradient_through_the_instrument():
    made = functional()
    other = functional(adjoint=pdefit.adjoints.Backsolve())
    np.testing.assert_allclose(GRADIENT(other, made.theta0), GRADIENT(made, made.theta0), rtol=1e-4)


def test_every_recording_is_seen_at_its_own_times_with_its_own_inputs():
    """Recordings of different length and rate: their gradients are those of each, and the fit finds each rate."""
    each = {"transform": LOG, "scope": "experiment"}
    controls = {**CONTROLS, "args": {"rate": pdefit.Control(**each)}}
    parts = [
        functional(controls, (0.8, 1.6, rate + 0.1), record(rate, ts)) for rate, ts in ((1.5, TS), (2.5, 1.0 + TS[:5]))
    ]
    both = pdefit.Recordings(parts)
    theta = both.theta0
    alone = [GRADIENT(part, part.theta0) for part in parts]
    gradient = np.asarray(eqx.filter_jit(pdefit.Recordings.value_and_grad)(both, theta)[1])
    expected = np.zeros(theta.size)
    for columns, own in zip(both.columns, alone, strict=True):
        expected[columns] += own
    np.testing.assert_allclose(gradient, expected, rtol=1e-10)
    found = pdefit.fit(both, [pdefit.optimizers.LevenbergMarquardt()], max_iterations=40)
    named = dict(zip(both.controls.names(), np.exp(np.asarray(found.theta)), strict=True))
    assert named["args.rate[0]"] == pytest.approx(1.5, rel=1e-4) and named["args.rate[1]"] == pytest.approx(
        2.5, rel=1e-4
    )
    assert named["observe.gain"] == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("optimizer", [pdefit.optimizers.GaussNewtonCG(), pdefit.optimizers.LBFGS()])
def test_parameters_of_equation_instrument_and_input_are_found(optimizer):
    made = functional(data=record(name="current"), guess=(0.8, 1.6, 1.4, "current"))
    assert [c.unit for c in made.controls.items if c.path.startswith("observe")] == ["nS", "1/s"]
    found = pdefit.fit(made, [pdefit.Stage(optimizer, 150)])
    values = found.problem.system.k, found.problem.observe.gain, found.problem.args.rate
    np.testing.assert_allclose(values, [1.0, 2.0, 1.5], rtol=1e-4)
    assert float(found.problem.observe.bleaching) == pytest.approx(0.3, rel=1e-3)


def test_guesses_and_windows_from_data_are_seen_through_the_instrument():
    data = record()
    start = {"y0": {"u": pdefit.Control(guess=pdefit.guesses.FromData())}}
    held = functional(start, (1.0, 2.0, 1.5))
    moved = eqx.tree_at(lambda p: p.y0.u, problem(), jnp.array([0.4, 0.7]))
    guessed = pdefit.Functional(moved, data, start, dt=0.05)
    np.testing.assert_allclose(guessed.problem.y0.u, held.problem.y0.u, rtol=1e-12)
    np.testing.assert_allclose(guessed.problem.y0.u, [1.0, 2.0], rtol=1e-12)
    # the guess of the gain is what an initial state is seen through
    gain = {**start, "observe": {"gain": pdefit.Control(guess=pdefit.guesses.Value(4.0))}}
    np.testing.assert_allclose(functional(gain, (1.0, 2.0, 1.5)).problem.y0.u, [0.5, 1.0], rtol=1e-12)
    # node states at later times, which nothing frees
    cut = functional({"k": LOG}, (1.0, 2.0, 1.5), formulation=pdefit.formulations.Segments(0.9), dt=0.01)
    assert cut.layout.segments > 1 and float(VALUE(cut, cut.theta0)) < 1e-12
    with pytest.raises(pdefit.PdefitError, match=r"observe.gain would have to turn into 'u'; make nodes.u a control"):
        functional({"observe": {"gain": LOG}}, formulation=pdefit.formulations.Segments(0.9))
