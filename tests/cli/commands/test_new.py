"""A plugin of one's own, from the first command to a sweep."""

import csv
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pdefit._util import plugins
from pdefit._util.atomic import write_text
from pdefit._util.errors import PdefitError
from pdefit.cli.commands.new import package_name, write_plugin

_BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def _install(source: Path, target: Path) -> None:
    """Build the wheel and unpack it beside everything that is installed, which stays as it is."""
    built = target.with_name(f"{target.name}-built")
    built.mkdir()
    subprocess.run([sys.executable, "-c", _BUILD, built], cwd=source, check=True, capture_output=True, timeout=600)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)


@pytest.fixture
def installed(pdefit_inside, tmp_path, monkeypatch):
    """Run the command in this process beside the plugins in a folder."""

    def run(folder: Path, *arguments: str) -> str:
        monkeypatch.syspath_prepend(folder)
        plugins._installed.cache_clear()
        code, out, err = pdefit_inside(*arguments)
        assert code == 0 and "Traceback" not in err, out + err
        return out

    # it closes the handlers of pytest
    monkeypatch.setattr("hydra._internal.logging_config.configure_logging", lambda *_: None)
    before = set(sys.modules)
    yield run
    plugins._installed.cache_clear()
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("my_fronts", "growth"):
            del sys.modules[name]


def test_a_new_plugin_is_listed_verified_fitted_and_swept(tmp_path, environment, pdefit_inside, installed):
    target = tmp_path.with_name(f"{tmp_path.name}-target")
    _, said, _ = pdefit_inside("new", "my-fronts")
    assert "pdefit verify my_fronts/bistable" in said and "pdefit fit experiment=my_fronts/front" in said
    assert [p.name for p in tmp_path.iterdir()] == ["my-fronts"]
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check"], ["format", "--check"]):
        command = [*ruff, *command, "--isolated", "--no-cache", "."]
        done = subprocess.run(command, cwd=tmp_path / "my-fronts", capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    _install(tmp_path / "my-fronts", target)

    # as a user starts it
    command = [Path(sys.executable).with_name("pdefit"), "list", "systems"]
    environment = {**environment, "PYTHONPATH": str(target)}
    assert b"my_fronts/bistable" in subprocess.check_output(command, cwd=tmp_path, env=environment, timeout=600)
    report = installed(target, "verify", "my_fronts/bistable")
    assert "FAILED" not in report and "parameters found again" in report and "fisher" not in report

    installed(target, "fit", "-m", "experiment=my_fronts/front", "seed=0,1", "render=false")
    tables = sorted(tmp_path.rglob("parameters.csv"))
    assert [t.parent.name for t in tables] == ["seed_0", "seed_1"]
    guesses = set()
    for table in tables:
        with open(table, newline="") as file:
            rows = {r["control"]: r for r in csv.DictReader(file)}
        assert set(rows) == {"D", "r"} and (table.parent / "DONE").exists()
        guesses |= {r["guess"] for r in rows.values()}
        for row, truth in ((rows["D"], 1.0), (rows["r"], 8.0)):
            assert float(row["estimate"]) == pytest.approx(truth, rel=0.03)
    assert len(guesses) == 4


_EQUATION = """\
from collections import namedtuple
import jax
import pdefit
State = namedtuple("State", "u", defaults=[pdefit.field(doc="density", diffusivity="D")])
class Logistic(pdefit.ReactionDiffusion):
    D: jax.Array = pdefit.parameter(positive=True, doc="diffusivity")
    r: jax.Array = pdefit.parameter(positive=True, doc="growth rate")
    def reaction(self, t, y, args):
        return State(self.r * y.u * (1 - y.u))
    def init(self, key):
        return State(jax.numpy.exp(-(self.grid.mesh()[0] ** 2)))
SYSTEMS = {"growth/logistic": Logistic}
"""
_EXPERIMENT = """\
# @package _global_
defaults: [override /twin: independent]
system: {name: growth/logistic, grid: {shape: [64], extent: [16.0]}, D: 1.0, r: 2.0}
times: {start: 0.0, stop: 3.0, count: 13}
noise: 0.02
controls:
  D: {transform: log, guess: {perturb: [0.5, 2.0]}}
  r: {transform: log, guess: {perturb: [0.5, 2.0]}}
"""


def test_an_equation_takes_twelve_lines_and_its_fit_eight(tmp_path, installed):
    assert (len(_EQUATION.splitlines()), len(_EXPERIMENT.splitlines())) == (12, 8)
    files = {
        "growth/__init__.py": _EQUATION,
        "growth/conf/experiment/growth.yaml": _EXPERIMENT,
        "growth-1.dist-info/entry_points.txt": "[pdefit.plugins]\ngrowth = growth\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    installed(tmp_path, "fit", "experiment=growth", "render=false")
    (table,) = tmp_path.rglob("parameters.csv")
    with open(table, newline="") as file:
        found = {r["control"]: float(r["estimate"]) for r in csv.DictReader(file)}
    assert found == {"D": pytest.approx(1.0, rel=0.05), "r": pytest.approx(2.0, rel=0.05)}


@pytest.mark.parametrize(("name", "package"), [("fronts", "fronts"), ("My-Fronts2", "my_fronts2")])
def test_the_package_is_named_after_the_project(tmp_path, name, package):
    assert package_name(name) == package
    folder = write_plugin(tmp_path, name, package)
    assert (folder / package / "conf" / "experiment" / package / "front.yaml").is_file()
    assert [p.name for p in tmp_path.iterdir()] == [name]
    texts = [file.read_text() for file in folder.rglob("*") if file.is_file()]
    assert not any("<<" in text or ">>" in text for text in texts)
    assert sum(len(text.splitlines()) for text in texts) <= 80


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("class", "word of the Python language"),
        ("match", "word of the Python language"),
        ("pdefit", "exists already"),
        ("pdefit-reaction", "exists already"),
        ("numpy", "exists already"),
        ("json", "exists already"),
        ("tests", "beside the package"),
        ("../x", "letters a-z"),
        ("/tmp/x", "letters a-z"),
        ("a.b", "letters a-z"),
        ("_private", "letters a-z"),
        ("2fronts", "letters a-z"),
        ("größe", "letters a-z"),
        ("two words", "letters a-z"),
        ("line\n", "letters a-z"),
        ("", "letters a-z"),
    ],
)
def test_a_name_that_could_not_be_imported_is_refused(name, words):
    with pytest.raises(PdefitError, match=words):
        package_name(name)


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "fronts").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("fronts", "dangling"):
        with pytest.raises(PdefitError, match="exists already"):
            write_plugin(tmp_path, name, name)
    assert not list((tmp_path / "fronts").iterdir())


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    written = []

    def full(path, text):
        written.append(path)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        write_text(path, text)

    monkeypatch.setattr("pdefit.cli.commands.new.write_text", full)
    with pytest.raises(PdefitError, match="No space left"):
        write_plugin(tmp_path, "fronts", "fronts")
    assert len(written) == 4 and not list(tmp_path.iterdir())


def test_a_folder_made_meanwhile_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("pdefit.cli.commands.new.os.path.lexists", lambda path: False)
    (tmp_path / "fronts").mkdir()
    (tmp_path / "fronts" / "mine.py").write_text("")
    with pytest.raises(PdefitError, match="cannot be written"):
        write_plugin(tmp_path, "fronts", "fronts")
    assert [p.name for p in tmp_path.rglob("*")] == ["fronts", "mine.py"]
