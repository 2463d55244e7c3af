"""Planted unknowns that data cannot determine, named with their partners."""

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import positions_functional

import pdefit
from pdefit.analysis.identifiability import identify as module
from pdefit.analysis.identifiability.compensation import compensation
from pdefit.analysis.identifiability.identify import THRESHOLDS, identify, relative_sizes

TS = np.linspace(0.0, 2.0, 11)
LOG = pdefit.transforms.Log()


class Wave(NamedTuple):
    re: jax.Array
    im: jax.Array


class Planted(pdefit.AbstractSystem):
    """z' = (-a b + d + 2 e + i w) z: only the product a b is seen, only the sum d + 2 e, and c does nothing."""

    time_unit: ClassVar[str] = "s"
    a: jax.Array = pdefit.parameter()
    b: jax.Array = pdefit.parameter()
    c: jax.Array = pdefit.parameter()
    d: jax.Array = pdefit.parameter()
    e: jax.Array = pdefit.parameter()
    w: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        # the two parts of the rate can be told apart, because one of them ends
        rate = jnp.where(t < 1.0, self.d + 2 * self.e, 0.0) - self.a * self.b
        return Wave(rate * y.re - self.w * y.im, rate * y.im + self.w * y.re)

    def init(self, key):
        return Wave(jnp.asarray([1.0, 2.0]), jnp.asarray([0.5, -1.0]))


class Modulus(pdefit.instruments.AbstractObservationOperator):
    """|z|^2, which no phase changes."""

    def __call__(self, t, y, args):
        return {"power": y.re**2 + y.im**2}


class Populations(NamedTuple):
    prey: jax.Array
    predator: jax.Array


class Hybrid(pdefit.AbstractSystem):
    """prey' = alpha prey + N1(prey, predator), predator' = N2(prey, predator) - 1.8 predator, with a network N."""

    time_unit: ClassVar[str] = "1"
    alpha: jax.Array = pdefit.parameter(positive=True)
    net: eqx.nn.MLP = pdefit.parameter()

    def vector_field(self, t, y, args):
        first, second = self.net(jnp.stack(y))
        return Populations(self.alpha * y.prey + first, second - 1.8 * y.predator)

    def init(self, key):
        return Populations(jnp.asarray(2.0), jnp.asarray(1.0))


def twin(system, controls, observe=None):
    """The functional of a system at the truth."""
    y0 = system.init(None)
    problem = pdefit.Problem(system, y0, *([] if observe is None else [observe]))
    data = pdefit.simulate(system, y0, TS, dt=0.05, **({} if observe is None else {"observe": observe}))
    data = data.with_sigma({name: np.full_like(x, 0.01) for name, x in data.sigma.items()})
    return pdefit.Functional(problem, data, controls, dt=0.05)


@pytest.fixture(scope="module")
def planted():
    system = Planted(a=0.8, b=0.5, c=3.0, d=0.3, e=0.2, w=1.5)
    states = {"re": pdefit.transforms.Identity(), "im": pdefit.transforms.Identity()}
    return twin(system, {**dict.fromkeys("abcde", LOG), "w": LOG, "y0": states}, Modulus())


def by_name(found):
    return {one.control: one for one in found.controls}


def test_what_was_planted_is_named(planted):
    found = by_name(identify(planted, planted.theta0))
    assert found["a"].partners.keys() == {"b"} and found["b"].partners.keys() == {"a"}
    np.testing.assert_allclose([found[n].projection for n in "abc"], [0.5, 0.5, 1.0], rtol=1e-6)
    assert found["c"].verdict == "not identifiable: without influence"
    # a change of d by d is undone by one of e by -d / 2, in units of their sizes 1 and -3/4
    assert found["d"].partners.keys() == {"e"} and found["e"].partners.keys() == {"d"}
    np.testing.assert_allclose([found[n].projection for n in "de"], [16 / 25, 9 / 25], rtol=1e-6)
    # the phase of each wave: its two parts, and the frequency for both
    assert found["w"].projection == pytest.approx(1.0)
    assert found["y0.re.0"].partners.keys() == {"y0.im.0"} and found["y0.im.1"].word == "not identifiable"
    for one in found.values():
        assert sum(one.components.values()) == pytest.approx(one.projection)
        assert np.all(np.diff(one.curve) >= 0) and one.known_to > 1
        assert one.curve[THRESHOLDS.searchsorted(0.9e-5)] == pytest.approx(one.projection)


def test_compensation(planted):
    """A change of a alone is seen, that of a and b together is not."""
    answer = identify(planted, planted.theta0)
    a, c = (compensation(planted, planted.theta0, answer, by_name(answer)[n]) for n in "ac")
    assert a.alone > 1 and a.together < 1e-4 * a.alone and c.alone < 1e-6
    names = planted.controls.names()
    # of the logarithms: a up, b down by as much
    np.testing.assert_allclose(a.adjusted[[names.index(n) for n in "ab"]], [0.1, -0.1], rtol=1e-3)


def test_products_tell_the_same(planted, monkeypatch):
    """Without a matrix: partners and thresholds as with one, and intervals with a prior of all unknowns."""
    known = by_name(identify(planted, planted.theta0))
    monkeypatch.setattr(module, "FEW", 0)
    answer = identify(planted, planted.theta0)
    assert answer.by_products
    for name, one in by_name(answer).items():
        assert one.word == known[name].word and one.partners.keys() == known[name].partners.keys()
        assert one.projection == pytest.approx(known[name].projection, abs=0.01)
        assert np.all(np.diff(one.curve) >= 0) and one.known_to <= 1.96
    assert by_name(answer)["a"].shared["b"] > 0.99 and by_name(answer)["a"].lengthened > 100
    assert by_name(answer)["a"].known_to == pytest.approx(1.96 / np.sqrt(2), rel=0.01)
    straight = compensation(planted, planted.theta0, answer, by_name(answer)["a"])
    assert straight.together < 1e-3 * straight.alone


def test_a_verdict_that_the_bounds_leave_open(planted, monkeypatch):
    """With too few products nobody is told that a number is known."""
    monkeypatch.setattr(module, "FEW", 0)
    found = by_name(identify(planted, planted.theta0, products=2))
    assert found["a"].word == "undecided" and found["a"].known_to < 0.05 < 1 < found["a"].known_to_at_most
    assert found["a"].verdict.startswith("undecided: more products") and " to " in found["a"].known
    one = dataclasses.replace(
        found["a"], projection=0.0, projection_at_most=0.0, known_to_at_most=0.1, lengthened=30.0, shared={"b": 1.0}
    )
    assert one.verdict == "identifiable; with b free its interval is 30 times as long"


def test_a_network_takes_over_a_term():
    """The growth of the prey is a part of what the network can represent."""
    net = eqx.nn.MLP(2, 2, 8, 1, jnp.tanh, key=jax.random.key(0))
    hybrid = twin(Hybrid(alpha=0.3, net=net), {"alpha": LOG, "net": pdefit.transforms.Identity()})
    answer = identify(hybrid, hybrid.theta0)
    alpha, network = by_name(answer)["alpha"], by_name(answer)["net"]
    assert alpha.word == "not identifiable" and alpha.partners.keys() == {"net"} and network.elements.size == 42
    moved = compensation(hybrid, hybrid.theta0, answer, alpha)
    assert moved.alone > 1 and moved.together < 0.1 * moved.alone


def test_node_states_follow():
    """With free node states and stiff gaps the sun is seen best, as without: its planets hardly pull at each other."""
    functional = positions_functional(noise=np.random.default_rng(0))
    answer = identify(functional, functional.theta0)
    found = by_name(answer)
    assert list(found) == ["gm.sun", "gm.inner", "gm.outer"] and answer.eigenvalues.size == 3
    assert np.all(answer.eigenvalues > 0) and found["gm.sun"].projection < 1e-3
    # masses of a thousandth are beneath the threshold, but not beneath a noise of a millionth
    assert found["gm.inner"].projection > 0.9 and found["gm.inner"].known_to < 0.01
    assert found["gm.inner"].verdict.startswith("identifiable, by the precision of the data")


def test_what_is_zero_has_the_size_of_one_in_its_unit():
    system = Planted(*map(jnp.asarray, (1.0, 0.5, 0.0, 0.2, 0.1, 3.0)))
    functional = twin(system, {"b": LOG, "c": pdefit.Control(scale=0.1)})
    np.testing.assert_allclose(relative_sizes(functional.controls, functional.theta0), [1.0, 10.0])
