"""The time and the parameters of the initial state: `times.start` before the first frame, and an `init` made of unknowns."""

import equinox as eqx
import h5py
import numpy as np
import pytest

import pdefit
from pdefit.analysis.goodness.remainder import Remainder
from pdefit.inverse.fit.choose_stages import _begins_right

EQUATIONS = '''
import jax.numpy as jnp
import pdefit
from jaxtyping import Array
from typing import NamedTuple


class State(NamedTuple):
    N: Array


class Growth(pdefit.AbstractSystem, pdefit.capabilities.AbstractDataState):
    """N' = r N (1 - N / K), inoculated with some."""

    time_unit = "h"
    r: Array = pdefit.parameter(unit="1/h", positive=True)
    K: Array = pdefit.parameter(unit="1", positive=True)
    some: Array = pdefit.parameter(unit="1", positive=True, default=0.05)

    def vector_field(self, t, y, args):
        return State(self.r * y.N * (1 - y.N / self.K))

    def init(self, key):
        return State(self.some)

    def init_from_data(self, observations, index=0):
        return State(observations.values["N"][index])


class Plain(pdefit.AbstractSystem):
    """The same without a state from data."""

    time_unit = "h"
    r: Array = pdefit.parameter(unit="1/h", positive=True)
    K: Array = pdefit.parameter(unit="1", positive=True)

    def vector_field(self, t, y, args):
        return State(self.r * y.N * (1 - y.N / self.K))

    def init(self, key):
        return State(jnp.asarray(0.5))


class Two(NamedTuple):
    N: Array
    M: Array


class Pair(Plain):
    """With a field that is not seen."""

    def vector_field(self, t, y, args):
        return Two(self.r * y.N * (1 - y.N / self.K), -y.M)

    def init(self, key):
        return Two(jnp.asarray(0.5), jnp.asarray(0.5))


class Taken(Plain):
    """With a parameter that has the name of a part of the problem."""

    y0: Array = pdefit.parameter(default=0.05)

    def init(self, key):
        return State(self.y0)


class Frozen(Growth):
    """Numbers of Python in its start."""

    def init(self, key):
        return State(jnp.asarray(float(self.some)))
'''
EXPERIMENT = """
# Growth from a known number of cells.
system: {{name: growth, r: 0.5, K: 1.0}}
data: {{path: {path}, variables: {{N: od}}, time: hour, sigma: {{N: 0.05}}}}
dt: 0.05
controls: {{r: log, K: log}}
"""
TS = np.arange(1.0, 10.0)


def growth(t, first=0.05):
    """The exact solution with r = 0.5 and K = 1."""
    return 1 / (1 + (1 / first - 1) * np.exp(-0.5 * t))


@pytest.fixture
def load(tmp_path):
    """The experiment of a table that begins at some time, with changed settings."""

    def load_(*words, ts=TS, values=None, load=pdefit.load_experiment):
        rows = "\n".join(f"{t},{x}" for t, x in zip(ts, growth(ts) if values is None else values, strict=True))
        (tmp_path / "growth.csv").write_text(f"hour,od\n{rows}\n")
        (tmp_path / "growth.py").write_text(EQUATIONS)
        (tmp_path / "growth.yaml").write_text(EXPERIMENT.format(path=tmp_path / "growth.csv"))
        return load(tmp_path / "growth.yaml", words, equations=tmp_path / "growth.py")

    return load_


RESIDUALS = eqx.filter_jit(lambda functional: functional.residuals(functional.theta0))


def off(functional):
    """The largest residual at the guess, in the unit of the data."""
    return 0.05 * np.max(np.abs(RESIDUALS(functional)))


def test_the_initial_state_is_that_of_the_stated_time(load):
    exp = load("times.start=0.0")
    assert off(exp.functional) < 1e-8 and exp.functional.observed_values == exp.frames == 9
    assert any("begins at t = 0 h, before the first frame at 1 h" in line for line in exp.choices)
    # frames are counted from the first that is seen
    residuals = np.asarray(RESIDUALS(exp.functional))
    (film,) = Remainder(exp.functional, {"N": residuals[None]}).films
    assert film.residuals.shape == (9,)
    assert load("times.start=0.0", "holdout=[1]").held.tolist() == [2]


def test_a_start_that_nobody_stated_is_told(load):
    exp = load()
    assert off(exp.functional) > 0.02
    assert any("begins at the first frame, t = 1 h; set times.start" in line for line in exp.choices)
    for words, ts in (("times.start=1",), TS), ((), TS - 1), (("+controls.y0={N: {}}",), TS):
        assert not any("start:" in line for line in load(*words, ts=ts).choices)


def test_a_start_that_was_typed_is_the_frame_but_for_round_off(load):
    record = load("times.start=0.3", "times.stop=0.7", ts=0.1 * TS).source.record
    assert record.first_frame == 0 and record.ts.size == 5


def test_a_record_without_a_value_is_refused(load):
    values = np.where(TS < 4, np.nan, growth(TS))
    for words in ("times.fit_until=3", "times.start=0.0"), ("times.fit_until=3",):
        with pytest.raises(pdefit.PdefitError, match=r"fit_until = 3.0 leaves 0 frames to fit; the first is at 4"):
            load(*words, values=values)


def test_one_late_frame_is_enough(load):
    exp = load("times.start=0.0", "times.stop=1.5")
    assert exp.source.record.ts.tolist() == [0.0, 1.0, 1.5] and off(exp.functional) < 1e-8


def test_one_late_frame_in_python(load):
    problem, controls = load("times.start=0.0").first.problem, {"r": pdefit.transforms.Log()}
    alone = pdefit.Observations.build(TS[:1], {"N": growth(TS[:1])}, 0.05)
    late = pdefit.Functional(problem, alone.with_nothing_at(0.0), controls, dt=0.05)
    assert off(late) < 1e-8 and late.observed_values == 1
    with pytest.raises(pdefit.PdefitError, match=r"there is one; .* begin there: observations.with_nothing_at\(t\)"):
        pdefit.Functional(problem, alone, controls)


def test_what_one_late_frame_allows(load):
    """The start is known, so `until` may be the frame; what leaves nothing to fit is refused by its reason."""
    ts, start = TS[:1], "times.start=0.0"
    until = "stages={{first: {{optimizer: {{name: lbfgs}}, until: {}}}, last: {{optimizer: {{name: lbfgs}}}}}}".format
    exp = load(start, until(1.0), ts=ts)
    assert off(exp.first.reformulated(exp.stages[0].formulation, exp.first.theta0)) < 1e-8
    for words, told in (
        (["holdout=0.1"], "asks for 1 of 1 frames, but 0 may be kept out"),
        ([until(0.5)], "until = 0.5 ends before the second time of the record, 1"),
        (["times.fit_until=0.5"], "leaves 0 frames to fit; the first is at 1"),
    ):
        with pytest.raises(pdefit.PdefitError, match=told):
            load(start, *words, ts=ts)


def test_states_from_data_are_those_of_the_first_frame(load):
    exp = load("times.start=0.0", "controls={r: log, y0: {N: {guess: data}}}")
    np.testing.assert_allclose(exp.first.problem.y0.N, growth(1.0))
    assert not _begins_right(exp.first)
    assert float(load("times.start=0.0", "initial=data").first.problem.y0.N) == growth(1.0)
    nodes = load("times.start=0.0", "formulation={name: segments, length: 1.0}", "controls={r: log, nodes: {N: {}}}")
    np.testing.assert_allclose(nodes.first.problem.nodes.N, growth(np.append(1.0, TS[:-1])))
    with pytest.raises(pdefit.PdefitError, match="nothing is seen when it begins; end with a stage without a window"):
        load("times.start=0.0", "stages.main.window=2.0", "controls={r: log, y0: {N: {guess: data}}}")


@pytest.mark.parametrize("count", [9, 1])
def test_the_first_window_keeps_a_known_start_at_which_nothing_is_seen(load, count):
    exp = load("times.start=0.0", "stages.main.window=2.0", ts=TS[:count])
    cut = exp.first.reformulated(exp.stages[-1].formulation, exp.first.theta0)
    assert off(cut) < 1e-8 and cut.observed_values == count


def test_the_first_frame_is_the_state_of_any_system_that_is_seen(load):
    first = load("system.name=plain", "initial=data").first
    assert float(first.problem.y0.N) == growth(1.0) and [c.name for c in first.controls.items] == ["r", "K"]
    assert off(first) < 1e-8
    with pytest.raises(
        pdefit.PdefitError, match=r"initial=data expects values at t = 0, .* set times.start=1, or make"
    ):
        load("system.name=plain", "initial=data", "times.start=0.0")
    with pytest.raises(pdefit.PdefitError, match="States from data expect the field 'M' .* Pair has no init_from_data"):
        load("system.name=pair", "initial=data", "observe={name: select, fields: [N]}")


def test_a_parameter_is_not_called_as_a_part_of_the_problem(load):
    with pytest.raises(
        pdefit.PdefitError, match="A parameter of Taken is called 'y0', but in controls y0, observe, .*"
    ):
        load("system.name=taken", "controls={r: log, y0: log}")


def test_each_recording_has_its_start(load):
    rest = f"{{times: {{start: 3.0}}, system: {{some: {float(growth(3.0))!r}}}}}"
    own = "+controls.some={transform: log, scope: experiment}"
    exp = load(f"recordings={{whole: {{times: {{start: 0.0}}}}, rest: {rest}}}", own)
    assert off(exp.functional) < 1e-8
    # another number in one of them moves that one alone
    parts = exp.functional.parts(exp.functional.theta0 + np.asarray([0.0, 0.0, np.log(2.0), 0.0]))
    np.testing.assert_allclose([float(part.at(x).y0.N) for part, x in parts], [0.1, growth(3.0)])
    assert [line for line in exp.choices if "start:" in line][0].startswith(
        "whole: start: the trajectory begins at t = 0"
    )


def test_points_and_films_begin_at_the_start(tmp_path):
    """The exact front, of which nothing is seen at first, at the points of the grid and at some of its own."""
    grid, ts = pdefit.CartesianGrid((160,), (40.0,), (-20.0,)), np.asarray([0.5, 1.0])
    x = np.asarray(grid.mesh()[0])

    def front(x, t):
        return (1 + np.exp((x + 4.0 - 5 / np.sqrt(6) * t) / np.sqrt(6.0))) ** -2

    with h5py.File(tmp_path / "film.h5", "w") as file:
        file["time"], file["x"], file["u"] = ts, x, front(x, ts[:, None])
    rows = "\n".join(f"{t},{x},{front(x, t)}" for t in ts for x in (-6.1, -3.3, 0.2))
    (tmp_path / "points.csv").write_text(f"t,x,u\n{rows}\n")
    for data, observe in (
        (f"path: {tmp_path / 'film.h5'}", "{name: all}"),
        (f"path: {tmp_path / 'points.csv'}, time: t, coordinates: {{x: x}}", "{name: at}"),
    ):
        (tmp_path / "front.yaml").write_text(
            f"""
# A front that is seen late.
system: {{name: reaction/fisher_kpp, front: -4.0, D: 1.0, r: 1.0,
  grid: {{shape: [160], extent: [40.0], origin: [-20.0], length_unit: mm}}}}
times: {{start: 0.0}}
data: {{{data}, variables: {{u: u}}, sigma: {{u: 1.0}}}}
observe: {observe}
controls: {{D: log}}
"""
        )
        functional = pdefit.load_experiment(tmp_path / "front.yaml").functional
        assert off(functional) < 1e-4


def test_the_state_of_the_system_follows_what_it_is_made_of(load):
    """One number of the start, whose derivative at t = 0 is that of the logistic curve: the data determine it."""
    exp = load("times.start=0.0", "~controls.r", "~controls.K", "+controls.some={transform: log, guess: 0.1}")
    functional = exp.first
    assert isinstance(functional.problem.initial, pdefit.OwnInitial) and float(functional.problem.y0.N) == 0.1
    jac = np.asarray(functional.jacobian(functional.theta0))[:, 0] * 0.05
    step = 1e-4
    slope = (growth(TS, 0.1 * np.exp(step)) - growth(TS, 0.1 * np.exp(-step))) / (2 * step)
    np.testing.assert_allclose(jac[np.abs(jac) > 0], slope, rtol=1e-6)
    np.testing.assert_allclose(float(exp.fit().problem.system.some), 0.05, rtol=1e-6)


def test_only_what_contains_an_unknown_is_followed(load):
    for words in ((), ("+controls.some=log", "+controls.y0={N: log}"), ("+controls.some=log", "initial=fixed")):
        assert load(*words).first.problem.initial is None
    exp = load("system.name=frozen", "+controls.some=log")
    assert exp.first.problem.initial is None
    assert any("does not follow r, K, some, because Frozen.init cannot be traced" in told for told in exp.remarks)
    # a twin, whose truth has another start than the guess
    times = "times={start: 0, stop: 4, count: 5}"
    twin = load("data=null", "twin=self", "twin.system.some=0.2", times, "+controls.some={guess: 0.1}")
    assert float(twin.first.problem.y0.N) == 0.1 and twin.first.problem.initial is not None


def test_members_begin_each_at_their_own_number(load):
    words = "members={a: {}, b: {system: {some: 0.1}}}"
    members = load("times.start=0.0", "+controls.some=log", words, load=pdefit.load_members).members
    with pytest.raises(pdefit.PdefitError, match=r"has members, each with a fit of its own; write pdefit.load_members"):
        load(words)
    with pytest.raises(pdefit.PdefitError, match=r"has no members; write pdefit.load_experiment"):
        load(load=pdefit.load_members)
    starts = [float(members.member(e).at(members.theta0[e]).y0.N) for e in (0, 1)]
    np.testing.assert_allclose(starts, [0.05, 0.1])
