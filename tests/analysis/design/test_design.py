"""Intervals before there are data: exact solutions, the normal equations of longer records, and places that add up."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from problems import decays

import pdefit
from pdefit.analysis.design._information import DenseTimes
from pdefit.analysis.design._places import places_of
from pdefit.analysis.identifiability.identify import HALF
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.objective.compiled import normal_equations

TS, SIGMA, RATE = np.linspace(0.0, 2.0, 5), 0.01, 0.8
LOG = pdefit.transforms.Log()


class Cells(pdefit.AbstractSystem):
    """u' = -k u in three cells, and v' = k u, which is hidden. Only a times b is seen."""

    time_unit: ClassVar[str] = "s"
    k: jnp.ndarray = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return {"u": -self.k * y["u"], "v": self.k * y["u"]}

    def init(self, key):
        return {"u": jnp.asarray([1.0, 2.0, 4.0]), "v": jnp.zeros(3)}


class Dye(pdefit.instruments.AbstractObservationOperator):
    gain: jnp.ndarray = pdefit.parameter(positive=True)

    def __call__(self, t, y, args):
        return {"light": self.gain * y["u"]}


def functional(controls, observe=None, ts=TS, mask=None, noise=0.0):
    """The objective of a record of cells at the truth; its values are of no account."""
    system = Cells(k=jnp.asarray(RATE))
    observe = observe or pdefit.instruments.Select("u")
    y0, name = system.init(None), "light" if isinstance(observe, Dye) else observe.fields[0]
    values = np.full((len(ts), 3), 7.0) if mask is None else np.where(mask, 7.0, np.nan)
    data = pdefit.Observations.build(ts, {name: values}, SIGMA)
    return pdefit.Functional(pdefit.Problem(system, y0, observe), data, controls, dt=0.02)


@pytest.fixture(scope="module")
def decay():
    return pdefit.design(objective := functional({"k": LOG}), objective.theta0)


def exact(ts, cells=(1.0, 2.0, 4.0)):
    """Half the interval of ln k: d u/d ln k = -k t u."""
    rows = RATE * np.asarray(ts)[:, None] * np.exp(-RATE * np.asarray(ts))[:, None] * np.asarray(cells)[None]
    return 1.959964 * SIGMA / np.linalg.norm(rows)


def test_a_decay_is_known_as_its_solution_says(decay):
    assert decay.half[0] == pytest.approx(exact(TS), rel=1e-6)
    assert (decay.names, decay.units, decay.undetermined) == (("k",), ("1",), ())
    assert decay.high[0] == pytest.approx(RATE * np.exp(exact(TS)), rel=1e-6)
    # one more look tells most where t exp(-k t) is largest, at 1/k
    best = decay.best("frame")
    assert best.time == 1.25 and best.half[0] == pytest.approx(exact([*TS, 1.25]), rel=1e-6)
    assert decay.best("frame", second=True).half[0] == pytest.approx(exact([*TS, 1.25, 1.25]), rel=1e-6)
    late = next(c for c in decay.candidates if c.time == 3.0)
    assert late.half[0] == pytest.approx(exact([*TS, 3.0]), rel=1e-6)
    assert decay.best("recording").half[0] == pytest.approx(decay.half[0] / np.sqrt(2), rel=1e-9)
    place = next(c for c in decay.candidates if c.kind == "place" and c.variable == "u" and c.place == (2.0,))
    together = 1 / np.sqrt(exact(TS) ** -2 + exact(TS, (4.0,)) ** -2)
    assert place.half[0] == pytest.approx(together, rel=1e-6) and place.words == "u at 2, a second time"
    assert "One more frame at t = 1.25" in str(decay)


def test_a_value_of_zero_has_its_interval_in_its_unit():
    objective = functional({"y0": {"v": pdefit.Control(scale=0.1)}}, pdefit.instruments.Select("v"))
    found = pdefit.design(objective, objective.theta0)
    # v is seen at five times, of which each tells the start as it is
    assert found.half == pytest.approx(np.full(3, HALF * SIGMA / np.sqrt(5)), rel=1e-6)
    assert found.high == pytest.approx(found.half) and found.width(k=0) == f"±{found.half[0]:.3g}"


def test_cadences_are_records_of_their_own(decay):
    for one in decay.cadences:
        count = {0.25: 17, 0.5: 9, 1.0: 5, 2.0: 3}[one.every]
        assert one.half[0] == pytest.approx(exact(np.linspace(0.0, 2.0, count)), rel=1e-6)
        # the first frame tells nothing
        assert one.frames == count - 1
    assert decay.enough.every == 2.0


class Swing(pdefit.AbstractSystem):
    """x' = k cos(pi t): what is seen of k is sin(pi t) / pi."""

    time_unit: ClassVar[str] = "s"
    k: jnp.ndarray = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return {"x": self.k * jnp.cos(jnp.pi * t)}

    def init(self, key):
        return {"x": jnp.asarray(0.0)}


def test_a_cadence_that_meets_the_zeros_is_not_enough():
    system, ts = Swing(k=jnp.asarray(1.0)), np.linspace(0.0, 8.0, 17)
    y0 = system.init(None)
    data = pdefit.Observations.build(ts, {"x": 0 * ts}, 0.1)
    objective = pdefit.Functional(pdefit.Problem(system, y0), data, {"k": LOG}, dt=0.05)
    found = pdefit.design(objective, objective.theta0)
    lost = {c.every: c.lost[0] for c in found.cadences}
    assert found.enough.every == 1.0 and not lost[2.0] < 1e3


def test_a_frame_is_seen_as_the_nearest_one():
    """A masked frame is no candidate of its own, and the nearest one says what is seen between."""
    mask = np.asarray([[1, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0]], bool)
    objective = functional({"k": LOG}, mask=mask)
    found = pdefit.design(objective, objective.theta0)
    parts = [exact(TS[[3]]), exact(TS[[1]], (1.0, 4.0))]
    now = 1 / np.sqrt(np.sum(np.power(parts, -2.0)))
    assert found.half[0] == pytest.approx(now, rel=1e-6)
    by_time = {c.time: c.half[0] for c in found.candidates if c.kind == "frame" and not c.is_second}
    # that frame shows nothing, and its neighbours show what theirs do
    assert by_time[1.0] == pytest.approx(found.half[0], rel=1e-9)
    assert by_time[0.625] == pytest.approx(1 / np.sqrt(now**-2 + exact([0.625], (1.0, 4.0)) ** -2), rel=1e-6)
    assert by_time[1.25] == pytest.approx(1 / np.sqrt(now**-2 + exact([1.25]) ** -2), rel=1e-6)


@pytest.fixture(scope="module")
def dye():
    priors = {"k": pdefit.Control(LOG), "observe": {"gain": pdefit.Control(LOG)}, "y0": {"u": pdefit.Control(LOG)}}
    return functional(priors, Dye(2.0))


def test_a_hidden_field_determines_what_compensates(dye):
    found = pdefit.design(dye, dye.theta0)
    assert found.undetermined == ("observe.gain", "y0.u.0", "y0.u.1", "y0.u.2")
    assert np.isfinite(found.half[found.names.index("k")])
    # the target is one that a candidate determines: u itself, or what is made of it
    assert found.names[found.target] in found.undetermined
    fields = {c.variable: c for c in found.candidates if c.kind == "field" and not c.is_second}
    assert np.isfinite(fields["u"].half).all() and np.isfinite(fields["v"].half).all()
    assert found.width() == "undetermined" and found.shrink(fields["u"])[found.target] == 0.0
    assert not np.isfinite(fields["light"].half[found.target])
    assert str(found).endswith(f"No single further frame would determine {found.names[found.target]}.")
    assert pdefit.design(dye, dye.theta0, target="k").target == 0
    with pytest.raises(pdefit.PdefitError, match="unknown of this design"):
        pdefit.design(dye, dye.theta0, target="kk")


def test_priors_and_repeats_with_a_start_of_their_own():
    """The matrix is that of the fit; that of two recordings with one rate and two starts shows what a repeat gains."""
    controls = {"k": pdefit.Control(LOG, prior=pdefit.priors.LogNormal(0.8, 0.02)), "y0": {"u": LOG}}
    objective = functional(controls)
    found = pdefit.design(objective, objective.theta0)
    matrix = np.asarray(normal_equations(objective, objective.theta0)[2])
    np.testing.assert_allclose(found.half, HALF * determined_inverse(matrix).errors, rtol=1e-6)
    data = matrix - np.diag([1 / 0.02**2, 0, 0, 0])
    left = data[0, 0] - data[0, 1:] @ np.linalg.solve(data[1:, 1:], data[1:, 0])
    expected = 1.959964 / np.sqrt(2 * left + 1 / 0.02**2)
    assert found.best("recording").half[0] == pytest.approx(expected, rel=1e-6)


def test_segments_are_one_trajectory():
    single = decays(count=1)[0]
    ts, theta = single.observations.ts, single.theta0
    objective = single.reformulated(pdefit.formulations.Segments(0.4), theta)
    assert objective.layout.segments == 3
    found = pdefit.design(objective, objective.theta0)
    rows = np.outer(ts * np.exp(-ts), [1.0, 2.0, 3.0])
    assert found.half[0] == pytest.approx(HALF * SIGMA / np.linalg.norm(rows), rel=1e-6)
    place = found.best("place")
    assert place.words == "u at cell = 2, a second time" and place.place == (2.0,)


def test_what_cannot_be_answered():
    objective = functional({"k": LOG})
    with pytest.raises(pdefit.PdefitError, match="not finite"):
        pdefit.design(objective, objective.theta0 + np.inf)
    field = eqx.tree_at(lambda f: f.controls, objective, Controls(objective.controls.items * 201))
    with pytest.raises(pdefit.PdefitError, match="few unknowns, up to 200, but there are 201"):
        pdefit.design(field, field.theta0)


def test_places_and_times():
    assert places_of((20, 2))[1] == (slice(0, 1), slice(1, 2)) and len(places_of((64, 64))) == 64
    assert len(places_of((2, 500))) == 32 and len(places_of(())) == 1
    assert sum(s.stop - s.start for s, _ in places_of((30, 3))) == 30
    times = DenseTimes.of(np.asarray([0.0, 1.0, 3.0]), np.asarray([1, 2]), 4)
    np.testing.assert_allclose(times.ts, [0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4.5])
    assert times.finer.tolist() == [1, 4, 2, 4, 1, 4, 2, 4, 1, 0]
    # the first frame stays itself, although nothing is fitted there; others take the nearest useful one
    assert times.nearest.tolist() == [0, 1, 1, 1, 1, 1, 1, 2, 2, 2]
