"""One file of equations and one of an experiment, without a package."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import pdefit
from pdefit._util.cache import digest
from pdefit._util.errors import PdefitError
from pdefit.cli import main
from pdefit.cli.commands.new import write_files
from pdefit.cli.config.command_line import files
from pdefit.cli.run import fit as fit_command
from pdefit.cli.runtime import equations
from pdefit.cli.runtime.plugins import systems
from pdefit.output.pictures.report import _commands
from pdefit.output.store.runs import RunFiles

ON_A_RUN = (*main._ON_A_RUN, *main._ALSO_ON_A_RUN)
EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = ("system.grid.shape=[40]", "times.count=7", "render=false", "certificate=end", "max_iterations=2")


@pytest.fixture
def pair(tmp_path):
    """The files that `pdefit new` writes."""
    return write_files(tmp_path, "my_equation")


def test_a_run_finds_the_equations_that_were_typed_and_imports_no_other(pair, pdefit_inside, tmp_path, monkeypatch):
    source, experiment = pair
    code, out, err = pdefit_inside("fit", source.name, experiment.name, *SMALL)
    assert code == 0, out + err
    (provenance,) = tmp_path.rglob("provenance.json")
    run = provenance.parent
    assert run.parent.name == "my_equation" and (run / equations.COPY).read_text() == source.read_text()
    kept = json.loads(provenance.read_text())
    # as it can be typed again
    assert kept["command"] == ["pdefit", "fit", "my_equation.py", "my_equation.yaml", *SMALL]
    assert f"pdefit certify {run} {source.resolve()}" in "\n".join(_commands(RunFiles(run), kept))
    # every verb on the run takes the file whose name was typed
    with monkeypatch.context() as patch:
        used = []
        patch.setattr(main, "_command", lambda *_: lambda *_: used.append(equations.named().path))
        for verb in ON_A_RUN:
            assert pdefit_inside(verb, str(run))[0] == 0
        assert used == [source.resolve()] * len(ON_A_RUN)
    # what somebody else wrote into the run is never executed, whatever the record says
    trap = f"open({str(tmp_path / 'executed')!r}, 'w')\n"
    (run / equations.COPY).write_text(trap)
    (tmp_path / "trap.py").write_text(trap)
    sys.modules.pop(equations.MODULE)
    own = kept["equations"]
    for other in (
        {**own, "path": str(tmp_path / "trap.py")},
        {"path": str(tmp_path / "trap.py"), "sha256": digest([trap.encode()])},
    ):
        provenance.write_text(json.dumps({**kept, "equations": other}))
        for verb in ON_A_RUN:
            code, _, err = pdefit_inside(verb, str(run))
            assert code == 1 and f"name the file again: pdefit {verb} {run}" in err
    assert equations.MODULE not in sys.modules and not (tmp_path / "executed").exists()
    provenance.write_text(json.dumps(kept))
    code, out, err = pdefit_inside("resume", str(run), "max_iterations=4")
    assert code == 0, out + err
    with pytest.raises(PdefitError, match="load_run"):
        _ = pdefit.load_run(run).problem
    assert pdefit.load_run(run, equations=source).problem.system.D > 0
    source.write_text(source.read_text() + "# changed\n")
    code, _, err = pdefit_inside("certify", str(run))
    assert code == 1 and "name the file again" in err
    code, _, err = pdefit_inside("certify", str(run), source.name)
    assert code == 1 and "is not the file that" in err and equations.COPY in err


def test_systems_of_a_file_are_known_while_it_is_in_use(pair):
    with equations.using(pair[0]):
        assert systems()["bistable"].__name__ == "Bistable"
    assert "bistable" not in systems()


def test_a_run_of_installed_equations_takes_no_file(pair, tmp_path):
    with equations.using(pair[0]), pytest.raises(PdefitError, match="made by installed equations; leave"):
        equations.check_named_again(None, tmp_path, "resume")


def test_a_path_in_a_run_of_somebody_else_is_quoted(tmp_path):
    with pytest.raises(PdefitError, match=r"pdefit resume 'a run' 'eq.py; touch executed'"):
        equations.check_named_again({"path": "eq.py; touch executed"}, Path("a run"), "resume")


def test_a_sweep_of_files_of_ones_own_goes_on_when_they_are_named(pair, pdefit_inside, tmp_path, monkeypatch):
    """Jobs that only say that they ran: one fails, and one never began."""
    ran, broken = [], {1}

    def run(job, saved=None):
        cfg = job.settings
        ran.append((job.name, cfg.seed, type(cfg.system.build()).__name__))
        if cfg.seed in broken:
            raise PdefitError("broken")

    monkeypatch.setattr(fit_command, "run_fit", run)
    # it closes the handlers of pytest
    monkeypatch.setattr("hydra._internal.logging_config.configure_logging", lambda *_: None)
    files = ("my_equation.py", "my_equation.yaml")
    code, out, err = pdefit_inside("fit", "-m", *files, *SMALL, "seed=0,1,2", "hydra.sweep.dir=sweep")
    assert code == 1 and [seed for _, seed, _ in ran] == [0, 1, 2], err
    shutil.rmtree(tmp_path / "sweep" / "seed_2")
    ran.clear(), broken.clear()
    code, out, err = pdefit_inside("sweep", "resume", "sweep", *files, "hydra/launcher=joblib")
    assert code == 1 and "Files of your own run in this process only" in err and not ran
    code, out, err = pdefit_inside("sweep", "resume", "sweep", *files)
    assert code == 0 and ran == [("my_equation", 1, "Bistable"), ("my_equation", 2, "Bistable")], err
    assert len([*(tmp_path / "sweep").glob("*/DONE")]) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import no_such_package\n", "'eq.py' imports 'no_such_package', which is not installed"),
        ("x = 1\ny = x / 0\n", "'eq.py', line 2: ZeroDivisionError"),
        ("def f(:\n", "'eq.py', line 1: SyntaxError"),
        ("import sys\nsys.exit(0)\n", "'eq.py', line 2: SystemExit"),
        ("import pdefit\nprint = 1\n", "'eq.py' defines no system"),
        ("# \xff", "'eq.py' is not in UTF-8"),
        (None, "'eq.py' does not exist"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(text, told, tmp_path, pdefit_inside):
    if text is not None:
        (tmp_path / "eq.py").write_bytes(text.encode("latin-1"))
    code, out, err = pdefit_inside("verify", "eq.py")
    assert code == 1 and told in err and "Traceback" not in out + err


@pytest.mark.parametrize("name", ["eq.py", "own.yaml"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_no_file(name, kind, tmp_path, pdefit_inside):
    os.mkfifo(tmp_path / name) if kind == "pipe" else (tmp_path / name).symlink_to("/dev/zero")
    code, _, err = pdefit_inside("fit", name)
    assert code == 1 and f"'{name}' does not exist, or is no file" in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1\nb: 2\n", "line 2 is not YAML"),
        ("", "it holds none"),
        ("- 1\n", "it holds none"),
        ("system: {name: os.system}\ndefaults: [override /twin: self]\ntimes: {stop: 1, count: 3}\n", "'os.system'"),
        ("system: {_target_: os.system, command: 'touch executed'}\n", "is not allowed"),
        ("system: {name: bistable, grid: {_target_: subprocess.run, args: [touch, executed]}}\n", "is not allowed"),
        ("hydra: {searchpath: [file:///tmp]}\n", "only supported from the primary config"),
    ],
)
def test_an_experiment_in_a_file_is_guarded_as_any_other(text, told, pair, tmp_path, pdefit_inside):
    pair[1].write_text(text)
    code, out, err = pdefit_inside("fit", "my_equation.py", "my_equation.yaml")
    assert code == 1 and told in err and "Traceback" not in out + err, err
    assert not (tmp_path / "executed").exists()


def test_what_an_experiment_in_a_file_says_of_hydra_is_left_out(pair, pdefit_inside):
    with pair[1].open("a") as file:
        file.write("hydra: {callbacks: {x: {_target_: os.abort}}}\n")
    code, _, err = pdefit_inside("plan", "my_equation.py", "my_equation.yaml", *SMALL)
    assert code == 0 and err.count("\n") == 1 and "'experiment/my_equation' sets hydra.callbacks.x" in err


@pytest.mark.parametrize(
    ("file", "before", "after", "told"),
    [
        (0, "return State(self.r", "return State(); (self.r", "returns no rate of the field 'u'"),
        (0, 'diffusivity="D"', 'diffusivity="d"', "(the diffusivity of a field) is called 'd'; did you mean D?"),
        (1, "  D: {", "  D: {tranform: log} #", "'D' is one control, which holds no 'tranform'; its keys are"),
    ],
)
def test_mistakes_in_an_own_equation_are_one_sentence(file, before, after, told, pair, pdefit_inside):
    text = pair[file].read_text()
    assert before in text
    pair[file].write_text(text.replace(before, after))
    code, out, err = pdefit_inside("fit", "my_equation.py", "my_equation.yaml", *SMALL)
    assert code == 1 and told in err and "Traceback" not in out + err, err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fit", "my_equation.py"), "needs an experiment"),
        (("fit", "my_equation.py", "my_equation.yaml", "experiment=reaction/fisher_front"), "two experiments"),
        (("fit", "my_equation.py", "other.py"), "One file of equations is expected"),
        (("fit", "no.yaml"), "'no.yaml' does not exist"),
        (("fit", "my_equation.yaml"), "when its file is named, too: pdefit fit EQUATION.py"),
        (("fit", "-m", "my_equation.py", "my_equation.yaml", "hydra/launcher=joblib"), "one after the other"),
        (("resume", "run", "my_equation.yaml"), "takes no file of an experiment"),
        (("new", "my_equation.py"), "exists already"),
        (("new", "my-equation.py"), "letters, digits and _"),
    ],
)
def test_wrong_files_on_the_command_line_are_one_sentence(words, told, pair, pdefit_inside):
    code, out, err = pdefit_inside(*words)
    assert code == 1 and told in err and "Traceback" not in out + err, err


def test_the_example_is_what_new_writes(pair):
    for file in pair:
        assert file.read_text() == (EXAMPLES / file.name).read_text()


def test_words_after_a_flag_are_no_files():
    named, rest = files(["--config-dir", "my.py", "a.py", "data.path=x.yaml", "b.yml"])
    assert (str(named.equations), str(named.experiment)) == ("a.py", "b.yml")
    assert rest == ["--config-dir", "my.py", "data.path=x.yaml"]
