"""Bootstrap of a fit: its intervals beside those of the matrix, in a table of their own."""

from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.html import interval
from pdefit.cli.config.settings import Job
from pdefit.cli.runtime.terminal import MembersProgress, say, warn
from pdefit.inverse.fit.fit import Fit
from pdefit.inverse.members.bootstrap import bootstrap
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.output.store.tables import number, write_rows


def bootstrap_summary(found: Fit, matrix: Intervals | None, job: Job) -> dict[str, Any] | None:
    """The section `bootstrap` of summary.json; None without one. It writes bootstrap.csv, a row for each number.

    **Arguments:**

    - `found`, `matrix`: the fit, and its intervals by the Gauss-Newton matrix.
    - `job`: its run.
    """
    settings, functional = job.settings, found.functional
    if settings.uncertainty is None or not isinstance(functional, Functional | Recordings):
        return None
    with MembersProgress(job.console) as bar:
        try:
            made = bootstrap(
                functional,
                found.theta,
                settings.uncertainty,
                seed=settings.seed,
                devices=settings.shared_by,
                callback=lambda progress: bar(progress, "bootstrap"),
            )
        except PdefitError as error:
            warn(job.console, str(error), "no bootstrap:")
            return None
    # the first numbers of a table, of recordings those that all share
    place = {name: k for k, name in enumerate(functional.controls.tabulated.names())}
    chosen = [i for i, name in enumerate(made.names) if name in place]
    at = [place[made.names[i]] for i in chosen]
    spread, rows = made.values.std(axis=0, ddof=1), []
    for i, k in zip(chosen, at, strict=True):
        name = made.names[i]
        row = {"control": name, "repetitions": len(made.theta), "standard_deviation": float(spread[i])}
        row |= {"ci95_low": number(made.low[i]), "ci95_high": number(made.high[i])}
        if matrix is not None:
            row |= {"matrix_ci95_low": number(matrix.low[k]), "matrix_ci95_high": number(matrix.high[k])}
        rows.append(row)
    write_rows(job.directory / "bootstrap.csv", rows)
    spans = (interval(r["ci95_low"], r["ci95_high"]) or "at its bound" for r in rows[:12])
    ends = ", ".join(f"{r['control']} {span}" for r, span in zip(rows, spans, strict=False))
    failed = f"; {made.failed} ended in no minimum" if made.failed else ""
    say(job.console, f"bootstrap ({settings.uncertainty.kind}, {len(made.theta)} repetitions{failed}): {ends}")
    ratio = None
    if matrix is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = ((made.high - made.low)[chosen] / (matrix.high - matrix.low)[at]).tolist()
    return {
        "kind": settings.uncertainty.kind,
        "repetitions": len(made.theta),
        "failed": made.failed,
        "width_over_matrix": ratio,
    }
