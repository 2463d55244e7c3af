"""Score test of what a fit holds at wrong values: the verdict names it where it would explain the residuals."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import State

import pdefit
from pdefit.analysis.goodness.verdict import BOUNDED, FITTED, MISSES

TIMES = np.linspace(0.0, 4.0, 41)
SIGMA = 0.01


class Cooling(pdefit.AbstractSystem):
    """u' = -k (u - a) + b sin(2 t) from u0, of which the controls k and a take up part of a wrong u0 or b."""

    time_unit = "h"
    k: jax.Array = pdefit.parameter(positive=True)
    a: jax.Array = pdefit.parameter(positive=True)
    b: jax.Array = pdefit.parameter(positive=True)
    u0: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(self.b * jnp.sin(2 * t) - self.k * (y.u - self.a))

    def init(self, key):
        return State(self.u0[None])


def _judged(draw, k=None, **held):
    """The verdict on a fit of k and a beside held values, of a record of k = 2, a = .5, b = 2 and u0 = 3."""
    true = {"k": 2.0, "a": 0.5, "b": 2.0, "u0": 3.0}
    system = Cooling(**{n: jnp.asarray(x) for n, x in true.items()})
    options = {"dt": 0.05, "solver": pdefit.solvers.RK4()}
    data = pdefit.simulate(system, system.init(None), TIMES, **options)
    wrong = Cooling(**{n: jnp.asarray(x) for n, x in (true | held).items()})
    functional = pdefit.Functional(
        pdefit.Problem(wrong, wrong.init(None), initial=pdefit.OwnInitial()),
        pdefit.add_noise(data, SIGMA / float(np.ptp(data.values["u"])), jax.random.key(draw)),
        {"k": k or pdefit.transforms.Log(), "a": pdefit.transforms.Log()},
        **options,
    )
    return _verdict(functional)


def _verdict(functional):
    return pdefit.judge(pdefit.fit(functional, [pdefit.optimizers.LevenbergMarquardt()])).verdict


@pytest.mark.parametrize(("name", "wrong"), [("b", 2.06), ("u0", 3.05)])
def test_a_held_number_that_is_wrong_is_named(name, wrong):
    verdict = _judged(0, **{name: wrong})
    assert verdict.word != FITTED and any(name in reason.split() for reason in verdict.reasons)


@pytest.mark.parametrize(("most", "word"), [(1.9, MISSES), (1.99, BOUNDED)])
def test_a_number_that_ends_at_its_bound_is_named(most, word):
    """It is 2. Where residuals tell, the verdict says what they ask for."""
    bounds = pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Value(1.0), bounds=(0.1, most))
    verdict = _judged(0, k=bounds)
    assert verdict.word == word and f"k ends at its bound {most}" in verdict.reasons
    asked = re.search(
        rf"a change of k \(at its bound {most}, where the residuals ask for (.*)\) explains it", verdict.reason
    )
    assert abs(float(asked.group(1)) - 2) < 0.02 if word == MISSES else asked is None
    assert verdict.next.startswith("widen the bounds of k")


class Lit(pdefit.AbstractSystem):
    """u' = s(x) - k u in eight places, of which none sees another."""

    time_unit = "h"
    s: jax.Array = pdefit.parameter(positive=True)
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return State(self.s - self.k * y.u)

    def init(self, key):
        return State(jnp.zeros(8))


def test_a_held_field_that_is_wrong_in_a_patch_is_named():
    true, ts = Lit(s=jnp.ones(8), k=jnp.ones(())), TIMES[::2]
    data = pdefit.add_noise(pdefit.simulate(true, true.init(None), ts, dt=0.1), SIGMA, jax.random.key(0))
    held = Lit(s=jnp.ones(8).at[2:5].set(1.03), k=jnp.ones(()))
    functional = pdefit.Functional(pdefit.Problem(held, held.init(None)), data, {"k": pdefit.transforms.Log()}, dt=0.1)
    verdict = _verdict(functional)
    assert verdict.word != FITTED and any("s" in reason.split() for reason in verdict.reasons)


@pytest.mark.parametrize("draw", range(3))
def test_held_numbers_that_are_right_stay_unsuspected(draw):
    assert _judged(draw).word == FITTED
