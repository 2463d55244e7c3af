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
from omegaconf import open_dict

from pdefit._util.errors import PdefitError
from pdefit.cli.config.hydra_guard import _Guarded
from pdefit.cli.runtime.plugins import PluginConfigurations

FRONT = ("experiment=reaction/fisher_front", "hydra.mode=RUN")
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
    assert load(own={"hydra": {"run": {"dir": "runs/mine/s${seed}"}}}).hydra.run.dir == "runs/mine/s0"


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
        (("hydra/launcher=submitit_slurm",), {"hydra": {"launcher": {"timeout_min": "${seed}"}}}, {}),
        ((), {"defaults": ["/experiment/reaction/fisher_front", {"override /hydra/launcher": "submitit_slurm"}]}, {}),
        (("hydra.sweeper.max_batch_size=2",), {"hydra": {"sweeper": {"params": {"seed": "0,1"}}}}, {}),
    ],
)  # fmt: skip
def test_launchers_that_may_be_told(load, overrides, own, files):
    cfg = load(*overrides, own=own, **files)
    assert "${" not in str(cfg.hydra.launcher.get("timeout_min"))


@pytest.mark.parametrize(
    ("overrides", "own", "files", "words"),
    [
        (("hydra/launcher=submitit_slurm",), {"hydra": {"launcher": {"setup": ["touch pwned"]}}}, {}, "setup is no number"),
        (("hydra/launcher=submitit_slurm",), {"hydra": {"launcher": {"python": "pwned"}}}, {}, "python is no number"),
        (("hydra/launcher=submitit_slurm",), {"hydra": {"launcher": {"srun_args": ["x"]}}}, {}, "srun_args is no number"),
        (("hydra/launcher=submitit_slurm",), {"hydra": {"launcher": {"partition": "x\ny"}}}, {}, "partition is no number"),
        (
            ("hydra/launcher=submitit_slurm", "hydra.launcher.partition=${args.x}", "+args.x=bad"),
            None, {}, "partition may take values of hydra only",
        ),
        (("hydra/launcher=submitit_slurm", "+hydra.launcher.additional_parameters.x={_target_: os.system}"), None, {},
         "additional_parameters is not allowed"),
        (("hydra/launcher=cluster",), None, {"hydra/launcher/cluster.yaml": {"_target_": "os.system"}}, "choose one of"),
        (("hydra/launcher=cluster",), {"hydra": {"launcher": {"setup": ["touch pwned"]}}},
         {"hydra/launcher/cluster.yaml": OWN_FILE}, "setup is no number"),
        (("hydra/launcher=cluster",), None,
         {"hydra/launcher/cluster.yaml": {**OWN_FILE, "setup": ["${args.x}"]}}, "setup may take values of hydra only"),
        # the file lies beside the experiment that chooses it
        ((), {"defaults": ["/experiment/reaction/fisher_front", {"override /hydra/launcher": "cluster"}, "_self_"]},
         {"hydra/launcher/cluster.yaml": OWN_FILE}, "is no number"),
        # a file with the name of a shipped one
        (("hydra/launcher=joblib",), None, {"hydra/launcher/joblib.yaml": OWN_FILE}, "is no number|is not installed"),
        ((), {"hydra": {"sweeper": {"params": {"hydra.run.dir": "/x"}}}}, {}, "vary keys of an experiment only"),
        ((), {"hydra": {"sweeper": {"params": {"+hydra.callbacks.a": "x"}}}}, {}, "vary keys of an experiment only"),
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
    monkeypatch.setattr("pdefit.cli.config.hydra_guard._MOST_ENTRIES", 500)
    deep = {f"k{i}": {"a": f"${{args.k{i + 1}}}", "b": f"${{args.k{i + 1}}}"} for i in range(40)} | {"k40": 1}
    with pytest.raises(PdefitError, match="more than 500 entries"):
        load(own={"args": deep})


def test_an_error_is_told_once(load):
    """Hydra's handler on the terminal serves Hydra's loggers: pdefit's own errors are not logged to it as well."""
    logs = load().hydra.hydra_logging
    assert not logs.root.handlers and set(logs.loggers) == {"hydra", "hydra_plugins"}
    assert all(logger.handlers == ["console"] and not logger.propagate for logger in logs.loggers.values())
