"""What may be told Hydra, where from, and that what was judged is what Hydra gets."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from hydra import version
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import setup_globals
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config.compose import apart, composed
from pdefit.cli.config.hydra_guard import _Guarded
from pdefit.cli.config.read import read_settings
from pdefit.cli.runtime.plugins import PluginConfigurations

FRONT = ("experiment=reaction/fisher_front", "hydra.mode=RUN")
_FRONT = "/experiment/reaction/fisher_front"
SLURM = "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"


@dataclass
class Slurm:
    """The launcher of a plugin that is not installed here, as it declares itself."""

    _target_: str = SLURM
    submitit_folder: str = "${hydra.sweep.dir}/.submitit/%j"
    name: str = "${hydra.job.name}"
    timeout_min: int = 60
    partition: str | None = None
    additional_parameters: dict[str, Any] = field(default_factory=dict)
    setup: list[str] | None = None
    python: str | None = None
    srun_args: list[str] | None = None


@pytest.fixture
def loader(tmp_path, monkeypatch):
    """Hydra's loader with the guard, and a folder of the user's own."""
    monkeypatch.chdir(tmp_path)
    # finds Hydra's own launchers
    Plugins.instance()
    monkeypatch.setitem(
        ConfigStore.instance().repo["hydra"]["launcher"], "submitit_slurm.yaml", _stored("submitit_slurm", Slurm)
    )
    # installed or not
    monkeypatch.delitem(ConfigStore.instance().repo["hydra"]["launcher"], "joblib.yaml", raising=False)
    setup_globals()
    version.setbase("1.3")
    path = ConfigSearchPathImpl()
    path.append("hydra", "pkg://hydra.conf")
    path.append("main", "pkg://pdefit_conf")
    PluginConfigurations().manipulate_search_path(path)
    path.append("command-line", f"file://{tmp_path}/mine")
    path.append("schema", "structured://")
    return _Guarded(path)


def _stored(name, node):
    store = ConfigStore()
    store.store(group="hydra/launcher", name=name, node=node)
    return store.repo["hydra"]["launcher"][f"{name}.yaml"]


@pytest.fixture
def load(loader, tmp_path):
    def load_(*overrides, own=None, **files):
        """The configuration of the front, or of an experiment `own` on top of it, beside other files by path."""
        written = {"experiment/own.yaml": own} if own else {}
        for name, content in {**written, **files}.items():
            (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
            content = (
                {"defaults": ["/experiment/reaction/fisher_front", "_self_"], **content} if content is own else content
            )
            text = ("# @package _global_\n" if content is not files.get(name) else "") + yaml.safe_dump(content)
            (tmp_path / "mine" / name).write_text(text)
        chosen = ("experiment=own", "hydra.mode=RUN") if own else FRONT
        return loader.load_configuration("config", [*chosen, *overrides], RunMode.RUN)

    return load_


def test_directories_may_be_typed_and_depend_on_values(load, monkeypatch, tmp_path):
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    assert load("hydra.run.dir=/elsewhere/run").hydra.run.dir == "/elsewhere/run"
    assert load("hydra.run.dir=../run").hydra.run.dir == "../run"
    assert load("hydra.run.dir=/elsewhere/seed${seed}", "seed=3").hydra.run.dir == "/elsewhere/seed3"
    assert load("hydra.run.dir=${oc.env:SCRATCH}/s${seed}").hydra.run.dir == "/scratch/me/s0"
    cfg = load("hydra.sweep.subdir=s${seed}-${hydra.job.num}", "hydra.job.name=mine", "hydra.verbose=[hydra]")
    with open_dict(cfg):
        cfg.hydra.job.num = 7
    assert cfg.hydra.sweep.subdir == "s0-7" and cfg.hydra.job.name == "mine" and cfg.hydra.verbose == ["hydra"]


@pytest.mark.parametrize(
    "overrides",
    [
        ("hydra.run.dir=out/${args.x}", "+args.x=../../outside"),
        ("hydra.run.dir=${args.x}", "+args.x=/outside"),
        ("hydra.run.dir=/elsewhere/run${args.x}", "+args.x=/../../outside"),
        ("hydra.sweep.subdir=${args.x}/${hydra.job.num}", "+args.x=../outside"),
        ("hydra.run.dir=${args.x}", "+args.x=.ssh"),
    ],
)
def test_a_value_does_not_lead_out_of_what_was_typed(load, overrides):
    with pytest.raises(PdefitError, match="leads out of"):
        load(*overrides)


@pytest.mark.parametrize(
    "content",
    [
        {"data": {"path": "${oc.env:SECRET}"}},
        {"reference": {"path": "${oc.env:SECRET}"}},
        {"args": {"dir": "${oc.env:SECRET}"}},
    ],
)
def test_a_file_puts_no_environment_variable_into_results_or_errors(load, content, monkeypatch):
    monkeypatch.setenv("SECRET", "swordfish")
    with pytest.raises(PdefitError, match="environment variable SECRET") as raised:
        load(own=content)
    assert "swordfish" not in str(raised.value)


@pytest.mark.parametrize(
    "typed",
    ["hydra.run.dir=/tmp/x${reference.path}", "hydra.run.dir=runs/${oc.select:reference.path}",
     "hydra.job.name=${reference.path}", "hydra.verbose=${reference.path}"],
)  # fmt: skip
def test_a_value_of_a_file_adds_no_environment_variable_to_what_was_typed(load, typed, monkeypatch, tmp_path):
    monkeypatch.chdir("/")
    monkeypatch.setenv("SECRET", "tmp")
    with pytest.raises(PdefitError, match="environment variable SECRET may not stand"):
        load(typed, own={"reference": {"path": "${oc.env:SECRET}"}})
    assert load("hydra.run.dir=${oc.env:SECRET}/x").hydra.run.dir == "tmp/x"


CALL = {"_target_": "os.system", "command": "touch pwned"}


@pytest.mark.parametrize(
    ("content", "words", "told"),
    [
        ({"hydra": {"run": {"dir": "../outside/${oc.env:SECRET}"}}}, (), "hydra.run.dir=VALUE"),
        ({"hydra": {"job": {"name": "${reference.path}"}}, "reference": {"path": "x"}}, (), "hydra.job.name=VALUE"),
        ({"hydra": {"job": {"env_copy": ["SECRET"]}}}, (), "set environment variables before you start pdefit"),
        ({"hydra": {"callbacks": {"a": CALL}}}, (), "hydra.callbacks.a, but a file may set nothing"),
        ({"hydra": "${args}", "args": {"callbacks": {"a": 1}}}, (), "sets hydra,"),
        ({"hydra": {"overrides": {"task": ["+hydra.callbacks.a=x"]}}}, (), "hydra.overrides.task"),
        ({"hydra": {"runtime": {"choices": {"experiment": "../../x"}}}}, (), "hydra.runtime.choices"),
        ({"hydra": {"sweeper": {"params": {"hydra.run.dir": "/x"}}}}, (), "hydra.sweeper.params"),
        ({"hydra": {"launcher": {"setup": ["touch pwned"]}}}, ("hydra/launcher=submitit_slurm",), "hydra.launcher.setup"),
        ({"hydra": {"launcher": {"setup": ["touch pwned"]}}}, ("hydra/launcher=cluster",), "hydra.launcher.setup"),
        ({"defaults": [_FRONT, {"override /hydra/launcher": "cluster"}, "_self_"]}, (), "type hydra/launcher=NAME"),
        ({"defaults": [_FRONT, {"/solver@hydra.callbacks.a": "rk4"}, "_self_"]}, (), "sets hydra.callbacks.a"),
        ({"defaults": [_FRONT, {"/hydra/launcher@hydra.callbacks.a": "basic"}, "_self_"]}, (), "'hydra/launcher/basic' sets"),
    ],
)  # fmt: skip
def test_what_a_file_says_of_hydra_is_left_out_with_a_sentence(load, content, words, told, monkeypatch, capsys):
    monkeypatch.setenv("SECRET", "swordfish")
    cluster = {"hydra/launcher/cluster.yaml": OWN_FILE}
    cfg = load("hydra.run.dir=here", "hydra.sweep.dir=there", *words, own=content, **cluster)
    warned = capsys.readouterr().err
    assert warned.startswith("warning: '") and told in warned and warned.count("\n") == 1
    expected = load("hydra.run.dir=here", "hydra.sweep.dir=there", *words, **cluster)
    capsys.readouterr()
    node, without = (OmegaConf.to_container(c.hydra, resolve=False) for c in (cfg, expected))
    # Hydra states what was typed, and the groups of the experiment
    assert node["overrides"]["hydra"] == without["overrides"]["hydra"]
    for written in (node, without):
        written["overrides"], written["job"]["override_dirname"] = {}, ""
        choices = written["runtime"].pop("choices")
        assert choices["hydra/launcher"] == ("basic" if not words else words[0].partition("=")[2])
    assert node == without and "swordfish" not in str(node) + warned


def test_a_run_leads_through_no_link_of_a_value(load, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to("/tmp")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    for typed, value in (
        ("inside/${args.x}", "link/x"),
        ("inside/${args.x}", "link"),
        ("${args.x}", "inside/../link/x"),
    ):
        with pytest.raises(PdefitError, match="leads out of"):
            load(f"hydra.run.dir={typed}", f"+args.x={value}")
    # a link that the user made for all runs, or that was typed
    (tmp_path / "runs").symlink_to("/tmp")
    assert load().hydra.run.dir.startswith("runs/") and load("hydra.run.dir=link/x").hydra.run.dir == "link/x"


def test_what_was_judged_is_what_hydra_gets(load):
    cfg = load("hydra.run.dir=runs/${args.x}", "hydra.job.name=${args.x}", "+args.x=good")
    with open_dict(cfg):
        cfg.args.x = "../../bad"
    assert cfg.hydra.run.dir == "runs/good" and cfg.hydra.job.name == "good"
    # a text that is an interpolation only after it was resolved once
    with pytest.raises(PdefitError, match="resolved again|cannot be resolved"):
        load("hydra.job.name=${args.x}", r"+args.x='\${args.y}'", "+args.y=bad")


def test_the_jobs_of_a_sweep_share_its_directory(loader):
    master = loader.load_configuration("config", [FRONT[0], "hydra.mode=MULTIRUN", "seed=0,1"], RunMode.MULTIRUN)
    jobs = [loader.load_sweep_config(master, [FRONT[0], f"seed={i}"]) for i in (0, 1)]
    assert {job.hydra.sweep.dir for job in jobs} == {master.hydra.sweep.dir} and master.hydra.sweep.dir.endswith(
        "-sweep"
    )
    assert len({job.hydra.run.dir for job in jobs}) == 2


OWN_FILE = {
    "_target_": SLURM, "setup": ["module load cuda", "cd ${hydra.sweep.dir}"], "partition": "long", "python": "/my/python",
    "timeout_min": 5, "name": "${hydra.job.name}",
}  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "own", "files"),
    [
        (("hydra/launcher=submitit_slurm", "hydra.launcher.setup=[module load cuda]"), None, {}),
        (("hydra/launcher=cluster",), None, {"hydra/launcher/cluster.yaml": OWN_FILE}),
        (("hydra.sweeper.max_batch_size=2",), None, {}),
    ],
)  # fmt: skip
def test_launchers_that_may_be_told(load, overrides, own, files):
    chosen = load(*overrides, own=own, **files).hydra
    assert chosen.sweeper.max_batch_size == 2 or chosen.launcher.setup[0] == "module load cuda"


@pytest.mark.parametrize(
    ("overrides", "own", "files", "words"),
    [
        (
            ("hydra/launcher=submitit_slurm", "hydra.launcher.partition=${args.x}", "+args.x=bad"),
            None, {}, "partition may take values of hydra only",
        ),
        (("hydra/launcher=submitit_slurm", "+hydra.launcher.additional_parameters.x={_target_: os.system}"), None, {},
         "additional_parameters is not allowed"),
        (("hydra/launcher=cluster",), None, {"hydra/launcher/cluster.yaml": {"_target_": "os.system"}}, "choose one of"),
        (("hydra/launcher=cluster",), None,
         {"hydra/launcher/cluster.yaml": {**OWN_FILE, "setup": ["${args.x}"]}}, "setup may take values of hydra only"),
        # a file with the name of a shipped one
        (("hydra/launcher=joblib",), None, {"hydra/launcher/joblib.yaml": OWN_FILE}, "is not installed"),
    ],
)  # fmt: skip
def test_launchers_that_may_not(load, overrides, own, files, words):
    with pytest.raises(Exception, match=words) as refusal:
        load(*overrides, own=own, **files)
    assert isinstance(refusal.value, PdefitError)


@pytest.mark.parametrize(
    "name", ["hydra/config.yaml", "hydra/output/default.yaml", "hydra/env/default.yaml", "config.yaml"]
)
def test_a_folder_of_ones_own_does_not_change_what_is_the_default(load, name):
    content = {"callbacks": {"a": {"_target_": "os.system"}}}
    if name == "config.yaml":
        content = {"hydra": content}
    elif name == "hydra/config.yaml":
        # the list of Hydra's own file of this name
        groups = (
            "output",
            "launcher",
            "sweeper",
            "help",
            "hydra_help",
            "hydra_logging",
            "job_logging",
            "callbacks",
            "env",
        )
        own = {"launcher": "basic", "sweeper": "basic", "callbacks": None}
        content = {"defaults": [{group: own.get(group, "default")} for group in groups] + ["_self_"], **content}
    try:
        cfg = load(**{name: content})
    except (PdefitError, ConfigCompositionException):
        return
    assert not cfg.hydra.callbacks


def test_entries_that_multiply_without_end_are_refused(load, monkeypatch):
    monkeypatch.setattr("pdefit.cli.config.hydra_guard.MOST_ENTRIES", 500)
    deep = {f"k{i}": {"a": f"${{args.k{i + 1}}}", "b": f"${{args.k{i + 1}}}"} for i in range(40)} | {"k40": 1}
    with pytest.raises(PdefitError, match="more than 500 entries"):
        load(own={"args": deep})


@pytest.mark.parametrize(
    "pattern", ["${{args.k{i}}}${{args.k{i}}}", "${{oc.select:args.k{i}}}${{oc.select:args.k{i}}}"]
)
@pytest.mark.parametrize("typed", [(), ("hydra.job.name=${args.k40}",)])
def test_texts_that_double_without_end_are_refused(load, pattern, typed):
    doubled = {f"k{i + 1}": pattern.format(i=i) for i in range(40)} | {"k0": "x" * 300}
    with pytest.raises(PdefitError, match="is longer than 100000 characters"):
        load(*typed, own={"args": doubled})


def test_an_error_is_told_once(load):
    """Hydra's handler on the terminal serves Hydra's loggers: pdefit's own errors are not logged to it as well."""
    logs = load().hydra.hydra_logging
    assert not logs.root.handlers and set(logs.loggers) == {"hydra", "hydra_plugins"}
    assert all(logger.handlers == ["console"] and not logger.propagate for logger in logs.loggers.values())


def test_documented_keys_are_set_as_they_are():
    data = [
        "~twin",
        "noise=0",
        "data.path=film.h5",
        "data.variables.u=u",
        "data.noise=0.01",
        "data.sigma.u=0.1",
        "data.time=t",
    ]
    data += [
        "data.coordinates.x=lon",
        "data.axes.u=[x,time]",
        "data.crop=[[1,9]]",
        "data.select.dish=2",
        "data.truth.D=1.0",
    ]
    keys = [
        "controls.D.scale=2.0",
        "controls.D.unit='mm^2/s'",
        "controls.D.prior.normal=[1,2]",
        "controls.y0.u.modes=3",
    ]
    keys += [
        "stages.near.optimizer.name=lbfgs",
        "stages.near.until=3.0",
        "stages.near.stop=noise",
        "stages.whole.optimizer=lbfgs",
    ]
    keys += [
        "system.grid.boundary=periodic",
        "regularizers.smooth={name: h1, control: y0.u, weight: 1.0, spacing: 1.0}",
    ]
    with apart():
        found = read_settings(composed(["experiment=reaction/fisher_front", *data, *keys]))
    assert (
        found.data is not None and found.data.noise == 0.01 and found.data.time == "t" and found.data.crop == ((1, 9),)
    )
    assert found.controls["D"].scale == 2.0 and found.controls["y0"]["u"].modes == 3
    assert len(found.stages.stages) == 2 and len(found.regularizers) == 1
    assert isinstance(found.system.build().grid.boundary, pdefit.boundaries.Periodic)


def test_a_bare_name_stands_for_a_mapping_with_it():
    with apart():
        cfg = composed(["experiment=reaction/fisher_front"])
        with open_dict(cfg):
            cfg.solver, cfg.batch = "etdrk4", "loop"
        found = read_settings(cfg)
        assert isinstance(found.solver, pdefit.solvers.ETDRK4) and isinstance(found.batch, pdefit.batches.Loop)
        cfg.solver = "etdrk5"
        with pytest.raises(PdefitError, match="'etdrk5'.*did you mean etdrk4"):
            read_settings(cfg)


@pytest.mark.parametrize("typed", ["controls.D.gues=1.0", "contrls.D.guess=1.0", "seeed=1"])
def test_a_mistyped_key_of_an_own_experiment_has_near_ones(pdefit_inside, tmp_path, typed):
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\ndefaults: [/system: reaction/fisher_kpp]\ncontrols: {D: {transform: log}}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    code, _, err = pdefit_inside("plan", "--config-dir", str(tmp_path), "experiment=mine", typed)
    assert code != 0 and "did you mean" in err and "none" not in err
