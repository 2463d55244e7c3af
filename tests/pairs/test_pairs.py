"""The table of pairs: every two choices of different axes meet in a run that agrees with least squares, or are refused.

A run agrees if each number lies within a tenth of a standard error of what scipy finds in the same data, with exact
solutions in place of steps. Fits end where the next step would move nothing by more than a hundredth of a standard error;
several such steps may be left. Single precision errs by less. To this comes the error of the steps, which the run itself
measures by half of each. The centre of a profile lies within a fifth of a
standard error, where a parabola would have it, and that of twenty repetitions of a bootstrap within one.
"""

import csv
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from rich.console import Console

from pairs import choices
from pairs.exact import Rod, estimate
from pdefit.cli.config import _registry
from pdefit.cli.config.compose import apart, composed, register_experiment
from pdefit.cli.config.read import read_settings
from pdefit.cli.config.settings import Job
from pdefit.cli.run.fit import run_fit, run_resume
from pdefit.cli.run.profile import run_profile
from pdefit.cli.runtime.equations import using
from pdefit.cli.runtime.run_directory import recorded
from pdefit.inverse.fit.refused_combinations import refusal

QUIET = Console(quiet=True)
# all rows take a quarter of an hour on two cores, so `./run pytest --rest` runs one of so many
_SHARE = 3
# the command whose small work is shared by two cores, too
_SHARED = """
from pdefit.cli import main
from pdefit.inverse.objective import spread
spread.over_cores.__defaults__ = (0.0,)
main.main()
"""


def _words(chosen: choices.Chosen, files: list[Path]) -> list[str]:
    """The words of the command line that make a run."""
    run = chosen["run"]
    both = f"{{a: {{data: {{path: {files[0]}}}}}, b: {{data: {{path: {files[1]}}}}}}}"
    words = [f"+data.path={files[0]}", *(w for axis, name in chosen.items() for w in choices.AXES[axis][name].words)]
    words += [f"recordings={both}"] if "recordings" in run else [f"members={both}"] if run == "members" else []
    words += ["starts=sobol", "starts.count=4", "starts.keep=2"] if "starts" in run else []
    words += ["uncertainty=bootstrap", "uncertainty.count=20"] if run == "bootstrap" else []
    return words + (["max_iterations=2"] if run == "resume" else [])


def _fit(chosen: choices.Chosen, words: list[str], run: Path) -> None:
    """The run of these words in a directory, by the functions that the command calls."""
    equations, experiment = choices.ROD
    if chosen["run"] == "two cores":
        command = [sys.executable, "-W", "ignore", "-c", _SHARED, "fit", *map(str, choices.ROD), *words, "cores=2"]
        free = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
        done = subprocess.run(
            [*command, f"hydra.run.dir={run}"], env=free, cwd=run.parent, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return
    with apart(), using(equations):
        name = register_experiment(experiment)
        cfg = composed([f"experiment={name}", *words])
        settings = read_settings(cfg)
        (run / ".hydra").mkdir(parents=True)
        OmegaConf.save(cfg, run / ".hydra" / "config.yaml")
        with recorded(run, ["pdefit", "fit"], settings, name, alone=False):
            run_fit(Job(settings, run, name, QUIET))
        if chosen["run"] == "resume":
            run_resume([str(run), "max_iterations=200"], QUIET)
        if "profile" in chosen["run"]:
            run_profile([str(run)], QUIET)


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def _found(run: Path, members: bool) -> list[list[float]]:
    """D and k of a fit, or of each member."""
    if members:
        return [[float(row[name]) for name in "Dk"] for row in _rows(run / "members.csv")]
    values = {row["control"]: float(row["estimate"]) for row in _rows(run / "parameters.csv")}
    return [[values[name] for name in "Dk"]]


def _centres(run: Path, kind: str) -> tuple[np.ndarray, float] | None:
    """The middle of the intervals of D and k that a bootstrap or profiles give, and its tolerance in standard errors."""
    if kind == "bootstrap":
        ends = {
            row["control"]: (float(row["ci95_low"]), float(row["ci95_high"])) for row in _rows(run / "bootstrap.csv")
        }
    elif "profile" in kind:
        found = json.loads((run / "profiles.json").read_text())["profiles"]
        ends = {row["control"]: (row["low"], row["high"]) for row in found}
    else:
        return None
    return np.array([np.sqrt(np.prod(ends[name])) for name in "Dk"]), 1.0 if kind == "bootstrap" else 0.2


def _of_steps(run: Path) -> np.ndarray:
    """Twice the changes of D and k that half the step would make, in standard errors, as the run itself has measured.

    A step of second order errs by 4/3 of its change, one of first order by twice.
    """
    shifts = json.loads((run / "summary.json").read_text())["discretisation"].get("step", {})
    # a half width is two standard errors
    return 2 * 2 * np.abs([shifts.get(name, 0.0) for name in "Dk"])


def _case(chosen: dict[str, str]) -> Any:
    known = choices.fails(chosen)
    marks = [pytest.mark.xfail(strict=True, reason=known)] if known else []
    return pytest.param(chosen, id=",".join(chosen.values()), marks=marks)


ROWS = [*choices.covering(), *choices.failing()]


@pytest.mark.parametrize("chosen", [_case(chosen) for chosen in ROWS])
def test_a_run_of_the_table_agrees_with_least_squares(chosen, tmp_path, request):
    if ROWS.index(chosen) % _SHARE and not any("pairs" in word for word in request.config.args):
        pytest.skip("all rows of the table run by name: ./run pytest tests/pairs")
    records = [Rod(chosen, seed) for seed in (0, 1)]
    words = _words(chosen, [r.write(tmp_path / f"{name}.h5") for r, name in zip(records, "ab", strict=True)])
    _fit(chosen, words, run := tmp_path / "run")
    members = chosen["run"] == "members"
    together = [[r] for r in records] if members else [records if "recordings" in chosen["run"] else records[:1]]
    wanted = [estimate(some) for some in together]
    steps = 0.0 if members else _of_steps(run)
    for values, (expected, error) in zip(_found(run, members), wanted, strict=True):
        assert np.all(np.abs(values - expected) / error < 0.1 + steps), (values, expected, error, steps)
    if (centre := _centres(run, chosen["run"])) is not None:
        expected, error = wanted[0]
        assert np.max(np.abs(centre[0] - expected) / error) < centre[1], (centre, expected, error)


def test_every_combination_is_asked_without_a_run():
    """A sentence or nothing for each, and a sentence for those in which a refused pair meets."""
    refused = {pair for pair in choices.pairs() if choices.refused(dict(pair))}
    # choices of the same types have the same answer
    axes = {
        a: [*{repr(c.types): name for name, c in reversed(names.items())}.values()] for a, names in choices.AXES.items()
    }
    asked = 0
    for names in itertools.product(*axes.values()):
        asked, chosen = asked + 1, dict(zip(axes, names, strict=True))
        if said := choices.refused(chosen):
            assert said[0].isupper() and "\n" not in said and not said.endswith("."), said
        else:
            assert not refused & {*itertools.combinations(chosen.items(), 2)}, chosen
    assert asked > 50_000


@pytest.mark.quick
def test_every_pair_is_refused_or_met():
    rows = choices.covering()
    met = {frozenset(pair) for row in rows for pair in itertools.combinations(row.items(), 2)}
    refused = {frozenset(pair) for pair in choices.pairs() if choices.refused(dict(pair))}
    failing = {frozenset(pair) for pair in choices.pairs() if choices.fails(dict(pair))}
    assert len(rows) + len(choices.failing()) <= 150 and not met & (refused | failing)
    assert met | refused | failing == {frozenset(pair) for pair in choices.pairs()}
    assert choices.refused(choices.PLAIN) == "" and refusal(choices.types_of({})) == ""


@pytest.mark.quick
def test_every_name_of_the_registry_has_a_place():
    """A new solver, adjoint or instrument is put into the table, or is said not to be in it; so is a new kind."""
    kinds = {kind.word: kind for kind in _registry.KINDS}
    assert set(kinds) == set(choices.PLACES) | choices.NO_AXIS
    known = {name for names in choices.AXES.values() for name in names}
    for word, places in choices.PLACES.items():
        assert set(places) == set(kinds[word].classes), word
        assert {p for p in places.values() if not p.startswith("not here: ")} <= known
    solver = choices.AXES["solver"]
    for name, place in choices.PLACES["solver"].items():
        if place in solver:
            # a solver may be stepped with what its representative may be
            own = choices.Choices(solver=kinds["solver"].classes[name](), adaptive=True)  # pyright: ignore
            assert bool(refusal(own)) == bool(choices.refused({"steps": "adaptive", "solver": place}))
