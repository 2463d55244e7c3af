"""What a person sees while something long runs."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pdefit.inverse import fit as fitting


class FitProgress:
    """A bar with loss, rate and time left; on anything but a terminal, a plain line every few seconds."""

    def __init__(self, console: Console, every: float = 5.0):
        self._bar: Progress | None = None
        self._task: Any = None
        self._stage, self._before = -1, 0
        self._begin = self._printed = time.perf_counter()
        self._every = every
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
                TextColumn("loss {task.fields[loss]:.6g}  {task.fields[rate]:.3g}/s"),
                TimeElapsedColumn(), TimeRemainingColumn(), console=console,
            )  # fmt: skip

    def __enter__(self) -> "FitProgress":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, p: fitting.Progress) -> None:
        new_stage = p.stage != self._stage
        if new_stage:
            self._stage, self._before = p.stage, p.iteration - len(p.records)
            self._begin = time.perf_counter()
        done = p.iteration - self._before
        rate = done / max(time.perf_counter() - self._begin + p.records[0].seconds * new_stage, 1e-9)
        title = f"stage {p.stage + 1}/{p.stages}"
        if self._bar:
            if new_stage:
                self._task = self._bar.add_task(title, total=p.max_iterations, loss=p.loss, rate=rate)
            self._bar.update(self._task, completed=done, loss=p.loss, rate=rate)
        elif new_stage or time.perf_counter() - self._printed > self._every:
            self._printed = time.perf_counter()
            print(f"{title}  iteration {p.iteration}  loss {p.loss:.6g}  {rate:.3g}/s", file=sys.stderr, flush=True)


class RunsProgress:
    """A bar over runs that are known in number; on anything but a terminal, a plain line every few seconds."""

    def __init__(self, console: Console, every: float = 5.0):
        self._bar: Progress | None = None
        self._task: Any = None
        self._every, self._printed = every, time.perf_counter()
        if console.is_terminal:
            columns = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}")
            self._bar = Progress(BarColumn(), *columns, TimeRemainingColumn(), console=console, transient=True)

    def __enter__(self) -> "RunsProgress":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, done: int, of: int, what: str) -> None:
        """So many are done, of how many, and what comes next."""
        if self._bar:
            self._task = self._bar.add_task(what, total=of) if self._task is None else self._task
            self._bar.update(self._task, completed=done, description=what)
        elif time.perf_counter() - self._printed > self._every:
            self._printed = time.perf_counter()
            print(f"{done}/{of}  {what}", file=sys.stderr, flush=True)
