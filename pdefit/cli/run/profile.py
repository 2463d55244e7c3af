"""Profiles of scalars of a run, as `pdefit profile`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from rich.console import Console
from rich.markup import escape

from pdefit._util.cache import contents, digest
from pdefit._util.html import interval
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.checkpoints import Checkpoints
from pdefit.cli.run.recorded import at_best, open_fit
from pdefit.cli.run.write import write
from pdefit.cli.runtime.terminal import MembersProgress, say, show_table, warn
from pdefit.inverse.fit.refused_combinations import refuse
from pdefit.inverse.fit.reweight import ByPrediction
from pdefit.inverse.members.joint_profile import JointProfile, joint_profile
from pdefit.inverse.members.profile import check_profile, profiles
from pdefit.output.pictures.profiles import JOINT_PROFILES, PROFILES
from pdefit.output.store.tables import number

# folder of a run in which profiles under way are saved
_FOLDER = "profiles"


def run_profile(arguments: list[str], console: Console) -> None:
    """Compute the profiles of named scalars after a run, and write profiles.csv, json and a figure."""
    names = [word for word in arguments[1:] if "=" not in word]
    pairs = [word.split(",") for word in names if "," in word]
    job, saved = open_fit([word for word in arguments if word not in names], "profile", console)
    names = [word for word in names if "," not in word]
    refuse(job.settings.choices("profile"))
    exp = build_experiment(job.settings)
    objective, theta = at_best(exp, saved)
    check_profile(objective)
    theta = jnp.asarray(theta)
    if any(isinstance(stage.reweight, ByPrediction) for stage in exp.stages):
        warn(
            console,
            "the noise follows the prediction or is estimated, and profiles hold its size at the estimate: far from it they "
            "lean to the wrong side, and intervals by the matrix are nearer to the likelihood",
        )

    def followed(follow: Callable[..., Any], of: list[str], key: str) -> Any:
        # a fit that went on since has another estimate
        checkpoints = Checkpoints.of(job, _FOLDER, {key: of, "estimate": digest(contents([theta]))})
        with MembersProgress(console) as bar:
            return follow(
                objective,
                theta,
                of or None,
                sigma_stated=exp.sigma_stated,
                devices=job.settings.shared_by,
                callback=checkpoints.saving(bar, "profiles"),
                resume=checkpoints.load(),
            )

    if pairs:
        joint = _Pairs([followed(joint_profile, pair, "pair") for pair in pairs])
        write(joint, job, ("joint_profiles.csv", "joint_profiles.json", "figures/joint_profiles.png"), JOINT_PROFILES)
        if not names:
            return
    found = followed(profiles, names, "names")
    _print(found.record()["profiles"], console)
    if lower := [one.control for one in found if one.is_lower]:
        warn(
            console, f"J is lower elsewhere ({', '.join(lower)}): the fit has not reached its minimum; pdefit resume it"
        )
    write(found, job, ("profiles.csv", "profiles.json", "figures/profiles.png"), PROFILES)


@dataclasses.dataclass(frozen=True)
class _Pairs:
    """Joint profiles of pairs, in one table and one figure."""

    found: list[JointProfile]

    def rows(self) -> list[dict[str, Any]]:
        return [row for one in self.found for row in one.rows()]

    def record(self) -> dict[str, Any]:
        return {"profiles": [entry for one in self.found for entry in one.record()["profiles"]]}


def _print(found: list[dict[str, Any]], console: Console) -> None:
    rows = []
    for one in found:
        spans = interval(one["low"], one["high"]), interval(number(one["matrix_low"]), number(one["matrix_high"]))
        unit = "" if one["unit"] == "1" else one["unit"]
        rows.append((escape(one["control"]), f"{one['estimate']:.5g}", *spans, unit, one["remark"]))
    show_table(console, ("control", ">estimate", ">profile", ">matrix", "unit", "remark"), rows)
    say(console, "95 % intervals, by the profile and by the Gauss-Newton matrix")
