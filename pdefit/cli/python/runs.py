"""Runs in Python: the content of a run directory as tables, arrays and objects."""

import base64
import functools
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas
import xarray

from pdefit._util.errors import PdefitError, sentence
from pdefit._util.html import escape, interval, table
from pdefit._util.trees import demand_float64
from pdefit.analysis.goodness.evidence import Verdict
from pdefit.cli.config.compose import apart
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.recorded import at_best, open_run, same_problem
from pdefit.cli.runtime.console import Console
from pdefit.cli.runtime.equations import using
from pdefit.data.readers.fields import lazy_fields
from pdefit.inverse.objective.compiled import value_of
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.problem.problem import Problem
from pdefit.output.store.history import read_history
from pdefit.output.store.runs import RunFiles, find_runs
from pdefit.output.store.tables import COLUMNS, ParameterRow, in_lines, read_parameters, span

# figures that stand for a run, the first that exists; and the size in bytes up to which it is embedded
_MAIN = ("fields", "traces", "parameters", "convergence")
_LARGEST_FIGURE = 2_000_000
# relative difference of two losses of the same equations and data, with other versions and flags, in float32 too
_SAME_LOSS = 1e-3
# jobs that an error names, and rows that a notebook shows, at most
_MOST_JOBS, _MOST_ROWS = 12, 40


def load_run(path: str | os.PathLike[str], equations: str | os.PathLike[str] | None = None) -> "Run":
    """The run in a directory of `pdefit`: finished, stopped, killed or still running.

    Nothing in the directory is executed, and links out of it are not followed.

    **Arguments:**

    - `path`: the directory of the run.
    - `equations`: the equation file of the run, which `Run.problem` executes; None for installed equations.

    **Errors:** PdefitError if the directory holds no run, or several.
    """
    folder = Path(path)
    runs = find_runs(folder)
    if len(runs) > 1:
        named = [str(run.relative_to(folder)) for run in runs]
        more = f" and {len(named) - _MOST_JOBS} more" if len(named) > _MOST_JOBS else ""
        raise PdefitError(
            f"'{folder}' holds {len(runs)} runs; load one of them: {', '.join(named[:_MOST_JOBS])}{more}, e.g. "
            f"pdefit.load_run({str(runs[0])!r})"
        )
    run = Run(runs[0], None if equations is None else Path(equations))
    run._files.refuse_old()
    return run


class Run:
    """Results of a run, read from its directory. Each part is read on first use, and kept.

    A missing part is an empty table, or an error with its remedy.

    **Arguments:**

    - `directory`: the directory of the run.
    - `equations`: the file of its equations, if they are not installed.
    """

    def __init__(self, directory: Path, equations: Path | None = None):
        self.directory, self._equations = directory, equations
        self._files = RunFiles(directory)

    @property
    def state(self) -> str:
        """State of the run in words: done, running, or interrupted, failed or killed with the reason."""
        return self._files.state

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """Content of summary.json; empty if it does not exist yet."""
        return self._files.as_written("summary.json")

    @functools.cached_property
    def parameters(self) -> pandas.DataFrame:
        """Table of parameters.csv by control: guess, estimate, unit, interval, truth; empty if it does not exist yet.

        Units are in the column `unit`. Unknown numbers are NaN.
        """
        return self._table("parameters.csv")

    @functools.cached_property
    def derived(self) -> pandas.DataFrame:
        """Table of derived.csv by name, with the columns of `parameters`; empty without derived quantities."""
        return self._table("derived.csv")

    def _table(self, name: str) -> pandas.DataFrame:
        numbers = {n: "float64" for n, kind in COLUMNS.items() if kind in (float, float | None)}
        return pandas.DataFrame(self._rows(name), columns=list(COLUMNS)).astype(numbers).set_index("control")

    def _rows(self, name: str) -> list[ParameterRow]:
        return read_parameters(self._files.path(name)) if self._files.has(name) else []

    @functools.cached_property
    def history(self) -> pandas.DataFrame:
        """Every evaluation of the fit by its number: stage, loss, gradient norm, seconds, and the tabulated controls."""
        if not self._files.has("history.h5"):
            return pandas.DataFrame(index=pandas.Index([], name="iteration"))
        return pandas.DataFrame(read_history(self._files.path("history.h5"))).set_index("iteration")

    @functools.cached_property
    def verdict(self) -> Verdict:
        """The verdict on the fit."""
        word, reason = self._files.summary.verdict, self._files.summary.verdict_reason
        if not (word and reason):
            raise PdefitError(f"'{self.directory}' has no verdict ({self.state}); {self._remedy}")
        evidence = self._files.summary.evidence
        # a file of another version has the line alone
        return Verdict(word, tuple(evidence.reasons or [reason]), evidence.next)

    @functools.cached_property
    def fields(self) -> xarray.Dataset:
        """Complete frames of fields.h5, observed, predicted and true; values are read when used."""
        if not self._files.has("fields.h5"):
            raise PdefitError(f"'{self.directory}' has no fields.h5 ({self.state}); {self._remedy}")
        return lazy_fields(self._files.path("fields.h5"))

    @property
    def figures(self) -> dict[str, Path]:
        """Paths of the figures by name: `fields`, `parameters`, `convergence` and more."""
        found = sorted((self.directory / "figures").glob("[!.]*.*"))
        return {path.stem: path for path in found if self._files.has(f"figures/{path.name}")}

    @functools.cached_property
    def problem(self) -> Problem:
        """The problem at the best point so far: equations, initial state and instrument.

        It is built from the recorded configuration with its observations, then set to the saved point, which takes
        seconds. Equations and data must be unchanged since the run.
        """
        demand_float64()
        if self._files.verb not in ("fit", "resume"):
            raise PdefitError(f"'{self.directory}' is a run of pdefit {self._files.verb}, which estimates nothing")
        with apart(), using(self._equations):
            job, saved = open_run([str(self.directory)], "certify", Console())
            if saved is None:
                raise PdefitError(f"'{self.directory}' has no estimate yet ({self.state}); {self._remedy}")
            exp = build_experiment(job.settings)
        functional, theta = at_best(exp, saved)
        same_problem(
            saved.origin["hashes"],
            fingerprint(exp.functional),
            self.directory,
            same_loss=lambda: self._has_loss(float(value_of(functional, theta))),
        )
        return jax.block_until_ready(functional.at(theta))

    def _has_loss(self, value: float) -> bool:
        loss = self._files.summary.loss_final
        return loss is not None and bool(np.isclose(value, loss, _SAME_LOSS, 0.0))

    @property
    def _remedy(self) -> str:
        return f"pdefit resume {self.directory} goes on" if self._files.verb == "fit" else "run its command again"

    def __repr__(self) -> str:
        return sentence(f"Run({str(self.directory)!r}): {self._headline()}")

    def _headline(self) -> str:
        try:
            return str(self.verdict)
        except PdefitError:
            return self.state

    def _repr_html_(self) -> str:
        """Verdict, estimates with their intervals and the main figure, for notebooks."""
        summary = self._files.summary
        name = summary.experiment or self.directory.name
        lines = [f"{name}: {self._headline()}"]
        try:
            found = in_lines(self._rows("parameters.csv") + self._rows("derived.csv"))
        except PdefitError as error:
            found = []
            lines.append(str(error))
        rows = list[tuple[object, ...]]()
        for row, many in found[:_MOST_ROWS]:
            within = interval(row.ci95_low, row.ci95_high)
            doubted = within and row.interval_trusted is False
            cells = span([one.estimate for one in many]), f"({within})" if doubted else within, row.truth
            rows.append((row.control, row.unit, *cells))
        lines += self._files.wrong
        if summary.loss_final is not None and summary.iterations is not None:
            lines.append(f"loss {summary.loss_final:.5g} after {summary.iterations} iterations")
        if len(found) > _MOST_ROWS:
            lines.append(f"{len(found) - _MOST_ROWS} more rows in parameters")
        return table(("parameter", "unit", "estimate", "95 % interval", "truth"), rows, lines) + self._picture()

    def _picture(self) -> str:
        """The main figure, embedded in the page."""
        figures = self.figures
        for stem in _MAIN:
            path = next((p for n, p in figures.items() if n.startswith(stem) and p.suffix == ".png"), None)
            if path is not None and path.stat().st_size <= _LARGEST_FIGURE:
                content = base64.b64encode(path.read_bytes()).decode("ascii")
                return f'<img alt="{escape(path.stem)}" src="data:image/png;base64,{content}">'
        return ""
