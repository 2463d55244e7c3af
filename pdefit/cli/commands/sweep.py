"""pdefit sweep status, collect and report: the jobs of a sweep as a status, a table and a page."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from pdefit._util.errors import sentence, unknown
from pdefit.cli.config.command_line import boolean, named_directory, options_among
from pdefit.cli.sweeps.jobs import OPEN, RUNNING, WAITING, Job, jobs_of, tally
from pdefit.cli.sweeps.record import Sweep, read_sweep

_ACTIONS = ("status", "resume", "collect", "report")
_COLOURS = {"done": "green", RUNNING: "cyan", WAITING: "dim"}
# seconds between two looks
_EVERY = 2.0


def run_sweep(arguments: list[str], console: Console) -> None:
    """Show, or tabulate, the jobs of a sweep.

    **Arguments:**

    - `arguments`: the action, the directory of the sweep, and `watch=true` to repeat the status.
    """
    action, *rest = arguments or [""]
    if action not in _ACTIONS:
        raise unknown("action of sweep", action, _ACTIONS)
    chosen, rest = options_among(rest, {"watch": "false"} if action == "status" else {})
    alone = rest if len(rest) == 1 else []
    sweep = read_sweep(named_directory(alone, f"sweep {action}", "a sweep", "runs/...-sweep"))
    if action == "status":
        _status(sweep, boolean(chosen["watch"], "watch"), console)
        return
    jobs = jobs_of(sweep)
    if action == "collect":
        _collect(sweep, jobs, console)
    else:
        from pdefit.cli.sweeps.table import write_page

        console.print(str(write_page(sweep.directory, jobs)), highlight=False, soft_wrap=True)


def _status(sweep: Sweep, watch: bool, console: Console) -> None:
    jobs = jobs_of(sweep)
    if not (watch and console.is_terminal):
        console.print(_table(jobs))
    else:
        with Live(_table(jobs), console=console, refresh_per_second=4) as live:
            while any(job.state in (RUNNING, WAITING) for job in jobs):
                time.sleep(_EVERY)
                jobs = jobs_of(sweep)
                live.update(_table(jobs))
    left = any(job.state in OPEN for job in jobs)
    console.print(
        f"{tally(jobs)}; pdefit sweep {'resume' if left else 'collect'} {escape(str(sweep.directory))}", soft_wrap=True
    )


def _table(jobs: list[Job]) -> Group:
    """A row for each job, and the reasons why jobs failed or were stopped."""
    table = Table(box=None, header_style="bold")
    for column in ("job", "state", "iterations", "loss", "seconds", "last sign"):
        table.add_column(column, justify="left" if column in ("job", "state") else "right")
    for job in jobs:
        seconds, beat = job.files.summary.seconds.get("total"), job.heartbeat
        cells = (
            job.name,
            job.state,
            "" if job.iterations is None else str(job.iterations),
            "" if job.loss is None else f"{job.loss:.6g}",
            f"{seconds:.1f}" if isinstance(seconds, float) else "",
            "" if beat is None else f"{beat:.0f} s ago",
        )
        table.add_row(*map(escape, cells), style=_COLOURS.get(job.state, "red"))
    told = [f"{escape(job.name)}: {escape(sentence(job.reason))}" for job in jobs if job.state in OPEN and job.reason]
    return Group(table, *told)


def _collect(sweep: Sweep, jobs: list[Job], console: Console) -> None:
    from pdefit.cli.sweeps.table import TIMINGS, best_of, write_table

    for path in write_table(sweep.directory, jobs):
        console.print(str(path), highlight=False, soft_wrap=True)
    best = best_of(jobs)
    if best is not None:
        console.print(
            f"smallest loss {best.loss:.6g}: {escape(str(best.files.directory))}", highlight=False, soft_wrap=True
        )
    console.print(
        f"{tally(jobs)}; all columns but {', '.join(TIMINGS)} are the same when the sweep is repeated", soft_wrap=True
    )
