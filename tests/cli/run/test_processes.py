"""A fit on two processes, started with the variables of a SLURM step."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pandas
import pytest
import xarray

ROOT = Path(__file__).parents[3]
# value, gradient and normal equations on one process, and on two
POINT = """
import sys
import jax, numpy as np
from pdefit.cli.runtime import processes
jax.config.update("jax_enable_x64", True)
processes.join()
sys.path[:0] = [sys.argv[1]]
from problems import fisher_functional
import pdefit
from pdefit.inverse.objective.compiled import EQUATIONS, GRADIENT
from pdefit.inverse.objective.spread import agreed, devices_of_all, gathered, over_processes

single = fisher_functional(count=3)
for objective in (single, pdefit.Recordings([single, fisher_functional(count=3, noise=0.1)])):
    shared, theta = over_processes(objective, 1), objective.theta0
    pairs = zip(
        jax.tree.leaves((GRADIENT(objective, theta)[:2], EQUATIONS(objective, theta)[1])),
        jax.tree.leaves(gathered((GRADIENT(shared, theta)[:2], EQUATIONS(shared, theta)[1]))),
        strict=True,
    )
    worst = max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in pairs if a.size)
    print(worst, agreed(shared, jax.process_index()))
members = pdefit.Members.of([single, fisher_functional(count=3, noise=0.1)])
stages = [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), 2)]
shared, alone = (pdefit.fit_members(members, stages, devices=d) for d in (devices_of_all(1), ()))
pairs = zip((shared.theta, shared.loss, shared.matrix), (alone.theta, alone.loss, alone.matrix), strict=True)
print(max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in pairs), 0)
processes.part()
"""
GRID = ("experiment=reaction/fisher_front", "system.grid.shape=[16]", "times={start: 0.0, stop: 2.0, count: 3}")
SHARED = (*GRID, "device=all", "cores=1", "render=false", "certificate=end")


def _step(job: int, number: int) -> dict[str, str]:
    """The variables of a task of a step of two; the job number chooses the port."""
    there = {"SLURM_JOB_ID": job, "SLURM_STEP_ID": os.getpid(), "SLURM_NTASKS": 2, "SLURM_STEP_NUM_TASKS": 2}
    own = {"SLURM_PROCID": number, "SLURM_LOCALID": number, "SLURM_STEP_NODELIST": "localhost"}
    return {**os.environ, "JAX_PLATFORMS": "cpu", **{name: str(x) for name, x in (there | own).items()}}


def _tasks(folder: Path, job: int, *command: str | Path) -> list[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen(command, cwd=folder, env=_step(job, k), **pipes) for k in range(2)]  # pyright: ignore


def _ended(tasks: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    said = [task.communicate(timeout=300) for task in tasks]
    return [(task.returncode, *text) for task, text in zip(tasks, said, strict=True)]


def _pdefit(folder: Path, job: int, *words: str) -> list[subprocess.Popen[str]]:
    return _tasks(folder, job, Path(sys.executable).with_name("pdefit"), *words)


def _state(run: Path) -> dict[str, np.ndarray]:
    with h5py.File(run / "state" / "state.h5") as file:
        return {str(x.attrs["name"]): np.asarray(x) for x in file.values() if isinstance(x, h5py.Dataset)}


def test_two_processes_evaluate_and_fit_members_as_one_does(tmp_path):
    tests = Path(__file__).parents[2]
    for code, out, error in _ended(_tasks(tmp_path, 1, sys.executable, "-c", POINT, str(tests))):
        assert code == 0, error
        # the second is silent
        for line in filter(None, out.splitlines()):
            if "Gloo" not in line:
                worst, first = map(float, line.split())
                assert worst < 1e-12 and first == 0


def _history(run: Path) -> np.ndarray:
    with h5py.File(run / "history.h5") as file:
        return np.asarray(file["loss"])


ADAM = ("fit", *SHARED, "stages=adam", "max_iterations=60")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run of two processes that nothing stops. The second writes nothing, and nothing is written by both."""
    folder = tmp_path_factory.mktemp("undisturbed")
    ends = _ended(_pdefit(folder, 3, *ADAM, "hydra.run.dir=whole"))
    assert [code for code, _, _ in ends] == [0, 0] and ends[1][1:] == ("", ""), ends
    assert [path.name for path in folder.iterdir()] == ["whole"]
    return folder / "whole"


def test_the_numbers_of_a_fit_are_those_of_one_process(tmp_path, undisturbed):
    alone = [Path(sys.executable).with_name("pdefit"), *ADAM, "hydra.run.dir=one"]
    assert subprocess.run(alone, cwd=tmp_path, timeout=300).returncode == 0
    one, two = (json.loads((run / "summary.json").read_text())["parameters"] for run in (tmp_path / "one", undisturbed))
    for name, row in one.items():
        np.testing.assert_allclose(two[name]["estimate"], row["estimate"], rtol=1e-9, err_msg=name)


def test_a_killed_process_ends_all_and_the_fit_goes_on_with_the_same_bits(tmp_path, undisturbed):
    """The process that leads; of many fits that one is killed which follows."""
    tasks, state = _pdefit(tmp_path, 4, *ADAM, "hydra.run.dir=cut"), tmp_path / "cut" / "state" / "state.h5"
    while not state.exists() and all(task.poll() is None for task in tasks):
        time.sleep(0.02)
    tasks[0].kill()
    left = _ended(tasks)[1]
    assert left[0] == 1 and left[2].count("error:") == 1
    assert (
        "error: another process of this fit has ended" in left[2] and "pdefit resume" in left[2] and "/cut`" in left[2]
    )
    assert [code for code, _, _ in _ended(_pdefit(tmp_path, 5, "resume", "cut"))] == [0, 0]
    whole, cut = _state(undisturbed), _state(tmp_path / "cut")
    assert whole.keys() == cut.keys() and all(np.array_equal(whole[n], cut[n], equal_nan=True) for n in whole)
    np.testing.assert_array_equal(_history(undisturbed), _history(tmp_path / "cut"))


def test_many_fits_of_two_processes_are_those_of_one_and_go_on_with_the_same_bits(tmp_path):
    with xarray.open_dataset(ROOT / "data" / "populations" / "lotka_volterra_500.h5", engine="h5netcdf") as file:
        file.isel(system=slice(5)).to_netcdf(tmp_path / "five.h5", engine="h5netcdf")
    words = (
        "experiment=populations/lotka_volterra_500",
        "data.path=five.h5",
        "~stages.half",
        "starts.count=5",
        *SHARED[len(GRID) :],
    )
    alone = (word for word in words if word != "device=all")
    pdefit = Path(sys.executable).with_name("pdefit")
    assert subprocess.run([pdefit, "fit", *alone, "hydra.run.dir=one"], cwd=tmp_path, timeout=300).returncode == 0
    assert [code for code, _, _ in _ended(_pdefit(tmp_path, 7, "fit", *words, "hydra.run.dir=two"))] == [0, 0]
    tasks, state = _pdefit(tmp_path, 8, "fit", *words, "hydra.run.dir=cut"), tmp_path / "cut" / "state" / "state.h5"
    while not state.exists() and all(task.poll() is None for task in tasks):
        time.sleep(0.02)
    tasks[1].kill()
    assert "another process of this fit has ended" in _ended(tasks)[0][2]
    ended = _ended(_pdefit(tmp_path, 9, "resume", "cut"))
    assert [code for code, _, _ in ended] == [0, 0], ended
    one, two, cut = (pandas.read_csv(tmp_path / run / "members.csv") for run in ("one", "two", "cut"))
    pandas.testing.assert_frame_equal(two, cut, check_exact=True)
    pandas.testing.assert_frame_equal(one, two, rtol=1e-6)


@pytest.mark.parametrize(
    "words, reason",
    [
        (
            ("plan", "experiment=reaction/fisher_front", "device=all"),
            "pdefit plan runs in one task, but srun started 2",
        ),
        (("fit", "-m", "experiment=reaction/fisher_front", "device=all"), "pdefit fit -m runs in one task"),
    ],
)
def test_what_several_processes_cannot_do_is_refused(tmp_path, words, reason):
    done = subprocess.run(
        [Path(sys.executable).with_name("pdefit"), *words],
        cwd=tmp_path,
        env=_step(6, 0),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and reason in done.stderr and not [*tmp_path.iterdir()]
