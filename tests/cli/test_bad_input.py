"""Whatever a user gets wrong is one sentence that names the remedy; no result is left, and no file half-written.

A command takes seconds to start its experiment. So mistakes that are found when an experiment is built are tested there, and
through the command only those that are found before or after.
"""

import json
import shutil

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.cli.config.command_line import VERBS, split
from pdefit.cli.run.build import build_experiment
from pdefit.data.readers.frames import Frames

SOLAR = ("fit", "experiment=particles/solar_system")
FRONT = ("fit", "experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13", "max_iterations=2")
# a film of eight frames on the grid of FRONT
FILM = (*FRONT, "~twin", "noise=0", "+data.path=film.h5", "+data.variables.u=u", "+data.sigma.u=0.1")


def film(path, **changes):
    """A good film, or one with other datasets (None leaves one out)."""
    ts = np.linspace(0.0, 7.0, 8)
    datasets = {"time": ts, "u": 0.5 + 0.1 * np.sin(ts)[:, None] * np.ones(80), **changes}
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            if value is not None:
                file[name] = value


def nothing_left(folder):
    left = [p.name for p in folder.rglob("*") if p.is_file() and ".hydra" not in p.parts]
    return not {"DONE", "summary.json", "parameters.csv", "fields.h5"} & set(left) and not any(
        "partial" in n for n in left
    )


def refused(call, folder, arguments, *words):
    code, out, err = call(*arguments)
    assert code != 0, out
    assert "Traceback" not in out + err
    assert err.count("error:") == 1 and len(err.strip().splitlines()) == 1, err
    for word in words:
        assert word in err, err
    assert nothing_left(folder)


@pytest.fixture
def not_built(compose, tmp_path, monkeypatch):
    """Refuse arguments of a command by one line with all of these words."""
    monkeypatch.chdir(tmp_path)

    def refuse(arguments, *words):
        with pytest.raises(PdefitError) as error:
            build_experiment(compose(*arguments[1:]))
        said = str(error.value)
        assert "\n" not in said and all(word in said for word in words), said
        assert nothing_left(tmp_path)

    return refuse


def test_a_good_film_is_fitted(pdefit_inside, tmp_path):
    film(tmp_path / "film.h5")
    code, out, err = pdefit_inside(*FILM, "render=false")
    assert code == 0, err
    # it states neither positions nor the unit of its times
    out = " ".join(out.split())
    assert "positions: u at x = -39.5 to 39.5 by 1 mm, as the model sees them; 'film.h5' does not say" in out
    assert "warning: 'film.h5' states no unit for time; the model's are taken: s" in out
    (summary,) = tmp_path.rglob("summary.json")
    assert "no unit for time" in json.loads(summary.read_text())["warnings"][0]


ts = np.linspace(0.0, 7.0, 8)
u = 0.5 * np.ones((8, 80))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"u": None}, ["No variable in 'film.h5' is called 'u'"]),
        ({"u": None, "U": u}, ["did you mean"]),
        ({"u": np.full_like(u, np.nan)}, ["missing (NaN)"]),
        ({"u": u[:, :50]}, ["(80,)", "(50,)"]),
        ({"u": u[:5]}, ["first axis must be the 8 times"]),
        ({"u": u.T}, ["first axis must be the 8 times"]),
        ({"u": np.full((8, 80), b"x")}, ["text"]),
        ({"time": ts[::-1]}, ["increase"]),
        ({"time": np.where(ts == 3, np.nan, ts)}, ["increase"]),
        ({"time": None}, ["No variable", "'time'"]),
        ({"time": np.zeros(8)}, ["increase"]),
        ({"u": u.astype(complex)}, ["numbers are expected"]),
        ({"u": np.where(ts[:, None] < 5, u, np.inf)}, ["'u' in 'film.h5' is infinite in frame 5"]),
        ({"x": np.arange(80) - 39.0}, ["x of 'u'", "shifted by half the distance", "+data.coordinates.x=null"]),
    ],
)
def test_bad_films(not_built, tmp_path, changes, words):
    film(tmp_path / "film.h5", **changes)
    not_built(FILM, *words)


def test_a_bad_film_is_refused_by_the_command(pdefit_inside, tmp_path):
    film(tmp_path / "film.h5", u=None)
    refused(pdefit_inside, tmp_path, FILM, "No variable in 'film.h5' is called 'u'")


def test_data_of_another_shape_are_refused_before_they_are_read(not_built, tmp_path, monkeypatch):
    film(tmp_path / "film.h5", u=u[:, :50])
    monkeypatch.setattr(Frames, "arrays", lambda *_: pytest.fail("values were read"))
    not_built(FILM, "(80,)", "'film.h5' have (50,)", "Subsample")
    film(tmp_path / "film.h5", x=np.arange(80.0))
    not_built(FILM, "shifted by")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("+data.coordinates={z: u}", "No axis with positions (data.coordinates) is called 'z'; there are: x."),
        ("+data.coordinates={x: u}", "'u' in 'film.h5' has shape (8, 80)"),
    ],
)
def test_bad_names_of_coordinates(not_built, tmp_path, override, words):
    film(tmp_path / "film.h5")
    not_built((*FILM, override), words)


def test_files_that_are_no_hdf5(not_built, tmp_path):
    path = tmp_path / "film.h5"
    not_built(FILM, "does not exist", "PDEFIT_DATA")
    path.write_text("time,u\n0,1\n")
    not_built(FILM, "not an HDF5 file")
    film(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    not_built(FILM, "truncated")
    path.write_bytes(b"")
    not_built(FILM, "not an HDF5 file")
    path.unlink()
    path.mkdir()
    not_built(FILM, "film.h5")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data.sigma.u=0"], ["sigma", "positive"]),
        (["data.sigma.u=-0.1"], ["sigma", "positive"]),
        (["data.sigma.u=nothing"], ["'nothing'"]),
        (["data.sigma.u={certain: true}"], ["data.sigma.u", "value, log_normal"]),
        (["+data.sigma.v=0.1"], ["'v'"]),
        (["times.start=100"], ["0 frames", "run from 0 to 7"]),
        (["initial=data", "times.start=-1"], ["initial=data expects values at t = -1", "times.start=0"]),
    ],
)
def test_bad_words_about_data(not_built, tmp_path, arguments, words):
    film(tmp_path / "film.h5")
    not_built([*FILM, *arguments], *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["+controls.Q.transform=log"], ["No control is called 'Q'", "D, observe, r, y0"]),
        (["+controls.y0.v.guess=1"], ["'v'"]),
        (["controls.D.guess=9.0"], ["outside its bounds [0.01, 4]"]),
        (["controls.D.guess=-1.0", "controls.D.bounds=null"], ["must be positive"]),
        (["dt=1.0"], ["stability limit", "set dt to at most"]),
        (["+solver.tol=1"], ["solver is auto, which takes no arguments; remove tol"]),
        (["noise=-1.0"], ["noise"]),
        ([*FILM[len(FRONT) :], "noise=0.01"], ["noise = 0.01 is that of a twin", "data.noise=0.01"]),
        (["device=[0,99]"], ["device=[0, 99]", "99", "counted from 0", "device=all"]),
        (["device=[0,0]"], ["device", "[0, 0]"]),
        (["times.stop=-5"], ["times"]),
        (["system.grid.shape=[0]"], ["grid", "(0,)"]),
        (["system.grid.shape=eighty"], ["system.grid"]),
        (["system.grid.extent=[80, 80]"], ["extent"]),
        (["system.D=-1"], ["D"]),
        (["formulation=segments", "formulation.length=-1.0"], ["length"]),
        (["observe.name=subsample", "+observe.stride=[0]"], ["stride"]),
        (["twin.refine=1.33"], ["a whole number of cells along every axis", "is [106.4]"]),
    ],
)
def test_bad_configurations(not_built, arguments, words):
    not_built([*FRONT, *arguments], *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dt=1.0"], ["stability limit", "set dt to at most"]),
        ([*FILM[len(FRONT) :], "data.sigma={v: 0.1}"], ["data.sigma", "'v'", "there are: u"]),
        (["controls.D.gues=1.0"], ["controls.D", "'gues'", "did you mean guess"]),
        (["controls.DD.guess=1.0"], ["control", "'DD'", "did you mean D"]),
        (["max_iteration=3"], ["'max_iteration'", "did you mean max_iterations"]),
        (["solver=tsit6"], ["did you mean tsit5"]),
        (["adjoint=hosted"], ["write driver=hosted"]),
        (["stages=adm"], ["did you mean adam"]),
        (["store.budget=1 kB"], ["store.budget", "raise the budget"]),
        (["store.fields=[w]"], ["'w'"]),
        (["system=null"], ["cannot be set to null"]),
        (["observe={name: select, fields: [w]}"], ["'w'", "there are: u"]),
        (["experiment=reaction/fisher_frond"], ["did you mean reaction/fisher_front"]),
        (["seed.first=3"], ["seed expects a whole number"]),
        (["stages=[{optimizer: lbfgs}]"], ["a list", "give each a name"]),
        (["+nonsense"], ["'+nonsense' is not of the form key=value"]),
        (["stages=[adm]"], ["No stages is called 'adm'; did you mean adam?"]),
        (["a b"], ["a b"]),
        (["seed=[1"], ["seed=[1"]),
    ],
)
def test_what_is_refused_before_or_after_an_experiment_is_built(pdefit_inside, tmp_path, arguments, words):
    refused(pdefit_inside, tmp_path, [*FRONT, *arguments], *words)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("pdefit_reactoin.FisherKPP", ["pdefit_reaction"]),
        ("pdefit_reaction.FisherKP", ["did you mean FisherKPP"]),
        ("quantum.BOCF", ["quantum", "not allowed"]),
        ("diffrax._integrate.jax._src.config.os.getcwd", ["not allowed"]),
        ("diffrax.jax.numpy.save", ["not allowed"]),
        ("pdefit.solvers.RK4", ["written as in pdefit 0.1", "name: rk4"]),
        ("diffrax.Kvaerno5", ["name: kvaerno5"]),
        ("optax.adamw", ["name: adamw"]),
        ("optimistix.Newton", ["name: newton"]),
        ("pdefit._util.atomic.write_text", ["not allowed"]),
        ("pdefit.cli.main.main", ["not allowed"]),
        ("pdefit_reaction.pdefit.FisherKPP", ["not allowed"]),
        ("optax._src.base.jax", ["not allowed"]),
        ("builtins.eval", ["not allowed"]),
        ("os.system", ["not allowed"]),
        ("pdefit.PdefitError.with_traceback", ["not allowed"]),
        ("pdefit.Functional.__init__", ["not allowed"]),
        ("", ["not allowed"]),
        ("...", ["not allowed"]),
        ("3", ["not allowed"]),
    ],
)
def test_targets_that_are_not_allowed(not_built, target, words):
    not_built([*FRONT, f"+system._target_='{target}'"], *words)
    not_built([*FRONT, "solver=rk4", f"+solver._target_='{target}'"])


def test_the_run_directory_of_another_experiment(fitted, pdefit_inside, tmp_path):
    shutil.copytree(fitted.run, tmp_path / "mine")
    for verb in (["fit"], ["simulate"], ["certify"]):
        code, out, err = pdefit_inside(*verb, *FRONT[1:], "seed=4", "hydra.run.dir=mine")
        assert code == 1 and err.count("error:") == 1 and "already holds a run" in err
    for path in (p for p in fitted.run.rglob("*") if p.is_file()):
        assert path.read_bytes() == (tmp_path / "mine" / path.relative_to(fitted.run)).read_bytes(), path


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_fails_before_it_begins_may_be_tried_again(verb, pdefit_inside, tmp_path):
    words = (verb, "experiment=populations/lotka_volterra_sparse", "data.path=missing.csv", "hydra.run.dir=mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.log").write_text("of the user")
    for _ in range(2):
        code, out, err = pdefit_inside(*words)
        assert code == 1 and "already" not in err and (tmp_path / "mine" / "FAILED").exists()
    assert (tmp_path / "mine" / "run.log").read_text().startswith("of the user")
    kept = tmp_path / "mine" / ("state/state.h5" if verb == "fit" else "result.csv")
    kept.parent.mkdir(exist_ok=True)
    kept.touch()
    code, out, err = pdefit_inside(*words)
    assert code == 1 and "already holds a run" in err and kept.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["controls.D.guess=[1,2,3]"], ["{'perturb': [0.3, 3.0]}", "'~controls.D.guess' '+controls.D.guess=[1,2,3]'"]),
        (["experiment=[reaction/fisher_front,particles/pleiades]"], ["one name", "-m experiment=NAME,NAME"]),
        (["-x"], ["no flag '-x'", "key=value"]),
        (["--experiment", "reaction/fisher_front"], ["did you mean experiment=reaction/fisher_front?"]),
        (["--experimental-rerun", "job.pickle"], ["no flag '--experimental-rerun'"]),
        (["--cfg", "jobs"], ["job, hydra or all", "'jobs'"]),
        (["+data.path=a=b.h5"], ["""quote it: '+data.path="a=b.h5"'"""]),
        (["+data.path=a[b.h5"], ["""quote it: '+data.path="a[b.h5"'"""]),
        (["+data.path=a'b.h5"], ["quote it:", '''+data.path="a'"'"'b.h5"''']),
        (["+data.path=a,b.h5"], ["-m runs them", """'+data.path="a,b.h5"' one text"""]),
        (["reaction/fisher_front"], ["did you mean experiment=reaction/fisher_front?"]),
        (["hydra.run.dir=taken"], ["'taken' is a file"]),
        (["hydra.run.dir=taken/deeper"], ["'taken' is a file"]),
        (["--config-dir", "mine", "experiment=own"], ["own.yaml' is not in UTF-8"]),
    ],
)
def test_words_that_are_no_configuration(pdefit_inside, tmp_path, arguments, words):
    (tmp_path / "taken").write_text("")
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "own.yaml").write_bytes(b"# gr\xfc\xdfe\nseed: 0\n")
    refused(pdefit_inside, tmp_path, [*FRONT, *arguments], *words)


def test_what_a_sentence_proposes_is_understood(compose):
    film = ("noise=0", "+data.variables={u: u}", '+data.path="a=b[\'c.h5"')
    cfg = compose(*FRONT[1:], "~controls.D.guess", "+controls.D.guess=[1,2,3]", *film)
    assert list(cfg.controls["D"].guess.number) == [1, 2, 3] and cfg.data.path == "a=b['c.h5"


@pytest.mark.parametrize("override", ["observe=all", "~observe"])
def test_an_operator_that_is_left_out_observes_everything(compose, override):
    assert compose(*FRONT[1:], override).observe == compose(*FRONT[1:]).observe


def test_observe_null_on_the_command_line_observes_everything():
    assert split(["observe=null", "-m", "--cfg=job", "seed=1"]) == (["-m", "--cfg", "job"], ["observe=all", "seed=1"])


def test_dates_and_times_out_of_reach_say_what_is_expected(not_built, tmp_path):
    dates = np.datetime64("2020-01-01", "s") + np.arange(8)
    film(tmp_path / "film.h5", time=None)
    with h5py.File(tmp_path / "film.h5", "a") as file:
        file["time"] = dates.astype(h5py.opaque_dtype(dates.dtype))
    not_built(FILM, "holds dates", "timedelta64(1, 's')")
    film(tmp_path / "film.h5", time=3600 * ts)
    with h5py.File(tmp_path / "film.h5", "a") as file:
        file["time"].attrs["units"] = "seconds since 2020-01-01"
    not_built(FILM, "run from 0 to 25200 s", "times.start and times.stop")
