"""Doses, infusions and resets against closed forms, for every kind of solver and step; their derivatives and refusals."""

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import pdefit
from pdefit.integrate.forward_runs import Numerics, frames, states
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.lab.doctor._stepped_trajectory import SteppedTrajectory, steps_of, survey
from pdefit.systems.events import Events

KA, KE = 1.5, 0.09
# h; doses lie between them, at them, and at the start
TS = np.array([0.0, 1.0, 5.0, 6.5, 12.0, 20.0])


class State(NamedTuple):
    gut: Array
    body: Array


class Oral(pdefit.AbstractSystem):
    """One compartment behind the gut."""

    time_unit = "h"
    ka: Array = pdefit.parameter(positive=True, default=KA)
    ke: Array = pdefit.parameter(positive=True, default=KE)

    def vector_field(self, t, y, args):
        return State(-self.ka * y.gut, self.ka * y.gut - self.ke * y.body)

    def init(self, key):
        return State(jnp.zeros(()), jnp.zeros(()))


class Decay(pdefit.SpectralSystem):
    """u' = -u, as a diagonal linear part, beside a rate that no part is linear in."""

    def eigenvalues(self):
        return {"u": -jnp.ones(self.grid.symbol(1).shape)}

    def nonlinear(self, t, y, args):
        return {"u": self.grid.to_modes(jnp.zeros_like(y["u"]))}

    def init(self, key):
        return {"u": jnp.zeros(self.grid.shape)}


DOSES = [
    pdefit.Event(0.0, "gut", amount=3.0),
    pdefit.Event(5.0, "gut", amount=2.0, every=4.25, count=3),
    pdefit.Event(2.125, "body", amount=4.0, duration=6.0),
    pdefit.Event(11.0, "body", rate=0.5, duration=3.0),
]


def exact(ka: Any = KA, ke: Any = KE, doses: Any = (3.0, 2.0)) -> Any:
    """Both fields at `TS` by superposition."""
    at = [(0.0, doses[0]), *((5.0 + 4.25 * k, doses[1]) for k in range(3))]
    gut = body = 0.0
    for time, amount in at:
        # an observation at the time of a dose sees the state before it
        since = np.maximum(TS - time, 0.0)
        gut += amount * np.where(TS > time, np.exp(-ka * since), 0.0)
        body += amount * ka / (ka - ke) * (np.exp(-ke * since) - np.exp(-ka * since))
    for begin, end, rate in ((2.125, 8.125, 4.0 / 6.0), (11.0, 14.0, 0.5)):
        during, after = np.clip(TS, begin, end) - begin, np.maximum(TS - end, 0.0)
        body += rate / ke * (1 - np.exp(-ke * during)) * np.exp(-ke * after)
    return State(gut, body)


TIGHT = pdefit.Adaptive(1e-9, 1e-12)


@pytest.mark.parametrize(
    ("solver", "how", "error"),
    [
        (pdefit.solvers.RK4(), {"dt": 0.1}, 1e-5),
        (pdefit.solvers.RKC(4), {"dt": 0.02}, 3e-4),
        (diffrax.Kvaerno3(), {"dt": 0.1}, 3e-4),
        (diffrax.Tsit5(), {"steps": TIGHT}, 3e-9),
        (diffrax.Kvaerno5(), {"steps": TIGHT}, 3e-9),
        # its stages lie beyond the step, but rates do not read the time
        (diffrax.Kvaerno5(), {"dt": 0.25}, 1e-5),
    ],
)
def test_states_are_those_of_the_closed_form(solver, how, error):
    system = Oral()
    states = pdefit.solve(system, system.init(None), TS, solver=solver, events=DOSES, **how)
    for found, known in zip(states, exact(), strict=True):
        np.testing.assert_allclose(found, known, atol=error)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_thousand_doses_at_any_times_count_once_each(dtype):
    class Sum(pdefit.AbstractSystem):
        time_unit = "1"

        def vector_field(self, t, y, args):
            return jnp.zeros_like(y)

        def init(self, key):
            return jnp.zeros((), dtype)

    system, ts = Sum(), np.array([-7.0, 0.1, 0.7, 33.3, 100.0])
    events = [pdefit.Event(-7.0 + 0.1, "y", amount=1.0, every=0.1, count=1000)]
    found = pdefit.solve(system, system.init(None), ts, dt=0.37, events=events)
    times = events[0].times
    np.testing.assert_array_equal(found, [np.sum(times < t - 1e-6) for t in ts])


def test_times_that_differ_by_round_off_are_one():
    """Periods add up to 0.30000000000000004, where a row and an observation say 0.3."""
    twice = [pdefit.Event(0.0, "y", amount=1.0, every=0.1, count=6), pdefit.Event(0.5, "y", amount=10.0)]
    ends = Events.along(twice, np.array([0.0, 0.3, 1.0])).ends(np.array([0.0, 0.3, 1.0]))
    np.testing.assert_array_equal(ends, [0.1, 0.2, 0.4, 0.5])


@pytest.mark.parametrize("solver", [pdefit.solvers.RK4(), pdefit.solvers.IMEX(), pdefit.solvers.ETDRK4()])
def test_fields_with_linear_parts_take_doses_and_infusions(solver):
    system = Decay(pdefit.FourierGrid((4,), (1.0,)))
    events = [
        pdefit.Event(0.25, "u", amount=1.0, duration=0.5),
        pdefit.Event(0.3, "u", amount=2.0),
        pdefit.Event(0.9, "u", set=5.0),
        pdefit.Event(0.9, "u", amount=1.0),
    ]
    found = pdefit.solve(system, system.init(None), np.array([0.0, 0.75, 1.0]), solver=solver, dt=0.005, events=events)
    known = [0.0, 2 * (1 - np.exp(-0.5)) + 2 * np.exp(-0.45), 6 * np.exp(-0.1)]
    np.testing.assert_allclose(found["u"], np.repeat(np.array(known)[:, None], 4, axis=1), rtol=2e-5)


class Body(pdefit.AbstractSystem):
    """One pool that is emptied at a constant rate."""

    time_unit = "h"
    k: Array = pdefit.parameter(positive=True, default=0.5)

    def vector_field(self, t, y, args):
        return -self.k * y

    def init(self, key):
        return jnp.ones(())


def objective(events, solver=None, ts=TS, formulation=None, truth=0.4, dtype="float64", unknown=True, **how):
    """The misfit of a pool whose rate and amounts are unknown."""
    system = Body()
    record = pdefit.simulate(Body(truth), jnp.ones(()), ts, dt=0.1, events=events).with_sigma({"y": 0.1})
    controls = {"k": pdefit.transforms.Log(), **({"events": {"amount": pdefit.Control()}} if unknown else {})}
    how = how or {"dt": 0.25}
    problem = pdefit.Problem(system, jnp.ones((), dtype), events=events)
    return pdefit.Functional(problem, record, controls, solver=solver, formulation=formulation, **how)


def value_of(functional):
    """The misfit at the guess, by one program."""
    return float(jax.jit(functional.value)(functional.theta0))


BODY = [
    pdefit.Event(0.0, "y", amount=3.0),
    pdefit.Event(5.0, "y", amount=2.0, every=4.3, count=3),
    pdefit.Event(2.3, "y", amount=4.0, duration=6.0),
    pdefit.Event(12.0, "y", set=1.5),
]


@pytest.mark.parametrize(
    ("solver", "how"),
    [
        (pdefit.solvers.RK4(), {"dt": 0.25}),
        (diffrax.Kvaerno3(), {"dt": 0.25, "adjoint": pdefit.adjoints.StoreAll()}),
        (diffrax.Tsit5(), {"steps": pdefit.Adaptive(1e-5, 1e-8), "adjoint": pdefit.adjoints.StoreAll()}),
    ],
)
def test_gradients_agree_with_tangents_and_differences(solver, how):
    functional = objective(BODY, solver, **how)
    theta = functional.theta0 * 1.1
    along = jnp.asarray(np.random.default_rng(0).normal(size=theta.size))

    @jax.jit
    def derivatives(theta):
        above, below = jax.lax.map(functional.value, jnp.stack([theta + 1e-5 * along, theta - 1e-5 * along]))
        return functional.watched_gradient(theta)[1], functional.normal_equations(theta)[1], above - below

    gradient, forward, change = derivatives(theta)
    np.testing.assert_allclose(forward, gradient, rtol=1e-11)
    assert float(gradient @ along) == pytest.approx(float(change) / 2e-5, rel=1e-7)


def test_windows_that_begin_at_a_dose_take_it_once():
    windows = objective(BODY, formulation=pdefit.formulations.Segments(4.0), truth=0.5)
    assert list(TS[windows.layout.nodes]) == [0.0, 5.0, 12.0]
    assert value_of(windows) < 1e-6
    # at observations alone, steps stay equal
    at_nodes = [pdefit.Event(5.0, "y", amount=1.0), pdefit.Event(6.5, "y", rate=2.0, duration=5.5)]
    equal = objective(at_nodes, formulation=pdefit.formulations.Segments(4.0), truth=0.5)
    assert not equal.time_grid.frozen and value_of(equal) < 1e-6


def test_recordings_have_tables_of_their_own():
    tables = BODY, [pdefit.Event(1.5, "y", amount=2.0)], None
    each = [objective(table, ts=TS[: 6 - k], unknown=False) for k, table in enumerate(tables)]
    together = pdefit.Recordings(each)
    alone = [value_of(one) for one in each]
    assert value_of(together) == pytest.approx(sum(alone), rel=1e-12)
    # taken out again, the padded table changes nothing
    part, _ = together.parts(together.theta0)[1]
    assert value_of(part) == pytest.approx(alone[1], rel=1e-12)


def test_single_precision_takes_steps_at_the_same_times():
    misfits = [value_of(objective(BODY, dtype=d)) for d in ("float64", "float32")]
    assert misfits[1] == pytest.approx(misfits[0], rel=1e-5)


E = pdefit.Event


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "An event expects an amount, a value to set, or two of amount, duration and rate, but at 1 got none"),
        ({"amount": 1.0, "set": 1.0}, "but at 1 got amount, set"),
        ({"amount": 1.0, "rate": 1.0, "duration": 1.0}, "but at 1 got amount, duration, rate"),
        ({"amount": 1.0, "duration": 0.0}, "An infusion expects a duration above 0, but got 0"),
        ({"amount": 1.0, "rate": -1.0}, "An infusion expects a duration above 0, but got -1"),
        ({"amount": 1.0, "count": 3}, "but got every = None and count = 3; give both or none"),
        ({"amount": 1.0, "every": -2.0, "count": 3}, "a period `every` above 0"),
        ({"amount": np.inf}, "An event expects finite numbers, but amount is inf"),
    ],
)
def test_an_event_that_says_nothing_or_too_much_is_refused(given, why):
    with pytest.raises(pdefit.PdefitError, match=why):
        pdefit.Event(1.0, "y", **given)


class Pendulum(pdefit.AbstractSystem, pdefit.capabilities.AbstractMechanical):
    """x'' = -x."""

    time_unit = "s"

    def vector_field(self, t, y, args):
        return {"x": y["v"], "v": -y["x"]}

    def init(self, key):
        return {"x": jnp.zeros(()), "v": jnp.zeros(())}

    def positions(self, y):
        return y["x"]

    def velocities(self, y):
        return y["v"]

    def acceleration(self, t, x, args):
        return -x

    def assemble(self, x, v):
        return {"x": x, "v": v}


def test_a_pendulum_is_kicked_by_a_dose_of_velocity():
    system, ts, verlet = Pendulum(), np.array([0.0, 1.0, 2.5]), pdefit.solvers.Yoshida4()
    kick = [E(0.75, "v", amount=2.0)]
    found = pdefit.solve(system, system.init(None), ts, solver=verlet, dt=0.05, events=kick)
    np.testing.assert_allclose(found["x"], 2 * np.sin(np.maximum(ts - 0.75, 0.0)), atol=1e-5)
    with pytest.raises(pdefit.PdefitError, match="Pendulum is of second order, where no rate can be added"):
        pdefit.solve(
            system, system.init(None), ts, solver=verlet, dt=0.1, events=[E(0.75, "v", rate=1.0, duration=1.0)]
        )


@pytest.mark.parametrize(
    ("events", "how", "why"),
    [
        ([E(1.0, "gutt", amount=1.0)], {}, "No field .events. is called 'gutt'; there are: y"),
        ([E(-1.0, "y", amount=1.0)], {}, "The trajectory begins at t = 0, after the event at -1"),
        ([E(1.0, "y", set=1.0), E(0.0, "y", set=2.0, every=0.5, count=3)], {}, "y is set twice at 1"),
        ([E(1.0, "y", amount=1.0)], {"solver": diffrax.LeapfrogMidpoint()}, "LeapfrogMidpoint remembers earlier steps"),
        ([E(1.0, "y", amount=1.0)], {"adjoint": pdefit.adjoints.Backsolve()}, "Backsolve solves the adjoint equation"),
    ],
)
def test_events_that_a_run_cannot_take_are_refused(events, how, why):
    with pytest.raises(pdefit.PdefitError, match=why):
        pdefit.solve(Body(), jnp.ones(()), TS, dt=0.5, events=events, **how)


def test_the_times_of_events_are_no_controls():
    record = pdefit.Observations.build(TS, {"y": np.ones(6)}, sigma=0.1)
    with pytest.raises(pdefit.PdefitError, match="'events.time' is no control: steps end at stated times"):
        pdefit.Functional(
            pdefit.Problem(Body(), jnp.ones(()), events=BODY), record, {"events": {"time": pdefit.Control()}}
        )


def test_an_exposure_and_a_collocation_are_refused():
    with pytest.raises(pdefit.PdefitError, match="An exposure takes steps of the equations without events"):
        pdefit.Problem(Body(), jnp.ones(()), pdefit.instruments.Camera(exposure=0.1), events=BODY)
    with pytest.raises(pdefit.PdefitError, match="Collocation expects a solution without events"):
        pdefit.fit(objective(BODY), [pdefit.Stage(pdefit.optimizers.Collocation())])


def test_a_time_and_an_amount_are_parts_of_the_fingerprint():
    def prints(time, amount):
        return fingerprint(objective([E(time, "y", amount=amount)], unknown=False))

    first, later, larger = prints(2.0, 1.0), prints(2.5, 1.0), prints(2.0, 1.5)
    assert first["equations"] == later["equations"] == larger["equations"]
    assert len({first["data"], later["data"], larger["data"]}) == 3


def test_a_run_goes_on_with_the_events_of_a_record():
    """States of blocks and forecasts are those of one solution."""
    numerics = Numerics(pdefit.solvers.RK4(), 0.25, events=Events.along(BODY, TS))
    whole = states(Body(), jnp.ones(()), TS, numerics, t0=0.0)
    each = [float(y) for y in frames(Body(), jnp.ones(()), TS, numerics, t0=0.0, block=2)]
    np.testing.assert_allclose(each, whole, rtol=1e-14)
    after = states(Body(), whole[3], TS[3:], numerics, t0=float(TS[3]))
    np.testing.assert_allclose(after, whole[3:], rtol=1e-14)


def test_the_doctor_takes_events_with_steps_and_with_halves_of_them():
    functional = objective(BODY, unknown=False)
    problem = functional.at(functional.theta0)
    run, grid = SteppedTrajectory(functional, problem), functional.time_grid
    found = [
        float(jnp.sum(survey(run, problem.y0, steps_of(functional, 0, g))[1].misfit)) for g in (grid, grid.halved())
    ]
    np.testing.assert_allclose(found, value_of(functional), rtol=1e-4)
    assert found[0] == pytest.approx(value_of(functional), rel=1e-12)
