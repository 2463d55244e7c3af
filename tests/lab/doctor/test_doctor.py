"""The doctor names the time, field, term and line of planted defects."""

import inspect
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher_functional, planets_functional, positions_functional

import pdefit

TS = np.linspace(0.0, 2.0, 11)


class State(NamedTuple):
    u: jax.Array
    w: jax.Array


class Pair(pdefit.AbstractSystem):
    """u' = 1, w' = what `rate` says of it."""

    time_unit: ClassVar[str] = "s"
    rate: Callable = eqx.field(static=True)
    k: jax.Array = pdefit.parameter(default=1.0)

    def vector_field(self, t, y, args):
        return State(jnp.ones_like(y.u), self.rate(t, y, self.k))

    def init(self, key):
        return State(jnp.asarray([0.0, 0.5, 1.0]), jnp.ones(3))

    def coords(self):
        where = pdefit.capabilities.FieldCoords(("x",), {"x": np.asarray([1.0, 1.5, 2.0])}, coord_units={"x": "mm"})
        return {"u": where, "w": where}


def calm(t, y, k):
    return -k * y.w


def steep(t, y, k):
    """Overflows when u passes 1.7 in the last cell, where it starts from 1."""
    scaled = k * y.u**2
    return jnp.exp(246 * scaled) / 1e300


def quotient(t, y, k):
    """0/0 where u meets its start."""
    return k * jnp.where(t < 1.0, 0.0, _quotient(y.u - y.u))


@jax.jit
def _quotient(gap):
    # compiled on its own, and traced once for all callers
    return gap / (2 * gap)


def root(t, y, k):
    """A guarded result, but not a guarded input."""
    return -k * y.w * jnp.where(y.u > 0, jnp.sqrt(jnp.maximum(y.u, 0.0)), 0.0)


def power(t, y, k):
    """k^0 has no derivative in k where k is 0 only of 0 log 0; its root has an infinite one."""
    return -y.w * (1 + jnp.sqrt(k) * (t > 1.0))


def blowing(t, y, k):
    """w' = k w^2 blows up at t = 1 / (k w)."""
    return k * y.w**2


def stiff(t, y, k):
    """w' = -80 k w - w^3: explicit steps beyond 2.8/80 grow."""
    return -80 * k * y.w - y.w**3


class LogSensor(pdefit.instruments.AbstractObservationOperator):
    gain: jax.Array

    def __call__(self, t, y, args):
        return {"w": self.gain * jnp.log(y.w - 0.3)}


def line_of(function, words):
    """The number of the only line of a function that has these words."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [first + i for i, line in enumerate(lines) if words in line]
    return found


def record(values=0.0, names=("u", "w"), sigma=1.0):
    return pdefit.Observations.build(TS, {n: np.full((TS.size, 3), values) for n in names}, sigma)


def functional(rate, controls=None, data=None, k=1.0, y0=None, dtype=None, observe=None, **options):
    system = Pair(rate, jnp.asarray(k))
    y0 = system.init(None) if y0 is None else y0
    problem = pdefit.Problem(system, y0, *([observe] if observe is not None else []))
    if dtype is not None:
        problem = jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, problem)
    options = {"dt": 0.05, **options} if "steps" not in options else options
    return pdefit.Functional(problem, data or record(), controls or {"k": pdefit.transforms.Identity()}, **options)


def test_an_overflow_is_named_with_its_time_field_place_and_line():
    found = pdefit.doctor(functional(steep))
    assert found.kind == "state" and not found.healthy
    # 246 u^2 > 709.8 in the last cell: u = 1 + t = 1.6986, so the step from 0.65 to 0.7
    assert found.time == pytest.approx(0.7) and (found.step, found.steps) == (14, 40)
    assert (found.field, found.index, found.position) == ("w", (2,), {"x": 2.0})
    assert found.operation == "exp" and found.line.file == __file__ and not found.line.own
    assert found.line.line == line_of(steep, "jnp.exp")
    for words in (
        "t = 0.7 s (step 14 of 40)",
        "w becomes infinite at x = 2 mm",
        "exp in",
        "test_doctor.py",
        "jnp.exp(246",
    ):
        assert words in found.sentence
    assert "\n" not in found.sentence and "formulation=segments" in found.remedy


def test_a_quotient_inside_a_compiled_function_is_found_behind_a_where():
    # another caller has traced it before
    _quotient(jnp.ones(3))
    found = pdefit.doctor(functional(quotient))
    assert found.kind == "state" and found.operation == "div" and "becomes NaN" in found.sentence
    assert found.line.line == line_of(_quotient.__wrapped__, "return gap")
    # the last stage of the step to t = 1 is the first that looks there
    assert found.time == pytest.approx(1.0) and found.step == 20
    assert "safe_div" in found.remedy


def test_what_a_where_throws_away_is_no_sickness():
    def masked(t, y, k):
        junk = 1 / (y.u - y.u)
        return -k * y.w * jnp.where(jnp.isfinite(junk), junk, 1.0)

    found = pdefit.doctor(functional(masked, controls={"k": pdefit.transforms.Identity()}))
    assert found.kind != "state"


def test_an_equation_that_blows_up_says_how_it_grew():
    found = pdefit.doctor(functional(blowing, k=1.0))
    assert found.kind == "state" and found.field == "w" and 1.0 < found.time < 1.3
    assert "had grown from 1 to" in found.sentence and "half the step does not help" in found.remedy
    assert "better guess" in found.remedy and "guard" not in found.remedy
    assert found.line.line == line_of(blowing, "k * y.w**2")


def test_a_step_that_is_too_large_is_told_from_equations_that_blow_up():
    found = pdefit.doctor(functional(stiff, dt=0.05))
    assert found.kind == "state" and found.field == "w"
    assert "set dt=0.025 or less" in found.remedy and "half the step stays finite" in found.sentence


def test_a_system_that_states_its_stability_limit_is_asked_for_it():
    J = fisher_functional(dt=0.05)
    found = pdefit.doctor(J, J.controls.theta(J.problem) + jnp.asarray([2.5, 0.0]))
    assert found.kind == "state" and found.field == "u" and "had grown from" in found.sentence
    # D = 0.6 e^2.5, cells of 40/64: RK4 is stable up to 0.0365
    assert "stability limit at the start is 0.0365 s" in found.sentence and "set dt=0.025 or less" in found.remedy


def test_only_the_second_of_three_segments_is_sick():
    def late(t, y, k):
        return -k * y.w + jnp.where(jnp.abs(t - 1.1) < 0.04, 1 / jnp.minimum(jnp.abs(t - 1.1) - 0.02, 0.0) ** 400, 0.0)

    seen = record(0.5)
    found = pdefit.doctor(functional(late, data=seen, formulation=pdefit.formulations.Segments(0.8)))
    assert found.kind == "state" and (found.segment, found.segments) == (2, 3)
    assert found.time == pytest.approx(1.1) and "segment 2 of 3" in found.sentence


def test_float32_overflows_where_float64_does_not():
    def large(t, y, k):
        return k * jnp.exp(45 * (1 + y.u)) * 1e-36

    assert pdefit.doctor(functional(large)).healthy
    found = pdefit.doctor(functional(large, dtype=jnp.float32))
    # 45 (2 + t) > 88.7 at once in the last cell
    assert found.kind == "state" and found.operation == "exp" and found.step <= 1 and found.index == (2,)


def test_adaptive_steps_are_followed_as_they_were_frozen():
    def ripening(t, y, k):
        """Finite at k = 1, where the steps are chosen."""
        return jnp.log(3.5 - k * y.u)

    J = functional(ripening, steps=pdefit.Adaptive(1e-4, 1e-6), solver=diffrax.Tsit5())
    assert pdefit.doctor(J).healthy
    found = pdefit.doctor(J, jnp.asarray([2.0]))
    # 3.5 < 2 (1 + t) from t = 0.75
    assert found.kind == "state" and found.operation == "log" and 0.75 < found.time < 1.2
    assert found.steps == J.layout.time_grid.steps and "safe_sqrt" in found.remedy


def test_a_root_behind_a_where_spoils_the_way_back():
    found = pdefit.doctor(functional(root, controls={"y0": {"u": pdefit.transforms.Identity()}}))
    assert found.kind == "cotangent" and found.field == "u" and found.index == (0,)
    # u is 0 in the first cell at the start only
    assert found.step == 1 and found.segment == 1 and "becomes NaN at x = 1 mm" in found.sentence
    assert found.line.line == line_of(root, "jnp.sqrt") and "safe_sqrt" in found.remedy
    assert "the derivative of" in found.sentence


def test_a_parameter_whose_derivative_is_infinite():
    J = functional(power, k=0.0)
    value, gradient = eqx.filter_jit(J.value_and_grad)(J.theta0)
    assert np.isfinite(value) and not np.all(np.isfinite(gradient))
    found = pdefit.doctor(J)
    assert found.kind == "cotangent" and found.field == "k" and "the control k" in found.sentence
    # steps of 0.05 end beside the jump at t = 1 as well
    assert found.time == 2.0 and found.step == 42 and found.line.line == line_of(power, "jnp.sqrt")


def test_an_observation_operator_that_sees_nan():
    sensor = LogSensor(jnp.asarray(2.0))
    found = pdefit.doctor(functional(calm, data=record(names=("w",)), observe=sensor))
    # w = exp(-t) passes 0.3 at t = 1.204
    assert found.kind == "observation" and found.field == "w" and found.time == pytest.approx(1.4)
    assert found.operation == "log" and found.line.line == line_of(LogSensor.__call__, "jnp.log")
    # a value that is missing there is not looked at
    seen = np.where(TS[:, None] > 1.3, np.nan, np.zeros((TS.size, 3)))
    data = pdefit.Observations.build(TS, {"w": seen})
    assert pdefit.doctor(functional(calm, data=data, observe=sensor)).kind != "observation"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda J: J.reweighted({"w": np.full((11, 3), np.nan)}), "A sigma of the observed 'w' is nan at t = 0"),
        (lambda J: J.reweighted({"u": [1.0, 0.0, 1.0]}), "A sigma of the observed 'u' is 0 in float64"),
        (
            lambda J: eqx.tree_at(
                lambda f: f.observations.values["w"], J, replace_fn=lambda x: x.at[3, 1].set(jnp.nan)
            ),
            "A value of the observed 'w' is nan at t = 0.6 s (frame 3, index [1])",
        ),
        (
            lambda J: eqx.tree_at(lambda f: f.problem.y0.u, J, replace_fn=lambda x: x.at[1].set(jnp.inf)),
            "initial state 'u' is infinite at x = 1.5 mm",
        ),
    ],
)
def test_what_it_is_given_is_looked_at_first(change, words):
    found = pdefit.doctor(change(functional(calm)))
    assert found.kind == "input" and words in found.sentence


def test_controls_that_map_to_no_number():
    J = functional(calm, controls={"k": pdefit.transforms.Log()})
    found = pdefit.doctor(J, jnp.asarray([800.0]))
    assert found.kind == "input" and "The control 'k' is infinite at theta = 800" in found.sentence


def test_residuals_whose_squares_overflow():
    found = pdefit.doctor(functional(calm, data=record(1e200)))
    assert found.kind == "overflow" and found.step == 0 and "squared residuals overflow" in found.sentence


def test_a_prior_that_is_not_finite_away_from_its_guess():
    prior = pdefit.priors.LogNormal(1.0, 0.5)
    J = functional(calm, controls={"k": pdefit.Control(prior=prior)})
    found = pdefit.doctor(J, jnp.asarray([-1.0]))
    assert found.kind == "extra" and "priors" in found.sentence


class Plane(pdefit.AbstractSystem):
    """u' = k / (1 - t) in one cell, 0 in all others."""

    time_unit: ClassVar[str] = "s"
    grid: pdefit.CartesianGrid
    k: jax.Array = pdefit.parameter(default=1.0)

    def vector_field(self, t, y, args):
        x, z = self.grid.mesh()
        return {"u": jnp.where((x > 2.0) & (z < 1.0), self.k / (1 - t), 0.0)}

    def init(self, key):
        return {"u": jnp.zeros(self.grid.shape)}

    def coords(self):
        return {"u": self.grid.coords(unit="1", long_name="u")}


def test_the_position_of_a_cell_in_two_dimensions():
    system = Plane(pdefit.CartesianGrid(shape=(3, 4), extent=(3.0, 4.0)))
    data = pdefit.Observations.build(TS, {"u": np.zeros((11, 3, 4))})
    J = pdefit.Functional(pdefit.Problem(system, system.init(None)), data, {"k": pdefit.transforms.Identity()}, dt=0.2)
    found = pdefit.doctor(J)
    assert found.index == (2, 0) and found.position == {"x": 2.5, "y": 0.5} and found.operation == "div"
    assert found.time == pytest.approx(1.0) and "at x = 2.5, y = 0.5 (index [2, 0])" in found.sentence


@pytest.mark.parametrize(
    "make",
    [
        lambda: fisher_functional(
            controls={
                "r": pdefit.transforms.Log(),
                "D": pdefit.transforms.Log(),
                "y0": {"u": pdefit.Control(smoothing=2.0)},
            }
        ),
        lambda: fisher_functional(dt=None, steps=pdefit.Adaptive(1e-4, 1e-6), solver=diffrax.Tsit5()),
        positions_functional,
        lambda: planets_functional(solver=pdefit.solvers.VelocityVerlet()),
    ],
)
def test_a_healthy_functional_has_the_gradient_that_the_doctor_says(make):
    J = make()
    value, gradient = eqx.filter_jit(J.value_and_grad)(J.theta0)
    found = pdefit.doctor(J)
    assert found.healthy and found.sentence.startswith("Healthy: J = ")
    assert found.loss == pytest.approx(float(value), rel=1e-10)
    assert found.gradient_norm == pytest.approx(float(jnp.linalg.norm(gradient)), rel=1e-9)
    assert found.largest_value.value > 0 and found.largest_cotangent.value > 0


def test_of_many_recordings_the_sick_one_is_named():
    good = functional(steep, k=0.1)
    assert pdefit.doctor(pdefit.Recordings([good, good])).healthy
    bad = functional(steep, k=0.1, y0=State(jnp.asarray([0.0, 0.5, 5.0]), jnp.ones(3)))
    found = pdefit.doctor(pdefit.Recordings([good, bad]))
    assert found.recording == 1 and found.sentence.startswith("Recording 1: At t = ")


def test_a_fit_that_cannot_start_points_to_the_doctor():
    with pytest.raises(pdefit.PdefitError, match="pdefit doctor"):
        pdefit.fit(functional(blowing), [pdefit.optimizers.LBFGS()], max_iterations=3)
