"""Configurations composed in this process, and the command in another."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hydra
import pytest
from omegaconf import OmegaConf

from pdefit._util import interrupts
from pdefit.cli import main
from pdefit.cli.config.configuration import register_resolvers
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.settings import Settings
from pdefit.cli.runtime import plugins


class Fitted(NamedTuple):
    """A fit by the installed command: its directory, its arguments, and what it printed."""

    run: Path
    arguments: tuple[str, ...]
    out: str
    err: str


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Fitted:
    """The fit that tests look at, or copy before they work on it."""
    folder, job = tmp_path_factory.mktemp("fitted"), ("experiment=reaction/fisher_front", "max_iterations=3")
    words = ("fit", *job, "system.grid.shape=[80]", "times.count=13", 'derive={speed: "2 * sqrt(D * r)", rate: r}')
    command = [Path(sys.executable).with_name("pdefit"), *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (end,) = (folder / "runs" / "reaction" / "fisher_front").rglob("DONE")
    return Fitted(end.parent, words, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def compose() -> Callable[..., Settings]:
    """From overrides to settings, as the command line makes them."""

    def compose_(*overrides: str) -> Settings:
        return read_settings(_compose(overrides))

    return compose_


@pytest.fixture(scope="session")
def prepare_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write the configuration of a run into a directory, as Hydra does before it starts one."""

    def prepare(name: str, *overrides: str) -> Path:
        directory = tmp_path_factory.mktemp(name)
        (directory / ".hydra").mkdir(parents=True)
        OmegaConf.save(_compose(overrides), directory / ".hydra" / "config.yaml")
        return directory

    return prepare


def _compose(overrides: Sequence[str]) -> Any:
    plugins.register()
    register_resolvers()
    with hydra.initialize_config_module("pdefit_conf", version_base="1.3"):
        return hydra.compose("config", overrides=list(overrides))


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """This process's environment, with a terminal of a known width."""
    return {**os.environ, "COLUMNS": "80"}


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    """Start the installed `pdefit` in an empty directory."""

    def start_(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).with_name("pdefit"), *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start_


@pytest.fixture
def pdefit_command(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., tuple[int, str, str]]:
    """Run the installed `pdefit`: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        process = start(*arguments)
        try:
            out, err = process.communicate(timeout=600)
        finally:
            process.kill()
        return process.returncode, out, err

    return run


@pytest.fixture
def pdefit_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process, which saves its start: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    # two signals would end the process of pytest
    monkeypatch.setattr(interrupts, "_leave", lambda *_: None)
    # configuring logging closes the handlers of pytest
    for module in ("hydra.core.utils", "hydra._internal.hydra"):
        monkeypatch.setattr(f"{module}.configure_log", lambda *_: None)

    def run(*arguments: str) -> tuple[int, str, str]:
        main._failures.clear()
        main._signals.clear()
        monkeypatch.setattr(sys, "argv", ["pdefit", *arguments])
        code, signals = 0, {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            main.main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            for number, handler in signals.items():
                signal.signal(number, handler)
            os.environ.pop("HYDRA_FULL_ERROR", None)
        out, err = capsys.readouterr()
        return code, out, err

    return run
