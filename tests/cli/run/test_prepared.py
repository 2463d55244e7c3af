"""Prepared initial states are made once, and states come from files."""

import importlib
import json
import sys

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_cardiac import ALIEV_PANFILOV, AlievPanfilov, RandomExcitation

import pdefit
from pdefit._util.cache import cache_folder
from pdefit._util.errors import PdefitError
from pdefit.cli.config.sources import StateFile, read_initial
from pdefit.cli.run import initial_state as prepared
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.initial_state import initial_state, prepared_state

KICK = "initial={name: cardiac/random_excitation, rounds: 0, squares: 2, last: 1.0}"
TISSUE = (
    "experiment=reaction/fisher_front", "system=cardiac/aliev_panfilov", "twin=self", "system.grid.shape=[8,8]",
    "system.grid.extent=[1.6,1.6]", "~controls.r", "~controls.D.bounds", "times.stop=1.0", "times.count=3",
    "times.fit_until=null", "certificate=warn", "render=false",
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for every test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pdefit" / "states"


@pytest.fixture
def made(monkeypatch):
    """Seeds of the states that were integrated, not read."""
    keys, real = [], prepared.prepare

    def counted(preparation, system, key, **options):
        keys.append(int(jax.random.key_data(key)[-1]))
        return real(preparation, system, key, **options)

    monkeypatch.setattr(prepared, "prepare", counted)
    return keys


def tissue(shape=(8, 8), **changes):
    grid = pdefit.CartesianGrid(shape=shape, extent=tuple(0.2 * n for n in shape))
    return AlievPanfilov(grid, **{**ALIEV_PANFILOV, **changes})


PROTOCOL = RandomExcitation(rounds=1, interval=1.0, last=0.5, squares=2)


def test_the_second_call_reads_the_same_bits(folder, made):
    (first, took), (second, again) = (prepared_state(PROTOCOL, tissue(), 3) for _ in range(2))
    assert made == [3] and not took.cached and again.cached and again.seconds == 0 < took.seconds
    assert took.duration == again.duration == 1.5 and took.path == again.path
    assert took.path.parent == folder == cache_folder("states") and [took.path] == list(folder.iterdir())
    for a, b in zip(first, second, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert float(first.u.max()) > 0.5


def test_a_short_preparation_says_nothing_off_a_terminal(capsys):
    prepared_state(PROTOCOL, tissue(), 3)
    assert capsys.readouterr() == ("", "")


def test_whatever_it_depends_on_is_another_file(made, folder):
    cases = [
        (PROTOCOL, tissue(), 0),
        (PROTOCOL, tissue(), 1),
        (PROTOCOL, tissue(k=7.9), 0),
        (PROTOCOL, tissue(shape=(8, 9)), 0),
        (RandomExcitation(rounds=1, interval=1.0, last=0.5, squares=3), tissue(), 0),
    ]
    paths = [prepared_state(*case)[1].path for case in cases]
    assert len({*paths}) == len(made) == len(cases) == len(list(folder.iterdir()))


class Marked(RandomExcitation):
    """Where values are NumPy's, they count as well."""

    marks: np.ndarray | None = None


def test_values_of_numpy_arrays_count(made):
    for marks in (np.zeros(3), np.array([0.0, 0.0, 1.0])):
        prepared_state(Marked(rounds=0, last=0.5, squares=2, marks=marks), tissue(), 0)
    assert len(made) == 2


def test_equations_that_were_edited_count(made, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "edited_kicks.py"
    for strength in ("1.0", "2.00"):
        file.write_text(
            "import pdefit_cardiac\n\n\nclass Edited(pdefit_cardiac.RandomExcitation):\n    def kicks(self, system, key):\n"
            f"        return [(lambda y: y._replace(u=y.u + {strength}), 0.0)]\n"
        )
        sys.modules.pop("edited_kicks", None)
        importlib.invalidate_caches()
        edited = importlib.import_module("edited_kicks").Edited()
        assert float(prepared_state(edited, tissue(), 0)[0].u[0, 0]) == float(strength)
    assert len(made) == 2
    sys.modules.pop("edited_kicks")


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_damaged_file_is_made_anew(made, damage):
    state, took = prepared_state(PROTOCOL, tissue(), 0)
    whole = took.path.read_bytes()
    took.path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    again, second = prepared_state(PROTOCOL, tissue(), 0)
    assert len(made) == 2 and not second.cached
    np.testing.assert_array_equal(again.u, state.u)
    assert prepared_state(PROTOCOL, tissue(), 0)[1].cached


def test_a_cache_that_cannot_be_written_costs_no_result(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    state, took = prepared_state(PROTOCOL, tissue(), 0)
    assert bool(jnp.all(jnp.isfinite(state.u))) and not took.path.exists()


def test_a_plan_says_what_the_preparation_took(compose, pdefit_inside, tmp_path):
    took = []
    for name in ("a", "b"):
        code, out, err = pdefit_inside(
            "plan", *TISSUE, KICK, "dt=0.1", "solver=rk4", f"hydra.run.dir={tmp_path / name}"
        )
        assert code == 0, err
        assert "prepared over 1 ms" in " ".join(out.split())
        took.append(json.loads((tmp_path / name / "plan.json").read_text())["preparation"])
    assert [t["cached"] for t in took] == [False, True] and took[0]["seconds"] > 0 == took[1]["seconds"]
    assert took[0]["duration"] == 1.0 and took[0]["path"] == took[1]["path"] and took[0]["path"].endswith(".npz")
    exp = build_experiment(compose(*TISSUE))
    assert exp.source.prepared is None


def write(path, fields, n_done=None):
    with h5py.File(path, "w") as file:
        for name, value in fields.items():
            file[name] = value
        if n_done is not None:
            file["n_done"] = n_done
    return path


def state(value, frames=1, shape=(8, 8)):
    return {f"{n}_predicted": np.full((frames, *shape), value) for n in ("u", "v")}


def from_file(path):
    return initial_state(StateFile(str(path)), 0, tissue(), None)


def test_a_run_goes_on_from_the_last_frame_of_another(pdefit_inside, tmp_path):
    for name, options in (
        ("whole", ("times.stop=2.0", "times.count=5")),
        ("first", ()),
        ("second", (f"initial={{path: {tmp_path / 'first' / 'fields.h5'}}}",)),
    ):
        code, _, err = pdefit_inside(
            "simulate", *TISSUE, "dt=0.1", "solver=rk4", *options, f"hydra.run.dir={tmp_path / name}"
        )
        assert code == 0, err
    films = {}
    for name in ("whole", "second"):
        with h5py.File(tmp_path / name / "fields.h5") as file:
            films[name] = np.asarray(file["u_predicted"])
    np.testing.assert_allclose(films["second"], films["whole"][2:], atol=1e-6)
    assert np.max(np.abs(films["whole"][2] - films["whole"][0])) > 1e-3


def test_frames_that_are_not_complete_do_not_count(tmp_path):
    fields = {n: np.stack([np.full((8, 8), x) for x in (0.1, 0.2, np.nan)]) for n in ("u", "v")}
    found, took, _ = from_file(write(tmp_path / "a.h5", fields, n_done=2))
    np.testing.assert_array_equal(found.u, 0.2)
    assert took is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ((state(0.1, shape=(8, 9)),), "frames of shape (8, 9), but u of AlievPanfilov has (8, 8)"),
        (({"u_predicted": state(0.1)["u_predicted"]},), "but not v; name the fields.h5 of a run of AlievPanfilov"),
        (({"position": np.zeros((2, 3))},), "is no state of AlievPanfilov: it holds position"),
        (({},), "it holds nothing"),
        ((state(np.nan),), "is not finite"),
        ((state(np.inf),), "is not finite"),
        ((state(0.1, frames=0),), "holds no complete frame"),
        ((state(0.1), 0), "holds no complete frame"),
        ((state(0.1), np.array([1, 1])), "'n_done' in 'a.h5' is no number of frames"),
        ((state(0.1), np.nan), "'n_done' in 'a.h5' is no number of frames"),
        (({"u": 1.0, "v": 1.0},), "frames of shape"),
        (({"u": np.full((1, 8, 8), b"x"), "v": np.zeros((1, 8, 8))},), "'u' in 'a.h5' is text"),
    ],
)
def test_a_file_without_a_fitting_state_is_refused(tmp_path, content, words):
    with pytest.raises(PdefitError) as error:
        from_file(write(tmp_path / "a.h5", *content))
    assert words in str(error.value) and "'" in str(error.value) and "\n" not in str(error.value)
    # not the system's fault
    assert "cannot make its initial state" not in str(error.value)


@pytest.mark.parametrize("keep", [0, 0.5, 0.98])
def test_a_truncated_or_missing_file_is_refused(tmp_path, keep):
    path = write(tmp_path / "a.h5", state(0.1, frames=50))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(PdefitError, match="truncated|damaged|no HDF5"):
        from_file(path)
    with pytest.raises(PdefitError, match=r"nothing\.h5' does not exist"):
        from_file(tmp_path / "nothing.h5")


@pytest.mark.parametrize(
    ("initial", "words"),
    [
        ("nonsense", "but got 'nonsense'"),
        ({"path": "a.h5", "frame": 3}, "initial expects"),
        ({}, "initial expects"),
        (None, "initial expects"),
        ({"name": "rk4"}, "'rk4' is a kind of solver"),
        ({"name": "cardiac/random_excitation", "size": 9}, "within the grid"),
    ],
)
def test_no_initial_state(initial, words):
    with pytest.raises(PdefitError) as error:
        initial_state(read_initial(initial), 0, tissue(), None)
    assert words in str(error.value)
