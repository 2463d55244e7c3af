"""Bootstrap of a fit: its intervals in addition to the Gauss-Newton intervals, in a separate table."""

import dataclasses
from typing import Any

from pdefit._util.errors import PdefitError
from pdefit._util.html import interval
from pdefit.cli.config.settings import Job
from pdefit.cli.run.write import write
from pdefit.cli.runtime.terminal import MembersProgress, say, warn
from pdefit.inverse.fit.fit import Fit
from pdefit.inverse.members.bootstrap import bootstrap
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.uncertainty.intervals import Intervals
from pdefit.output.store.tables import number


def bootstrap_summary(found: Fit, matrix: Intervals | None, job: Job) -> dict[str, Any] | None:
    """The section `bootstrap` of summary.json; None without one. Writes bootstrap.csv, one row for each scalar.

    **Arguments:**

    - `found`, `matrix`: the fit, and its intervals from the Gauss-Newton matrix.
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
    made = dataclasses.replace(made, matrix=matrix)
    write(made, job, ("bootstrap.csv",))
    ends = ", ".join(
        f"{row['control']} {interval(number(row['ci95_low']), number(row['ci95_high'])) or 'at its bound'}"
        for row in made.rows()[:12]
    )
    failed = f"; {made.failed} ended in no minimum" if made.failed else ""
    say(job.console, f"bootstrap ({made.kind}, {len(made.theta)} repetitions{failed}): {ends}")
    return made.record()
