"""A whole Equinox module as a parameter: a network in the right-hand side."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.cli.config._controls import read_controls
from pdefit.inverse.objective.compiled import VALUE

TS = np.linspace(0.0, 1.0, 6)
NAMES = ["net.layers.0.weight", "net.layers.0.bias", "net.layers.1.weight", "net.layers.1.bias"]


class Neural(pdefit.AbstractSystem):
    """u' = N(u) - k u."""

    time_unit: ClassVar[str] = "s"
    net: eqx.nn.MLP = pdefit.parameter(unit="1/s")
    k: jax.Array = pdefit.parameter(positive=True, default=0.5)

    def vector_field(self, t, y, args):
        return self.net(y) - self.k * y

    def init(self, key):
        return jnp.asarray([1.0, -0.5])


class Silent(eqx.Module):
    """A module that holds nothing."""

    def __call__(self, y):
        return y


def network(seed, width=4):
    return eqx.nn.MLP(2, 2, width, 1, activation=jnp.tanh, key=jax.random.key(seed), dtype=jnp.float64)


def functional(controls, seed=1, dtype=None):
    truth = Neural(network(0))
    data = pdefit.simulate(truth, truth.init(None), TS, dt=0.1)
    y0 = truth.init(None)
    problem = pdefit.Problem(Neural(network(seed)), y0 if dtype is None else y0.astype(dtype))
    return pdefit.Functional(problem, data, controls, dt=0.1)


def test_every_array_of_a_module_moves_from_its_own_weights():
    J = functional({"net": pdefit.transforms.Identity(), "k": pdefit.transforms.Log()})
    assert [c.path for c in J.controls.items] == [*NAMES, "k"]
    assert J.controls.size == 2 * 4 + 4 + 4 * 2 + 2 + 1
    assert J.controls.names()[0] == "net.layers.0.weight.0.0"
    assert {c.unit for c in J.controls.items[:4]} == {"1/s"}
    np.testing.assert_array_equal(J.theta0[:8], np.ravel(network(1).layers[0].weight))
    moved = J.at(J.theta0 + 1.0).system.net
    for new, old in zip(jax.tree.leaves(moved), jax.tree.leaves(network(1)), strict=True):
        if eqx.is_array(new):
            np.testing.assert_allclose(new, old + 1.0, rtol=1e-14)


def test_a_configuration_says_it_in_one_word():
    read = functional(read_controls({"net": "identity", "k": "log"}))
    assert [c.path for c in read.controls.items] == [*NAMES, "k"]
    assert set(pdefit.parameters(Neural)) == {"net", "k"}


def test_its_gradient_is_certified_and_a_fit_lowers_the_loss():
    J = functional({"net": pdefit.transforms.Identity()})
    assert pdefit.certify(J, J.theta0, optimizers=[pdefit.optimizers.LBFGS()]).passed
    found = pdefit.fit(J, [pdefit.Stage(pdefit.optimizers.LBFGS(), 30)])
    assert found.loss < 1e-3 * found.loss_initial


def test_a_part_of_a_module_can_be_a_control():
    J = functional({"net": {"layers": {"1": {"bias": pdefit.transforms.Identity()}}}})
    assert [c.path for c in J.controls.items] == ["net.layers.1.bias"]
    J = functional({"net": {"layers": {"1": pdefit.transforms.Identity()}}})
    assert [c.path for c in J.controls.items] == NAMES[2:]


def test_words_of_a_control_hold_for_every_array():
    prior = pdefit.priors.Normal(0.0, 2.0)
    J = functional({"net": pdefit.Control(guess=pdefit.guesses.Perturb(0.5, 0.6), prior=prior, bounds=(-3.0, 3.0))})
    factor = np.asarray(J.theta0 / functional({"net": pdefit.transforms.Identity()}).theta0)
    assert np.all((factor >= 0.5) & (factor <= 0.6)) and np.ptp(factor) > 0
    np.testing.assert_allclose(np.concatenate(J.controls.prior_residuals(J.theta0)), J.theta0 / 2)
    np.testing.assert_array_equal(J.controls.bounds[1], np.full(J.controls.size, 3.0))


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ({"net": {"layers": {"2": pdefit.transforms.Identity()}}}, "No control in 'net.layers' is called '2'"),
        ({"net": {"activation": pdefit.transforms.Identity()}}, "'net.activation' is not an array"),
        (
            {"net": pdefit.transforms.Identity(), "net.layers.0.bias": pdefit.transforms.Identity()},
            "'net.layers.0.bias' is declared twice",
        ),
        ({"net": pdefit.Control(guess=pdefit.guesses.Value(np.ones(3)))}, "has shape"),
        ({"net": pdefit.Control(smoothing=2.0)}, "smoothing"),
    ],
)
def test_mistakes_are_named(controls, message):
    with pytest.raises(pdefit.PdefitError) as error:
        functional(controls)
    assert message in str(error.value)


def test_a_module_without_arrays_is_refused():
    system = eqx.tree_at(lambda s: s.net, Neural(network(0)), Silent())
    y0 = system.init(None)
    data = pdefit.simulate(system, y0, TS, dt=0.1)
    with pytest.raises(pdefit.PdefitError, match="module without arrays"):
        pdefit.Functional(pdefit.Problem(system, y0), data, {"net": pdefit.transforms.Identity()}, dt=0.1)


def test_many_recordings_share_a_network():
    parts = [
        functional({"net": pdefit.transforms.Identity(), "k": pdefit.Control(scope="experiment")}) for _ in range(2)
    ]
    J = pdefit.Recordings(parts)
    assert J.controls.size == parts[0].controls.size + 1
    np.testing.assert_allclose(VALUE(J, J.theta0), 2 * VALUE(parts[0], parts[0].theta0), rtol=1e-12)
