"""Many independent fits of one command: their table, file and page."""

import dataclasses
import logging
from typing import Any

import jax
import numpy as np
from rich.markup import escape

from pdefit._util.atomic import write_json
from pdefit._util.cache import contents, digest
from pdefit._util.errors import PdefitError
from pdefit._util.memory import available_bytes, in_words
from pdefit.analysis.goodness.judge import judge
from pdefit.analysis.goodness.judge_members import judge_members
from pdefit.cli.config.settings import Job, Settings
from pdefit.cli.run.build_members import MemberExperiment, build_members
from pdefit.cli.run.checkpoints import Checkpoints
from pdefit.cli.run.member_table import MemberTable
from pdefit.cli.run.pictures import Draw, report, tell
from pdefit.cli.run.plan import compared_memory, process_bytes
from pdefit.cli.run.recorded import same_problem
from pdefit.cli.run.starts import STARTS, check_many
from pdefit.cli.runtime import processes
from pdefit.cli.runtime.memory_meter import peak
from pdefit.cli.runtime.process import Stopwatch
from pdefit.cli.runtime.terminal import MembersProgress, say, warn
from pdefit.inverse.certify.certificate import certify
from pdefit.inverse.members.fit_members import AT_ONCE, fit_members, fit_members_again, plan_of
from pdefit.inverse.members.result import MemberFits
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.objective.spread import devices_of_all
from pdefit.output.store.fit_checkpoint import Saved
from pdefit.output.store.members import write_members
from pdefit.output.store.summary import CertificateSection, EvidenceSection, Summary
from pdefit.output.store.tables import write_rows

log = logging.getLogger("pdefit")

# members whose gradient is tested at their estimates
_SAMPLE = 3
# names that a sentence lists, at most
_NAMED = 8
# the part of the free memory that members together may take
_PART = 0.5
# states that a tangent and its stages hold, about
_COPIES = 8


def run_members(job: Job, draw: Draw, saved: Saved | None = None) -> None:
    """Fit many members and write their run directory.

    **Arguments:**

    - `job`, `draw`: the experiment and its run, and the function that starts drawing it.
    - `saved`: the checkpoint from which a stopped fit continues (default: from the start).
    """
    watch, settings, console = Stopwatch(), job.settings, job.console
    exp = build_members(settings)
    members, first = exp.members, exp.first
    # refused before anything is fitted
    plan_of(members, first.stages)
    check_many(members.member(0), first.stages, settings)
    watch.lap("data")
    at_once, planned = _at_once(exp)
    say(
        console,
        f"{first.source.variant}: {members.count} members with {members.theta0.shape[1]} unknowns each, "
        f"{first.frames} times; {min(at_once, members.count)} run together; the process about {in_words(planned)}",
        *first.choices,
    )
    _certify(exp, [0], members.theta0[:1], job, "at the guess of the first member")
    watch.lap("certificates")
    processes.tell(at_once)
    found, words = minimise_members(exp, job, saved, at_once, watch)
    spans = found.intervals(sigma_stated=first.sigma_stated)
    sample = _sample(found)
    certificate = _certify(exp, sample, found.theta[sample], job, f"at the estimates of {len(sample)} members")
    watch.lap("certificates")
    table = MemberTable(exp, found, spans, words)
    write_rows(job.directory / "members.csv", table.rows())
    write_members(job.directory / "members.h5", table.dataset(job.name))
    watch.lap("writing")
    verdict, reason = _verdict(exp, words)
    summary = Summary(
        experiment=job.name,
        variant=first.source.variant,
        status="done",
        converged=bool(found.converged.all()),
        iterations=int(found.evaluations.sum()),
        time_unit=members.first.problem.system.time_unit,
        parameters=table.parameters(),
        members={"count": members.count, "verdicts": {w: words.count(w) for w in dict.fromkeys(words)}},
        certificate=certificate,
        verdict=verdict,
        verdict_reason=reason,
        evidence=EvidenceSection([reason]),
        seconds=watch.seconds,
        memory={"peak_bytes": peak(), "process_bytes": planned},
    )
    summary.write(job.directory / "summary.json")
    if settings.render:
        tell(draw()(), console)
        watch.lap("pictures")
        tell(report(job.directory), console)
    dataclasses.replace(summary, seconds=watch.seconds | {"total": watch.total()}).write(job.directory / "summary.json")
    say(
        console,
        f"seconds: {watch}",
        compared_memory(planned, peak()),
        f"members.csv, members.h5 and report.html are in {job.directory}",
    )
    console.print(f"[bold]{verdict}[/]: {escape(reason)}", highlight=False, soft_wrap=True)
    if certificate is not None and not certificate.passed and settings.certificate != "warn":
        raise PdefitError(f"The gradient fails its certificate: {certificate.reason} (certificate=warn goes on)")


def minimise_members(
    exp: MemberExperiment, job: Job, saved: Saved | None, at_once: int, watch: Stopwatch
) -> tuple[MemberFits, list[str]]:
    """Fits of all members, also from other starts, and the word of the verdict on each.

    Processes that share the members make the same call. Only the leading process has words.

    **Arguments:**

    - `exp`, `job`, `saved`: as in `run_members`.
    - `at_once`: the largest number of members that run together, set by the leading process's memory.
    - `watch`: the stopwatch of the parts.
    """
    with processes.together():
        found = exp.with_known(_fitted(exp, at_once, job, saved))
        watch.lap("fit")
        words = [] if processes.follows() else [one.verdict.word for one in judge(found)]
        watch.lap("verdict")
        if job.settings.starts is not None:
            found, words = _from_starts(exp, found, words, at_once, job)
            watch.lap("starts")
    return found, words


def _devices(settings: Settings) -> list[Any]:
    """Devices that share members, of all processes that work on them."""
    return devices_of_all(settings.cores) if processes.joined() else settings.shared_by


def _at_once(exp: MemberExperiment) -> tuple[int, int]:
    """Number of members that run together, limited by memory and by their benefit; and the memory of the process."""
    functional = exp.members.first
    state = sum(x.nbytes for x in jax.tree.leaves(functional.problem.y0)) * functional.groups
    one = _COPIES * state * (1 + functional.tangents) + sum(x.nbytes for x in jax.tree.leaves(functional.observations))
    room = available_bytes() * _PART
    if one > room:
        raise PdefitError(f"One member takes about {in_words(one)}, more than there is; fit it by itself")
    count = int(min(AT_ONCE, max(1, room // one)))
    return count, process_bytes(min(count, exp.members.count) * one)


def _fitted(exp: MemberExperiment, at_once: int, job: Job, saved: Saved | None) -> MemberFits:
    """Fit from the start, or from a checkpoint, and save the state every few seconds."""
    settings = job.settings
    hashes = fingerprint(exp.members.first) | {"members": _hash(exp)}
    if saved is not None:
        same_problem(saved.origin["hashes"], hashes, job.directory, job.console)
    checkpoints = Checkpoints.of(job, "state", hashes=hashes)
    with MembersProgress(job.console) as bar:
        return fit_members(
            exp.members,
            exp.first.stages,
            at_once=at_once,
            devices=_devices(settings),
            callback=checkpoints.saving(bar, "members"),
            resume=None if saved is None else saved.state,
        )


def _from_starts(
    exp: MemberExperiment, found: MemberFits, words: list[str], at_once: int, job: Job
) -> tuple[MemberFits, list[str]]:
    """The fits, with further starts for members that noise cannot explain, or for all, and their words."""
    settings = job.settings
    assert settings.starts is not None
    if processes.follows():
        some = processes.heard()
    else:
        some = exp.other_starts(words)
        processes.tell(some)
    which, count = np.array(some, int), found.loss.size
    if not which.size:
        return found, words
    say(job.console, f"starts: {which.size} of {count} members are fitted from {settings.starts.count - 1} others")
    # an extended run may leave other members without a minimum
    checkpoints = Checkpoints.of(job, STARTS, which.tolist())
    with MembersProgress(job.console) as bar:
        better = fit_members_again(
            exp.members,
            found,
            which,
            settings.starts.points,
            exp.first.stages,
            seed=settings.seed,
            at_once=at_once,
            devices=_devices(settings),
            callback=checkpoints.saving(bar, "starts"),
            resume=checkpoints.load(),
        )
    moved = np.flatnonzero(better.start).tolist()
    say(job.console, f"starts: {len(moved)} of them ended lower from another start")
    if not words:
        return better, words
    new = dict(zip(moved, judge_members(better, better.known, moved), strict=True))
    return better, [new[e].verdict.word if e in new else word for e, word in enumerate(words)]


def _hash(exp: MemberExperiment) -> str:
    """Hash of the data and starts of all members."""
    return digest(contents([exp.members.theta0, *jax.tree.leaves(exp.members.stack.own)]))


def _certify(exp: MemberExperiment, index: list[int], theta: Any, job: Job, where: str) -> CertificateSection | None:
    """Test the gradient of some members; a failure at the guess ends the run."""
    if job.settings.certificate == "end" and "guess" in where:
        return None
    found = [certify(exp.members.member(e), jax.device_put(x)) for e, x in zip(index, np.array(theta), strict=True)]
    failed = [c for c in found if not c.passed]
    reason = failed[0].reason if failed else found[0].reason
    record = CertificateSection(passed=not failed, members=[exp.names[e] for e in index], reason=reason)
    write_json(job.directory / "certificate.json", record)
    if not failed:
        say(job.console, f"gradient certified {where} ({sum(c.seconds for c in found):.1f} s with compilation)")
    elif job.settings.certificate == "warn" or "guess" not in where:
        warn(job.console, f"The gradient fails its certificate {where}: {reason}")
    else:
        raise PdefitError(
            f"The gradient fails its certificate {where}: {reason} (certificate=warn goes on all the same)"
        )
    return record


def _sample(found: MemberFits) -> list[int]:
    """Members whose gradients are tested: those with the best, the median and the worst J."""
    order = np.argsort(np.where(np.isfinite(found.loss), found.loss, np.inf))
    order = order[: max(1, int(np.isfinite(found.loss).sum()))]
    return [int(order[i]) for i in sorted({0, order.size // 2, order.size - 1})][:_SAMPLE]


def _verdict(exp: MemberExperiment, words: list[str]) -> tuple[str, str]:
    """The most frequent verdict, and the number of members with each verdict."""
    counts = {w: words.count(w) for w in sorted({*words}, key=words.count, reverse=True)}
    parts = []
    for word, count in counts.items():
        named = [name for name, w in zip(exp.names, words, strict=True) if w == word]
        some = "" if len(parts) == 0 else f" ({', '.join(named[:_NAMED])}{', ...' if len(named) > _NAMED else ''})"
        parts.append(f"{count} of {len(words)} {word}{some}")
    return next(iter(counts)), "; ".join(parts)
