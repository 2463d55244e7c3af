"""Messages and progress on the terminal."""

import logging
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from pdefit._util.errors import printable
from pdefit.inverse.fit import fit as fitting
from pdefit.inverse.members.member_state import MemberProgress

log = logging.getLogger("pdefit")

# seconds between two saved states of many fits
_BETWEEN = 2.0


def say(console: Console, *lines: str) -> None:
    """Write non-empty lines into the log and on the terminal."""
    for line in filter(None, lines):
        log.info(line)
        console.print(escape(line), highlight=False)


def warn(console: Console, line: str, heading: str = "") -> None:
    """Write a warning into the log and on the terminal.

    **Arguments:** `heading`: the text before the line on the terminal; empty for none.
    """
    log.warning(line)
    told = f"[yellow]{heading}[/] {escape(line)}" if heading else f"[yellow]{escape(line)}[/]"
    console.print(told, highlight=False)


def show_table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without rules; its cells may hold markup.

    **Arguments:**

    - `columns`: headings. Cells below a heading that begins with ">" are right-aligned and not wrapped.
    - `rows`: the cells.
    """
    table = Table(box=None, header_style="bold")
    for name in columns:
        numbers = name.startswith(">")
        table.add_column(name.removeprefix(">"), justify="right" if numbers else "left", no_wrap=numbers)
    for row in rows:
        table.add_row(*row)
    console.print(table)


class _BarOrLines:
    """A progress bar on a terminal; elsewhere a plain line every few seconds."""

    def __init__(self, console: Console, every: float, *columns: ProgressColumn, transient: bool = False):
        self._bar = Progress(*columns, console=console, transient=transient) if console.is_terminal else None
        self._task: Any = None
        self._every, self._printed = every, time.perf_counter()

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def _print(self, line: str, at_once: bool = False) -> None:
        """Print a line, unless one was printed just before."""
        if at_once or time.perf_counter() - self._printed > self._every:
            self._printed = time.perf_counter()
            print(printable(line), file=sys.stderr, flush=True)


class FitProgress(_BarOrLines):
    """Progress of a fit: loss, rate and time left. The first iteration of a stage always prints a line.

    **Arguments:**

    - `console`: the terminal for the progress bar, if it is one.
    - `every`: seconds between lines if there is no bar.
    """

    def __init__(self, console: Console, every: float = 5.0):
        super().__init__(
            console, every,
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]:.6g}  {task.fields[rate]:.3g}/s"),
            TimeElapsedColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        self._stage, self._before, self._begin = -1, 0, time.perf_counter()

    def __call__(self, p: fitting.Progress) -> None:
        new_stage = p.stage != self._stage
        if new_stage:
            self._stage, self._before = p.stage, p.iteration - len(p.records)
            self._begin = time.perf_counter()
        done = p.iteration - self._before
        rate = done / max(time.perf_counter() - self._begin + sum(r.seconds for r in p.records[:1]) * new_stage, 1e-9)
        title = f"stage {p.stage + 1}/{p.stages}"
        if self._bar:
            if new_stage:
                self._task = self._bar.add_task(title, total=p.max_iterations, loss=p.loss, rate=rate)
            self._bar.update(self._task, completed=done, loss=p.loss, rate=rate)
        else:
            self._print(f"{title}  iteration {p.iteration}  loss {p.loss:.6g}  {rate:.3g}/s", at_once=new_stage)


class MembersProgress(_BarOrLines):
    """Progress of many fits, with a clock for saving their state.

    **Arguments:** as in `FitProgress`.
    """

    def __init__(self, console: Console, every: float = 5.0):
        columns = BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}")
        super().__init__(console, every, *columns, TimeElapsedColumn())
        self._saved, self._stage = time.perf_counter(), -1

    def save_now(self) -> bool:
        """True if the state was last saved some seconds ago; then a new interval begins."""
        now, before = time.perf_counter(), self._saved
        self._saved = now if now - before > _BETWEEN else before
        return now - before > _BETWEEN

    def __call__(self, p: MemberProgress, what: str) -> None:
        title = f"{what}, stage {p.stage + 1}/{p.stages}, {p.evaluations} evaluations"
        new = p.stage != self._stage
        if self._bar:
            self._task = self._bar.add_task(title, total=p.members) if new else self._task
            self._bar.update(self._task, completed=p.finished, description=title)
        else:
            self._print(f"{p.finished}/{p.members} {title}", at_once=new)
        self._stage = p.stage


class RunsProgress(_BarOrLines):
    """Progress of a known number of runs.

    **Arguments:** as in `FitProgress`.
    """

    def __init__(self, console: Console, every: float = 5.0):
        columns = BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}")
        super().__init__(console, every, *columns, TimeRemainingColumn(), transient=True)

    def __call__(self, done: int, of: int, what: str) -> None:
        """Show that `done` runs out of `of` are finished, and the name of the next run."""
        if self._bar:
            self._task = self._bar.add_task(what, total=of) if self._task is None else self._task
            self._bar.update(self._task, completed=done, description=what)
        else:
            self._print(f"{done}/{of}  {what}")
