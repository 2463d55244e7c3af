"""Effects of parameters that are known."""

from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import State

import pdefit

NETWORK = eqx.nn.Linear(1, 1, key=jax.random.key(0))
TS = np.linspace(0.0, 2.0, 9)


class Rates(pdefit.AbstractSystem):
    """u' = -k u + drive: with drive 0 all is known. `slow` adds hardly anything, `idle` nothing, and beyond `edge` = 1 the
    solution of u' = u^2 runs away."""

    time_unit: ClassVar[str] = "s"
    idle: jax.Array = pdefit.parameter(unit="mV")
    slow: jax.Array = pdefit.parameter(unit="1/s")
    k: jax.Array = pdefit.parameter(unit="1/s", positive=True)
    network: eqx.nn.Linear = pdefit.parameter()
    edge: jax.Array = pdefit.parameter(default=1.0)
    drive: jax.Array = pdefit.parameter(default=0.0)
    weights: jax.Array = pdefit.parameter(default=(1.0, 2.0))

    def vector_field(self, t, y, args):
        runs_away = jnp.where(self.edge > 1.2, 1e3 * y.u**2, 0.0)
        return State(-(self.k + self.slow) * y.u + self.drive + runs_away + (0.0 if args is None else args))

    def init(self, key):
        return State(jnp.array([1.0, 2.0]))


def system(**changes):
    return Rates(**{"idle": 3.0, "slow": 1e-3, "k": 0.8, "network": NETWORK, **changes})


def problem(args=None, **changes):
    return pdefit.Problem(system(**changes), State(jnp.array([1.0, 2.0])), args=args)


def distance(k, changed):
    """Of u = exp(-k t) (1, 2), in units of its range."""
    u, v = (np.exp(-rate * TS)[:, None] * [1.0, 2.0] for rate in (k, changed))
    return np.sqrt(np.mean((u - v) ** 2)) / (u.max() - u.min())


def test_effects_and_their_order():
    found = {e.parameter: e for e in pdefit.sensitivity(problem(), TS, dt=0.02).effects}
    assert list(found) == ["edge", "k", "slow", "idle", "network", "drive", "weights"]
    k = found["k"]
    assert (k.unit, k.value) == ("1/s", 0.8)
    assert k.larger == pytest.approx(distance(0.801, 1.201), rel=1e-8)
    assert k.smaller == pytest.approx(distance(0.801, 0.8 / 1.5 + 1e-3), rel=1e-8)
    assert k.size == max(k.larger, k.smaller)
    assert found["slow"].larger == pytest.approx(distance(0.801, 0.8015), rel=1e-6)
    # without influence: exactly
    assert found["idle"].larger == found["idle"].smaller == found["idle"].size == 0.0
    assert found["edge"].larger == np.inf and found["edge"].smaller == 0.0
    assert [found[n].size for n in ("drive", "weights", "network")] == [-1, -1, -1]
    assert "zero" in found["drive"].left_out and found["weights"].left_out == "an array of 2 values"
    assert found["network"].left_out == "a module, Linear" and found["network"].value is None


def test_another_factor_inputs_and_progress():
    told = []
    found = pdefit.sensitivity(
        problem(edge=0.0, args=jnp.zeros(())), TS, dt=0.02, factor=2.0, said=lambda *x: told.append(x)
    ).effects
    assert found[0].parameter == "k" and found[0].larger == pytest.approx(distance(0.801, 1.601), rel=1e-8)
    assert told == [(0, 3, "idle"), (1, 3, "slow"), (2, 3, "k"), (3, 3, "")]
    pushed = pdefit.sensitivity(problem(edge=0.0, args=jnp.ones(())), TS, dt=0.02, factor=2.0).effects
    assert pushed[0].larger != pytest.approx(found[0].larger, rel=1e-2)


def test_adaptive_steps_and_a_run_that_blows_up_under_them():
    steps = pdefit.Adaptive(rtol=1e-8, atol=1e-10)
    found = {e.parameter: e for e in pdefit.sensitivity(problem(), TS, solver=diffrax.Tsit5(), steps=steps).effects}
    assert found["k"].larger == pytest.approx(distance(0.801, 1.201), rel=1e-6)
    assert found["edge"].larger == np.inf


def test_only_what_is_observed_counts_and_each_field_by_its_range():
    class Two(pdefit.instruments.AbstractObservationOperator):
        def __call__(self, t, y, args):
            return {"all": y.u, "constant": 0.0 * y.u[:1] + 7.0}

    seen = eqx.tree_at(lambda p: p.observe, problem(), Two())
    found = pdefit.sensitivity(seen, TS, dt=0.02).effects[1]
    # a field that never moves halves the mean square
    assert found.parameter == "k" and found.larger == pytest.approx(distance(0.801, 1.201) / np.sqrt(2), rel=1e-8)


def test_parameters_of_the_instrument_are_ranked_at_the_times_of_observations():
    class Fading(pdefit.instruments.AbstractObservationOperator):
        gain: jax.Array = pdefit.parameter(unit="V", default=2.0)
        rate: jax.Array = pdefit.parameter(unit="1/s", default=0.5)

        def __call__(self, t, y, args):
            return {"light": self.gain * jnp.exp(-self.rate * t) * (0 * y.u + args)}

    seen = eqx.tree_at(lambda p: p.observe, problem(args=jnp.ones(())), Fading(), is_leaf=lambda x: x is None)
    found = {e.parameter: e for e in pdefit.sensitivity(seen, TS, dt=0.02, factor=1.5).effects}
    light, span = np.exp(-0.5 * TS), 1 - np.exp(-0.5 * TS[-1])
    assert found["observe.gain"].unit == "V" and found["observe.rate"].unit == "1/s"
    assert found["observe.gain"].larger == pytest.approx(0.5 * np.sqrt(np.mean(light**2)) / span, rel=1e-9)
    faster = np.sqrt(np.mean((np.exp(-0.75 * TS) - light) ** 2)) / span
    assert found["observe.rate"].larger == pytest.approx(faster, rel=1e-9)


def test_steps_are_stable_for_every_perturbed_system():
    from pdefit_reaction import FisherKPP

    grid = pdefit.CartesianGrid(shape=(80,), extent=(80.0,), origin=(-40.0,))
    front = FisherKPP(grid, D=1.0, r=1.0)
    y0 = front.init(jax.random.key(0))
    # close to what is stable with D, beyond what is with 1.5 D
    found = pdefit.sensitivity(pdefit.Problem(front, y0), np.linspace(0, 4, 5), dt=0.55).effects
    sizes = [e.size for e in found if not e.left_out]
    assert {e.parameter for e in found} >= {"D", "r"} and 0 < min(sizes) and max(sizes) < 1
    free = pdefit.sensitivity(pdefit.Problem(front, y0), np.linspace(0, 4, 5)).effects
    assert [e.parameter for e in free] == [e.parameter for e in found]


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(pdefit.PdefitError, match="factor above 1, but got 1"):
        pdefit.sensitivity(problem(), TS, dt=0.02, factor=1.0)
    with pytest.raises(pdefit.PdefitError, match="unperturbed run is not finite in u"):
        pdefit.sensitivity(problem(edge=2.0), TS, dt=0.02)


def test_single_precision():
    p = problem()
    p = jax.tree.map(lambda x: x.astype(jnp.float32), p)
    found = pdefit.sensitivity(p, TS, dt=0.02).effects
    assert found[1].parameter == "k" and found[1].larger == pytest.approx(distance(0.801, 1.201), rel=1e-4)
