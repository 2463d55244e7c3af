"""Films of twins in a cache: the same bits, and made anew when anything that they depend on changes."""

import jax
import numpy as np
import pytest
from pdefit_reaction import FisherKPP

import pdefit
from pdefit.cli.run.from_twin import kept_film
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
