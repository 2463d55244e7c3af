"""Films of twins in a cache: the same bits, and made anew when anything that they depend on changes."""

import dataclasses

import diffrax
import equinox as eqx
import jax
import numpy as np
import pytest
from pdefit_cardiac import BOCF, RandomExcitation
from pdefit_cardiac.parameter_sets import TUTORIAL
from pdefit_reaction import FisherKPP

import pdefit
from pdefit._util.cache import digest
from pdefit._util.cached_tree import origin
from pdefit.cli.config.sources import TwinSettings
from pdefit.cli.run import from_twin
from pdefit.cli.run.from_twin import kept_film
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.inverse.problem.twin import Twin

TS = np.linspace(0.0, 0.2, 3)


def fisher(D=1.0):
    grid = pdefit.CartesianGrid(shape=(16,), extent=(10.0,))
    return FisherKPP(grid, np.asarray(D), np.asarray(1.0))


@pytest.fixture
def made(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []
    film = Twin.film
    monkeypatch.setattr(Twin, "film", lambda *a: calls.append(1) or film(*a))
    return calls


def test_a_film_is_made_once_and_again_when_its_truth_changes(made):
    y0 = fisher().init(None)
    first, again = (kept_film(Twin(fisher(), pdefit.solvers.RK4(), 0.05), y0, TS, None) for _ in range(2))
    assert len(made) == 1 and type(again) is type(y0)
    np.testing.assert_array_equal(first.u, again.u)
    changes = [
        (Twin(fisher(2.0), pdefit.solvers.RK4(), 0.05), y0, TS),
        (Twin(fisher(), pdefit.solvers.RK4(), 0.025), y0, TS),
        (Twin(fisher(), pdefit.solvers.RK4(), 0.05), jax.tree.map(lambda x: x + 1e-15, y0), TS),
        (Twin(fisher(), pdefit.solvers.RK4(), 0.05), y0, TS[:2]),
    ]
    for count, (twin, start, ts) in enumerate(changes, 2):
        kept_film(twin, start, ts, None)
        assert len(made) == count


@pytest.mark.parametrize("keep", [0, 200])
def test_a_damaged_film_is_made_again(made, tmp_path, keep):
    y0, twin = fisher().init(None), Twin(fisher(), pdefit.solvers.RK4(), 0.05)
    first = kept_film(twin, y0, TS, None)
    (path,) = tmp_path.glob("pdefit/films/*.npz")
    path.write_bytes(path.read_bytes()[:keep])
    np.testing.assert_array_equal(kept_film(twin, y0, TS, None).u, first.u)
    assert len(made) == 2


# another value of every field of the twin's settings
OTHER = {
    "variant": "self", "system": {"D": 2.0}, "refine": 2, "solver": diffrax.Heun(), "dt": 0.01, "noise": 0.1, "seed": 7,
    "steps": Adaptive(1e-6, 1e-6),
}  # fmt: skip


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(TwinSettings)])
def test_every_setting_of_a_twin_is_seen_by_the_key_or_comes_after_the_film(compose, monkeypatch, name):
    settings = compose(
        "experiment=reaction/fisher_front", "system.grid.shape=[16]", "times.count=3", "times.fit_until=null",
        "twin=independent", "twin.refine=1", "noise=0.02", "dt=null",
    )  # fmt: skip
    keys = []

    def kept(folder, kind, made_of, like, make, tell):
        keys.append(digest(made_of))
        return make(), None, False

    monkeypatch.setattr(from_twin, "cached_tree", kept)
    # a film of one state costs no integration
    monkeypatch.setattr(
        Twin, "film", lambda self, y0, ts, args: jax.tree.map(lambda x: np.stack([x] * ts.size), self.averaged(y0))
    )
    twin = settings.twin
    records = [
        from_twin.from_twin(settings, given).record
        for given in (twin, dataclasses.replace(twin, **{name: OTHER[name]}))
    ]
    first, second = (np.asarray(x.values["u"]) for x in records)
    if name in ("noise", "seed"):
        assert keys[0] == keys[1] and not np.array_equal(first, second)
    else:
        assert keys[0] != keys[1]


def test_every_number_of_a_system_and_every_field_of_a_preparation_is_seen():
    grid = pdefit.CartesianGrid(shape=(8, 8), extent=(1.6, 1.6))
    tissue, kicks = BOCF(grid, **TUTORIAL), RandomExcitation(last_squares=1)
    leaves, structure = jax.tree.flatten(eqx.filter(tissue, eqx.is_array))
    others = [
        eqx.combine(jax.tree.unflatten(structure, [*leaves[:k], np.nextafter(x, 9), *leaves[k + 1 :]]), tissue)
        for k, x in enumerate(leaves)
    ]
    keys = [digest(origin("", kicks, system)) for system in (tissue, *others)]
    for field in dataclasses.fields(kicks):
        value = getattr(kicks, field.name)
        changed = not value if isinstance(value, bool) else value + 1
        keys.append(digest(origin("", dataclasses.replace(kicks, **{field.name: changed}), tissue)))
    assert len({*keys}) == len(keys) > 25
