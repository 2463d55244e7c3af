import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_cardiac import BOCF, AlievPanfilov, Stimulus

import pdefit
from pdefit.cli.config._reader import make

LINE = pdefit.CartesianGrid(shape=(4,), extent=(1.0,))
PLANE = pdefit.CartesianGrid(shape=(4, 2), extent=(1.0, 1.0))


def samples(stimulus, ts, grid=LINE):
    return np.asarray(jax.jit(jax.vmap(lambda t: stimulus(t, grid)))(np.asarray(ts)))


@pytest.mark.parametrize("rise", [0.05, 0.3, 5.0])
def test_the_charge_is_strength_times_duration(rise):
    pulses = Stimulus(times=[0.0, 10.0], duration=[1.0, 3.0], strength=[0.4, -0.2], rise=rise)
    ts = np.linspace(0, 25, 25001)
    np.testing.assert_allclose(samples(pulses, ts).sum(0) * 1e-3, 0.4 - 0.6, rtol=1e-9)
    # in steps that hardly see the edges, too
    np.testing.assert_allclose(samples(pulses, ts[::50]).sum(0) * 0.05, 0.4 - 0.6, rtol=1e-9)


def test_a_pulse_is_zero_before_and_after():
    values = samples(Stimulus(times=2.0, duration=1.0, strength=0.4), [0.0, 2.0, 2.05, 3.0, 3.05, 9.0])
    np.testing.assert_array_equal(values[:, 0], [0.0, 0.0, 0.4, 0.4, 0.0, 0.0])


def test_pulses_enter_their_boxes_and_add_up():
    one = Stimulus(times=[0.0, 0.0], duration=1.0, strength=[1.0, 2.0], boxes=[[0.0, 0.25], [0.0, 0.5]])
    np.testing.assert_allclose(one(0.5, PLANE), 3.0 * np.eye(4)[0][:, None] * np.eye(2)[0][None], atol=1e-15)
    boxes = [[[0.0, 0.375], [0.0, 1.0]], [[0.0, 1.0], [0.5, 1.0]]]
    each = Stimulus(times=[0.0, 0.0], duration=1.0, strength=[1.0, 2.0], boxes=boxes)
    np.testing.assert_allclose(each(0.5, PLANE), [[1, 3], [0.5, 2.5], [0, 2], [0, 2]], atol=1e-15)


def test_numbers_are_leaves_and_can_be_differentiated():
    stimulus = Stimulus(times=[0.0], duration=1.0, strength=0.4, boxes=[[0.0, 0.25]])
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(stimulus))
    # on the flanks and away from them
    slopes = jax.jit(jax.grad(lambda s, t: s(t, LINE).sum()))
    for t in (-1.0, 0.0, 0.02, 0.5, 1.03, 2.0):
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(slopes(stimulus, t)))
    np.testing.assert_allclose(slopes(stimulus, 0.5).strength, 1.0, rtol=1e-14)


@pytest.mark.parametrize("model", [BOCF, AlievPanfilov])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_voltage_gains_the_current(model, dtype):
    system, y = jax.tree.map(lambda x: x.astype(dtype), (model.example(16).system, model.example(16).y0))
    none, stimulus = (Stimulus(times=[0.0], duration=1.0, strength=s, boxes=[[0.0, 0.5]]) for s in (0.0, 0.4))
    rates, t = eqx.filter_jit(system.vector_field), jnp.asarray(0.5, dtype)
    # the program without a stimulus is another one, and may round in another way
    free, still, driven = (rates(t, y, s) for s in (None, none, stimulus))
    assert all(x.dtype == dtype for x in driven)
    for rest in (free, still):
        np.testing.assert_allclose(driven.u - rest.u, stimulus(0.5, system.grid), atol=1e-5)
    for a, b in zip(driven[1:], still[1:], strict=True):
        np.testing.assert_array_equal(a, b)


class Charging(pdefit.AbstractSystem):
    """u' = -u + I."""

    time_unit = "ms"
    stimulus: Stimulus = pdefit.constant(converter=lambda x: x)

    def vector_field(self, t, y, args):
        return -y + self.stimulus(t, LINE)

    def init(self, key):
        return jnp.zeros(LINE.shape)


def test_solvers_keep_their_order():
    system = Charging(Stimulus(times=[0.2], duration=1.0, strength=0.4, rise=0.4))
    ends = []
    for dt in (0.05, 0.025, 0.0125, 0.00625):
        ends.append(
            float(
                pdefit.solve(system, system.init(None), np.array([2.0]), solver=pdefit.solvers.RK4(), dt=dt, t0=0.0)[
                    -1, 0
                ]
            )
        )
    differences = np.abs(np.diff(ends))
    assert np.log2(differences[1] / differences[2]) > 3.8


def test_it_is_built_from_a_configuration():
    node = {"name": "cardiac/stimulus", "times": [0, 5], "duration": 1, "strength": 0.4}
    np.testing.assert_allclose(make(node, "args", Stimulus)(5.5, LINE), 0.4)
    node |= {"boxes": [[0, 0.25], [0, 1]]}
    np.testing.assert_allclose(make(node, "args", Stimulus)(5.5, PLANE)[:, 0], [0.4, 0, 0, 0], atol=1e-15)
    with pytest.raises(pdefit.PdefitError, match="args .*duration expects one number, or one for each of 2 pulses"):
        make(node | {"duration": [1, 2, 3]}, "args", Stimulus)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strength": [1.0, 2.0, 3.0]}, "strength expects one number, or one for each of 2 pulses"),
        ({"boxes": [[[0, 1]]] * 3}, "boxes expects one box, or one for each of 2 pulses"),
        ({"boxes": [[0, 1], [0, 1]]}, "2 axes, but the grid has 1"),
        ({"duration": 0.0}, "duration expects times above 0"),
        ({"rise": -1.0}, "rise expects times above 0"),
    ],
)
def test_a_mistake_is_one_sentence(changes, message):
    arguments = {"times": [0.0, 1.0], "duration": 1.0, "strength": 0.4} | changes
    with pytest.raises(ValueError, match=message):
        Stimulus(**arguments)(0.0, LINE)
