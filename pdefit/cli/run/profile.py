"""Profiles of the numbers of a run, as `pdefit profile`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json
from pdefit._util.cache import contents, digest
from pdefit._util.errors import PdefitError
from pdefit._util.html import interval
from pdefit.cli.config.settings import Job
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.checkpoints import Checkpoints
from pdefit.cli.run.recorded import at_best, open_run
from pdefit.cli.runtime.terminal import MembersProgress, warn
from pdefit.inverse.fit.combinations import refuse
from pdefit.inverse.fit.reweight import ByPrediction
from pdefit.inverse.members.joint_profile import joint_profile
from pdefit.inverse.members.profile import Profile, check_profile, profiles
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.uncertainty.control_values import moved
from pdefit.inverse.uncertainty.intervals import Intervals, intervals
from pdefit.output.pictures.profiles import draw_joint_profiles, draw_profiles
from pdefit.output.pictures.report import write_report
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.tables import number, write_rows

# folder of a run in which profiles under way are saved
_FOLDER = "profiles"
# what is said of a side that no rise ends
_WORDS = {
    "bound": "the bound",
    "flat": "the data do not bound it",
    "blown up": "the model blows up beyond",
    "endless": "not followed to its end",
}


def run_profile(arguments: list[str], console: Console) -> None:
    """Follow the profiles of the numbers that the arguments name after a run, and write profiles.csv, json and a figure."""
    names = [word for word in arguments[1:] if "=" not in word]
    pairs = [word.split(",") for word in names if "," in word]
    job, saved = open_run([word for word in arguments if word not in names], "profile", console)
    names = [word for word in names if "," not in word]
    if saved is None:
        raise PdefitError(f"'{job.directory}' has no estimate yet; pdefit resume it first")
    refuse(job.settings.choices("profile"))
    exp = build_experiment(job.settings)
    objective, theta = at_best(exp, saved)
    check_profile(objective)
    theta = jnp.asarray(theta)
    matrix = intervals(objective, theta, sigma_stated=exp.sigma_stated)
    if any(isinstance(stage.reweight, ByPrediction) for stage in exp.stages):
        warn(
            console,
            "the noise follows the prediction or is estimated, and profiles hold its size at the estimate: far from it they "
            "lean to the wrong side, and intervals by the matrix are nearer to the likelihood",
        )
    if pairs:
        _joint(job, objective, theta, pairs, matrix, exp.sigma_stated)
        if not names:
            return
    # a fit that went on since has another estimate
    checkpoints = Checkpoints.of(job, _FOLDER, {"names": names, "estimate": digest(contents([theta]))})
    with MembersProgress(console) as bar:
        found = profiles(
            objective,
            theta,
            names or None,
            sigma_stated=exp.sigma_stated,
            devices=job.settings.shared_by,
            callback=checkpoints.saving(bar, "profiles"),
            resume=checkpoints.load(),
        )
    rows = [_row(one, matrix) for one in found]
    points = [
        {"control": one.control, "value": float(x), "rise": float(r), "limit": one.limit}
        for one in found
        for x, r in zip(one.values, one.rise, strict=True)
    ]
    write_rows(job.directory / "profiles.csv", points)
    curves = [_curves(one, matrix, theta) for one in found]
    content = {"profiles": [row | curve for row, curve in zip(rows, curves, strict=True)]}
    write_json(job.directory / "profiles.json", content)
    draw_profiles(job.directory / "figures" / "profiles.png", job.directory / "profiles.json")
    if RunFiles(job.directory).has("report.html"):
        write_report(job.directory)
    _print(rows, console)
    if lower := [one.control for one in found if one.is_lower]:
        warn(
            console, f"J is lower elsewhere ({', '.join(lower)}): the fit has not reached its minimum; pdefit resume it"
        )
    where = escape(str(job.directory / "profiles.csv"))
    console.print(f"written to {where}, profiles.json and figures/profiles.png", highlight=False)


def _joint(
    job: Job,
    objective: AbstractObjective,
    theta: jax.Array,
    pairs: list[list[str]],
    matrix: Intervals,
    sigma_stated: bool,
) -> None:
    """Follow joint profiles of pairs of numbers, and write joint_profiles.csv, json and a figure."""
    directory, console = job.directory, job.console
    found = []
    for pair in pairs:
        checkpoints = Checkpoints.of(job, _FOLDER, {"pair": pair, "estimate": digest(contents([theta]))})
        with MembersProgress(console) as bar:
            one = joint_profile(
                objective,
                theta,
                pair,
                sigma_stated=sigma_stated,
                devices=job.settings.shared_by,
                callback=checkpoints.saving(bar, "profiles"),
                resume=checkpoints.load(),
            )
        found.append(one)
    cells = [
        {"first": one.controls[0], "value": x, "second": one.controls[1], "other": y, "rise": r, "limit": one.limit}
        for one in found
        for x, row in zip(one.first.tolist(), one.rise.tolist(), strict=True)
        for y, r in zip(one.second.tolist(), row, strict=True)
    ]
    write_rows(directory / "joint_profiles.csv", cells)
    known = dict(zip(matrix.names, zip(matrix.estimate.tolist(), matrix.units, strict=True), strict=True))
    drawn = [
        {
            "controls": one.controls,
            "first": one.first.tolist(),
            "second": one.second.tolist(),
            "rise": [[number(x / one.limit) for x in row] for row in one.rise],
            "estimate": [known[name][0] for name in one.controls],
            "units": [known[name][1] for name in one.controls],
        }
        for one in found
    ]
    write_json(directory / "joint_profiles.json", {"profiles": drawn})
    draw_joint_profiles(directory / "figures" / "joint_profiles.png", directory / "joint_profiles.json")
    where = escape(str(directory / "joint_profiles.csv"))
    console.print(f"written to {where} and figures/joint_profiles.png", highlight=False)


def _row(one: Profile, matrix: Intervals) -> dict[str, Any]:
    """Entries of one number in a file; infinite ones are empty."""
    k = matrix.names.index(one.control)
    remarks = [
        f"{side}: {_WORDS[end]}" for side, end in zip(("below", "above"), one.ends, strict=True) if end in _WORDS
    ]
    return {
        "control": one.control,
        "unit": matrix.units[k],
        "estimate": float(matrix.estimate[k]),
        "low": one.low,
        "high": one.high,
        "ends": list(one.ends),
        "matrix_low": number(matrix.low[k]),
        "matrix_high": number(matrix.high[k]),
        "remark": "; ".join(remarks),
    }


def _curves(one: Profile, matrix: Intervals, theta: jax.Array) -> dict[str, Any]:
    """The profile, and the parabola of the matrix, both in units of the limit."""
    k = matrix.names.index(one.control)
    half, part = float(matrix.reach[k]), np.linspace(-1.5, 1.5, 61)
    changes = np.zeros((part.size, theta.size))
    changes[:, k] = part * half
    parabola = np.asarray(jax.vmap(lambda by: moved(matrix.controls, theta, by)[k])(jnp.asarray(changes)))
    return {
        "values": one.values.tolist(),
        "rise": (one.rise / one.limit).tolist(),
        "matrix_values": [*map(number, parabola)],
        "matrix_rise": (part**2).tolist(),
    }


def _print(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("control", "estimate", "profile", "matrix", "unit", "remark"):
        table.add_column(name, justify="right" if name in ("estimate", "profile", "matrix") else "left")
    for row in rows:
        spans = interval(row["low"], row["high"]), interval(row["matrix_low"], row["matrix_high"])
        unit = "" if row["unit"] == "1" else row["unit"]
        table.add_row(escape(row["control"]), f"{row['estimate']:.5g}", *spans, unit, row["remark"])
    console.print(table)
    console.print("95 % intervals, by the profile and by the Gauss-Newton matrix", highlight=False)
