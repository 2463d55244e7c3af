import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_cardiac import ALIEV_PANFILOV, BOCF, TUTORIAL, AlievPanfilov, Patches, RandomExcitation
from pdefit_reaction import FisherKPP

import pdefit
from pdefit.cli.config._reader import make


def tissue(*shape, model=BOCF, numbers=TUTORIAL, **changes):
    grid = pdefit.CartesianGrid(shape=shape, extent=tuple(0.1 * n for n in shape))
    return model(grid, **numbers, **changes)


applied = eqx.filter_jit(lambda kick, y: kick(y))


def kicked(kick, system):
    """The change of u, after a check that nothing else changed."""
    y = system.rest()
    out = applied(kick, y)
    for a, b in zip(out[1:], y[1:], strict=True):
        np.testing.assert_array_equal(a, b)
    return np.asarray(out.u) - np.asarray(y.u)


def test_the_protocol(key):
    system = tissue(32, 32)
    kicks = RandomExcitation(rounds=4, interval=20.0, last=3.0, last_squares=1).kicks(system, key)
    assert [t for _, t in kicks] == [20.0] * 4 + [3.0]
    fields = [kicked(kick, system) for kick, _ in kicks]
    assert all(set(np.unique(f)) == {0.0, 1.0} for f in fields)
    assert fields[-1].sum() == 9
    assert all(9 < f.sum() <= 20 * 9 for f in fields[:-1])
    assert not np.array_equal(fields[0], fields[1])


def test_the_quiet_variant_leaves_the_last_kick_out(key):
    system = tissue(32, 32)
    quiet, loud = (RandomExcitation(rounds=3, last=last).kicks(system, key) for last in (None, 5.0))
    assert [t for _, t in quiet] == [150.0] * 3
    for (a, _), (b, _) in zip(quiet, loud, strict=False):
        np.testing.assert_array_equal(kicked(a, system), kicked(b, system))


def test_it_is_the_same_for_the_same_key(key):
    system, protocol = tissue(16, 16), RandomExcitation(rounds=2)
    again = [kicked(k, system) for k, _ in protocol.kicks(system, key)]
    np.testing.assert_array_equal([kicked(k, system) for k, _ in protocol.kicks(system, key)], again)
    other = [kicked(k, system) for k, _ in protocol.kicks(system, jax.random.key(1))]
    assert not np.array_equal(other, again)


@pytest.mark.parametrize("shape", [(40,), (20, 30), (8, 9, 10)])
def test_squares_lie_within_the_grid_along_any_axes(shape, key):
    system = tissue(*shape)
    for seed in range(20):
        ((kick, _),) = RandomExcitation(rounds=0, last_squares=1, strength=0.7).kicks(system, jax.random.key(seed))
        field = kicked(kick, system)
        np.testing.assert_allclose(field.sum(), 0.7 * 3 ** len(shape))
        hit = np.argwhere(field)
        np.testing.assert_array_equal(hit.max(0) - hit.min(0), 2)


def test_squares_reach_every_place(key):
    system = tissue(12, 12)
    ((kick, _),) = RandomExcitation(rounds=0, last_squares=3000).kicks(system, key)
    np.testing.assert_array_equal(kicked(kick, system), 1.0)


def test_blocks_stay_untouched(key):
    system = tissue(16, 16, tissue=Patches(1.0, [[[0.4, 1.2], [0.4, 1.2]]], 0.0))
    ((kick, _),) = RandomExcitation(rounds=0, last_squares=3000).kicks(system, key)
    np.testing.assert_array_equal(kicked(kick, system), system.tissue)


def test_a_refined_grid_is_kicked_at_the_same_places(key):
    coarse, fine = (
        BOCF(pdefit.CartesianGrid(shape=(n, n), extent=(3.2, 3.2)), **TUTORIAL) for n in (32, 96)
    )  # fmt: skip
    ((one, _),) = RandomExcitation(rounds=0, last_squares=1).kicks(coarse, key)
    ((three, _),) = RandomExcitation(rounds=0, last_squares=1, size=9).kicks(fine, key)
    np.testing.assert_allclose(three.corners, 3 * one.corners, atol=3)


def test_all_kicks_share_one_compilation(key):
    traces = []

    @eqx.filter_jit
    def apply(kick, y):
        traces.append(1)
        return kick(y)

    system = tissue(16, 16)
    for kick, _ in RandomExcitation(rounds=5).kicks(system, key):
        apply(kick, system.rest())
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("model", "numbers", "interval", "dt"), [(BOCF, TUTORIAL, 150.0, 0.07), (AlievPanfilov, ALIEV_PANFILOV, 40.0, 0.1)]
)
def test_fronts_move_through_what_it_leaves(model, numbers, interval, dt, key):
    system = tissue(32, 32, model=model, numbers=numbers)
    protocol = RandomExcitation(rounds=2, interval=interval, squares=2, last=5.0)
    y = protocol.start(system, key)
    for x, resting in zip(y, system.rest(), strict=True):
        np.testing.assert_array_equal(x, resting)
    for kick, time in protocol.kicks(system, key):
        y = eqx.filter_jit(kick)(y)
        y = jax.tree.map(
            lambda x: x[-1], pdefit.solve(system, y, np.array([time]), solver=diffrax.Euler(), dt=dt, t0=0.0)
        )
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in y)
    rate = system.vector_field(0.0, y, None).u
    assert float(y.u.max()) > 0.9 and float(jnp.abs(rate).max()) > 0.05


def test_mistakes_are_one_sentence(key):
    for changes in (
        {"rounds": -1},
        {"size": 0},
        {"squares": 0},
        {"interval": 0.0},
        {"last": -1.0},
        {"last_squares": 0},
    ):
        with pytest.raises(ValueError, match=f"RandomExcitation expects {next(iter(changes))}"):
            RandomExcitation(**changes)
    with pytest.raises(ValueError, match="does nothing"):
        RandomExcitation(rounds=0, last=None)
    with pytest.raises(ValueError, match="within the grid"):
        RandomExcitation(size=9).kicks(tissue(8, 8), key)
    with pytest.raises(pdefit.PdefitError, match="heart tissue .*not FisherKPP"):
        RandomExcitation().start(FisherKPP.example(16).system, key)


def test_it_is_built_from_a_configuration():
    node = {"name": "cardiac/random_excitation", "rounds": 3, "last": None}
    made = make(node, "initial", pdefit.AbstractPreparation)
    assert isinstance(made, RandomExcitation) and made.rounds == 3 and made.last is None
    with pytest.raises(pdefit.PdefitError, match="rounds expects a whole number"):
        make(node | {"rounds": 3.5}, "initial", pdefit.AbstractPreparation)
