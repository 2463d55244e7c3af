import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_systems import Decay

import pdefit


def observations(**changes):
    values = {"u": np.arange(12.0).reshape(4, 3), "v": np.ones(4)}
    given = {"ts": [0.0, 1.0, 2.0, 4.0], "values": values, "sigma": {"u": [1.0, 2.0, 3.0], "v": 0.5}, **changes}
    return pdefit.Observations.build(given["ts"], given["values"], given["sigma"])


def test_nan_becomes_a_mask():
    values = np.array([[1.0, np.nan], [np.nan, 2.0]])
    o = pdefit.Observations.build([0.0, 1.0], {"u": values})
    np.testing.assert_array_equal(o.mask["u"], [[True, False], [False, True]])
    np.testing.assert_array_equal(o.values["u"], [[1.0, 0.0], [0.0, 2.0]])


def test_sigma_has_the_axes_of_its_variable():
    o = observations()
    assert o.sigma["u"].shape == (1, 3) and o.sigma["v"].shape == (1,)


def test_records_compile_nothing_and_share_no_memory(caplog):
    # JAX shares the memory of arrays that begin at a multiple of 64 bytes
    buffer = np.ones(97 * 3 + 8)
    begin = -buffer.ctypes.data % 64 // 8
    sigma = buffer[begin : begin + 97 * 3].reshape(97, 3)
    with jax.log_compiles():
        o = pdefit.Observations.build(np.arange(97.0), {"u": np.ones((97, 3))}, {"u": sigma})
        parts = o.at(slice(5, 40)), o.between(3.0, 8.0)
    assert "Compiling" not in caplog.text
    sigma[:] = 2.0
    assert all(np.all(np.asarray(x.sigma["u"]) == 1.0) for x in (o, *parts))


def test_parts_keep_values_and_errors_together():
    sigma = {"u": 1 + np.arange(12.0).reshape(4, 3), "v": 0.5}
    part = observations(sigma=sigma).between(1.0, 2.0)
    np.testing.assert_array_equal(part.ts, [1.0, 2.0])
    np.testing.assert_array_equal(part.values["u"], [[3, 4, 5], [6, 7, 8]])
    np.testing.assert_array_equal(part.sigma["u"], [[4, 5, 6], [7, 8, 9]])
    assert part.sigma["v"].shape == (1,)
    assert list(part.select(("v",)).values) == ["v"]
    np.testing.assert_array_equal(part.with_sigma({"v": 3.0}).sigma["v"], [3.0])


def test_nothing_is_seen_at_an_earlier_or_later_time():
    early, late = (observations().with_nothing_at(t) for t in (-1.0, 5.0))
    np.testing.assert_array_equal(early.ts, [-1.0, 0.0, 1.0, 2.0, 4.0])
    np.testing.assert_array_equal(early.mask["v"], [False, True, True, True, True])
    np.testing.assert_array_equal(early.values["u"][1:], observations().values["u"])
    np.testing.assert_array_equal(late.mask["v"], [True, True, True, True, False])
    assert early.first_frame == 1 and early.from_first_frame.ts.tolist() == observations().ts.tolist()
    assert late.first_frame == 0 and late.from_first_frame is late


@pytest.mark.parametrize(
    "changes",
    [
        {"ts": [0.0, 1.0, 1.0, 4.0]},
        {"values": {"u": np.zeros((3, 3))}},
        {"sigma": {"u": 0.0, "v": 1.0}},
        {"sigma": {"u": [1.0, 2.0], "v": 1.0}},
    ],
    ids=["times", "shape", "sigma zero", "sigma shape"],
)
def test_inconsistent_observations_are_refused(changes):
    with pytest.raises(ValueError):
        observations(**changes)


def test_a_sigma_beyond_the_range_of_the_data_is_refused():
    """Its fit would be fitted to the noise whatever the model says."""
    system, ts = Decay(k=jnp.asarray(1.0)), np.linspace(0.0, 1.0, 5)
    seen = {"u": np.exp(-ts)[:, None] * Decay.start}
    with pytest.raises(pdefit.PdefitError, match="sigma"):
        data = pdefit.Observations.build(ts, seen, 1e6)
        problem = pdefit.Problem(system, system.init(None))
        pdefit.Functional(problem, data, {"k": pdefit.transforms.Log()}, dt=0.1)
