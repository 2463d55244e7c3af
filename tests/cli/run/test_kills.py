"""Every kind of run, killed where a phase has just been saved or when it is done, goes on to the bits of one never killed."""

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import xarray
from omegaconf import OmegaConf
from rich.console import Console

from pdefit._util.atomic import write_json
from pdefit.cli.config.catalogue import choices
from pdefit.cli.config.read import read_settings
from pdefit.cli.run import checkpoints, minimise, profile
from pdefit.cli.run.bootstrap import bootstrap_summary
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.build_members import build_members
from pdefit.cli.run.members import minimise_members
from pdefit.cli.run.posterior import posterior_summary
from pdefit.cli.run.recorded import at_best, open_run
from pdefit.cli.run.starts import minimise_from_starts
from pdefit.cli.runtime.process import Stopwatch
from pdefit.cli.runtime.terminal import MembersProgress
from pdefit.inverse.objective.fingerprint import fingerprint

QUIET = Console(file=open(os.devnull, "w"))


class Kind(NamedTuple):
    """A kind of run: its experiment, its other settings, the module that saves its phases in which folders, and its profile.

    Phases in any other folder are those of another kind.
    """

    words: tuple[str, ...]
    others: tuple[str, ...] = ()
    by: str = "minimise"
    folders: tuple[str, ...] = ("state",)
    profiled: tuple[str, ...] = ()


PREY = ("render=false", "dt=0.25", "solver=heun", "~controls.c1", "~controls.c2", "~controls.gamma", "~controls.delta")
WINDOWS = ("experiment=populations/lotka_volterra", "twin=self", "noise=0.02", "times.stop=6", "times.count=13", *PREY)
STATES = (*WINDOWS, "~stages.near", "~stages.whole")
ODE = (*STATES, "~controls.y0")
# a guess that ends in a wrong minimum, and starts of which some end in the right one
WRONG = (*ODE, "stages=levenberg_marquardt", "times.stop=30", "controls.alpha.guess=1.4", "controls.beta.guess=1.5")
FEW = ("starts.count=4", "starts.keep=2", "starts.factor=3")
RIGHT = (*FEW, "starts=sobol")
DOSES = "events=[{time: 1.3, state: prey, amount: 0.2}, {time: 3, state: predator, amount: 0.5, duration: 1.7}]"
ADAPTIVE = tuple(word for word in ODE if not word.startswith(("dt=", "solver=")))
ADAPTIVE += ("stages=levenberg_marquardt", "solver=bosh3", "dt=null", "steps=adaptive")
ADAPTIVE += ("recordings={a: {twin: {system: {alpha: 0.6}}}, b: {}}",)
FRONT = ("experiment=reaction/fisher_front", "twin=self", "render=false", "system.grid.shape=[16]", "times.count=6")
ANY = (*FRONT, "times.fit_until=null", "~controls.D", "~controls.r")
SHORT = tuple(f"~stages.{name}" for name in ("fifth", "near", "nearer", "nearest"))
SHORT += ("stages.half.max_iterations=3", "stages.free.max_iterations=3")
FIELD = "+controls.y0={u: {transform: softplus, smoothing: {length: 3.0, amplitude: 0.1}}}"
MANY = ("experiment=populations/lotka_volterra_500", *PREY, "~controls.y0", "~stages.near", "~stages.half")
MANY += ("data.sigma={prey: 0.01, predator: 0.01}",)
# rows for the files of these groups of configurations, all of which have one
OF = {
    "stages": {
        "adam": Kind((*ODE, "stages.main.max_iterations=6")),
        "auto": Kind(ODE),
        "collocation": Kind(STATES),
        "gauss_newton_cg": Kind(ODE),
        "lbfgs": Kind((*ODE, "max_iterations=4", "driver=hosted")),
        "levenberg_marquardt": Kind((*ODE, "recordings={a: {twin: {system: {alpha: 0.6}}}, b: {}}")),
        "observer": Kind((*ANY, "+controls.y0={u: {guess: data}}", *SHORT)),
    },
    "starts": {
        "sobol": Kind(WRONG, FEW, "starts", ("starts", "state")),
        "latin_hypercube": Kind(WRONG, FEW, "starts", ("starts", "state")),
        "auto": Kind(WRONG, FEW, "starts", ("state", "starts", "better")),
    },
    "uncertainty": {"bootstrap": Kind(WRONG, (*RIGHT, "uncertainty.count=4"))},
}


def _of(group: str, name: str) -> Kind:
    kind, word = OF[group][name], (f"{group}={name}",)
    return kind._replace(words=kind.words + word) if group == "stages" else kind._replace(others=kind.others + word)


KINDS = {f"{group}={name}": _of(group, name) for group in OF for name in choices(group)} | {
    "windows": Kind((*WINDOWS, "~controls.y0")),
    "doses": Kind((*ODE, "stages=levenberg_marquardt", DOSES)),
    "starts of recordings with adaptive steps": Kind(ADAPTIVE, RIGHT, "starts", ("starts", "state")),
    "members": Kind((*MANY, "data.path=FILE"), ("starts.count=2",), "members", ("state", "starts")),
    "posterior": Kind((*ANY, FIELD, "stages.main.max_iterations=6"), ("posterior={rank: 2, samples: 2}",)),
    "profile": Kind(WRONG, RIGHT, "profile", ("state", "profiles"), ("alpha",)),
    "joint profile": Kind(WRONG, RIGHT, "profile", ("state", "profiles"), ("alpha,beta",)),
}


def test_every_module_that_saves_has_a_kind():
    files = Path(minimise.__file__).parents[1].rglob("*.py")
    saving = {f.stem for f in files if re.search(r"\bCheckpoints(\.of)?\(", f.read_text())}
    assert saving - {"checkpoints"} == {k.by for k in KINDS.values()}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """The file of three populations with 2 % noise, one of which follows no such equation."""
    path, random, ts = tmp_path_factory.mktemp("data") / "three.h5", np.random.default_rng(0), np.linspace(0.0, 6.0, 13)
    found = []
    for a, b, g, d in random.uniform(0.4, 0.9, (3, 4)):
        each = [np.array([0.5, 0.4])]
        for _ in range(12 * 20):
            each.append(each[-1] * (1 + 0.025 * np.array([a - b * each[-1][1], d * each[-1][0] - g])))
        found.append(np.array(each)[::20])
    seen = np.array(found) + 0.01 * random.standard_normal((3, 13, 2))
    seen[2, 8:] += 0.5
    values = {n: (("system", "time"), seen[:, :, k]) for k, n in enumerate(("prey", "predator"))}
    xarray.Dataset(values, {"system": ["a", "b", "odd"], "time": ts}).to_netcdf(path, engine="h5netcdf")
    return path


@pytest.fixture(scope="module")
def experiments():
    """The experiments by their words: kinds that share one share its programs."""
    return {}


def outcome(directory, exp, profiled):
    """All that a run ends with, from whatever its directory holds."""
    job, saved = open_run([str(directory)], "resume", QUIET)
    watch = Stopwatch()
    if job.settings.members:
        fits, _ = minimise_members(exp, job, saved, 8, watch)
        return [fits.theta.tobytes(), fits.loss.tobytes(), fits.evaluations.tolist(), fits.start.tolist()]
    _, found, explored = minimise_from_starts(exp, job, saved, watch)
    told = [np.asarray(found.theta).tobytes(), found.loss, found.loss_initial, found.iterations, found.converged]
    told += [found.events, bootstrap_summary(found, None, job), posterior_summary(exp, found, job)]
    if explored is not None:
        told += [x.tobytes() for x in (explored.theta, explored.loss, explored.dropped, explored.evaluations)]
    if profiled:
        profile.run_profile([str(directory), *profiled], QUIET)
    return [*map(repr, told), {file.name: file.read_bytes() for file in directory.glob("*.csv")}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_at_the_end_of_a_phase_ends_with_the_same_bits(
    kind, experiments, prepare_run, three, tmp_path, monkeypatch
):
    words, others, _, folders, profiled = KINDS[kind]
    run = prepare_run("run", *(word.replace("FILE", str(three)) for word in (*words, *others)))
    killed, save = {}, checkpoints.save_state
    write_json(run / "provenance.json", {"command": ["pdefit", "fit"], "experiment": kind})
    settings = read_settings(OmegaConf.load(run / ".hydra" / "config.yaml"))
    build = build_members if settings.members else build_experiment
    exp = experiments[words] = experiments.get(words) or build(settings)
    monkeypatch.setattr(profile, "build_experiment", lambda _: exp)

    def saved_and_copied(folder, saved):
        """Copy the files that a kill now would leave: the last copy of a phase is that of its end."""
        save(folder, saved)
        if folder.name not in folders:
            return
        phase = "-".join(str(x) for x in (folder.name, *map(saved.state.numbers.get, ("rung", "stage", "round"))))
        killed[phase] = tmp_path / phase
        shutil.rmtree(killed[phase], ignore_errors=True)
        shutil.copytree(run, killed[phase])

    with monkeypatch.context() as patch:
        # as if seconds had passed
        patch.setattr(MembersProgress, "save_now", lambda _: bool(profiled))
        patch.setattr(checkpoints, "save_state", saved_and_copied)
        whole = outcome(run, exp, profiled)
    if not settings.members:
        # the point from which profile, certify and identify begin
        point = at_best(exp, open_run([str(run)], "certify", QUIET)[1])[1]
        assert repr(np.asarray(point).tobytes()) == whole[0]
    assert {phase.split("-")[0] for phase in killed} == {*folders}
    # nothing is saved after the last one, so that this is a run which is done; fingerprints are compared there
    killed[killed.popitem()[0]] = run
    hashes = fingerprint(exp.members.first if settings.members else exp.functional)
    for phase, directory in killed.items():
        with monkeypatch.context() as patch:
            if directory != run:
                patch.setattr(minimise, "fingerprint", lambda _: hashes)
            assert outcome(directory, exp, profiled) == whole, phase
