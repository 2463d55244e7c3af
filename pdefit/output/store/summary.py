"""summary.json: what a run found, in one record."""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pdefit._util.atomic import write_json

Section = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of a run. Of a fit it has the entries up to `memory`, of many recordings `recordings` too.

    A file may come from another version, or from somebody else. What it lacks, or has of another kind, is empty or None.

    **Arguments:**

    - `experiment`, `variant`, `status`: its name, the kind of its data, and how the run ended.
    - `converged`, `loss_initial`, `loss_final`, `iterations`, `gradient_evaluations`: of the optimizer.
    - `time_unit`: of all times.
    - `parameters`, `intervals`, `fields`: estimates by control, about their intervals, and errors of unknown fields.
    - `sigma`, `noise`, `warnings`: standard deviations of the data, estimates of them, and what looks odd.
    - `fit`, `forecast`: chi2, the log-likelihood with its constant, whiteness and held-out frames; scores of the forecast.
    - `discretisation`, `posterior`: shifts by finer steps and cells; uncertainty of unknown fields.
    - `bootstrap`: the number of repetitions, and their intervals over the intervals by the matrix; None without.
    - `likelihood`: the marginal likelihood and what information criteria need, as of `MarginalLikelihood`; None without
      intervals.
    - `starts`: what many starts of the fit reached; None for one.
    - `verdict`, `verdict_reason`: its word, and in one line what it is based on and what to do.
    - `evidence`: the same as data: `reasons` in order of weight, and `next`.
    - `smooth_tangents`: bias by smooth tangents of hard switches.
    - `events`, `certificate`: what happened on the way, and the test of the gradient at the estimate.
    - `seconds`, `adjoint`, `memory`: costs of the run.
    - `members`: of many fits how many there are, and how many have which verdict.
    - `recordings`: of each of many recordings `fit`, `forecast`, `own` and `frames`.
    - `own`, `frames`: of one of many recordings its own numbers, and its number of fitted frames.
    - `dt`, `solver`, `invariant_drift`, `exact_error`, `reference_error`: of a simulation.
    """

    experiment: str = ""
    variant: str = ""
    status: str = ""
    converged: bool | None = None
    loss_initial: float | None = None
    loss_final: float | None = None
    iterations: int | None = None
    gradient_evaluations: int | None = None
    time_unit: str = ""
    parameters: Section = dataclasses.field(default_factory=dict)
    intervals: Section | None = None
    fields: Section = dataclasses.field(default_factory=dict)
    sigma: Section = dataclasses.field(default_factory=dict)
    noise: Section = dataclasses.field(default_factory=dict)
    warnings: list[str] = dataclasses.field(default_factory=list)
    fit: Section = dataclasses.field(default_factory=dict)
    forecast: Section | None = None
    discretisation: Section = dataclasses.field(default_factory=dict)
    posterior: Section | None = None
    bootstrap: Section | None = None
    likelihood: Section | None = None
    starts: Section | None = None
    verdict: str = ""
    verdict_reason: str = ""
    evidence: Section = dataclasses.field(default_factory=dict)
    smooth_tangents: Section | None = None
    events: list[str] = dataclasses.field(default_factory=list)
    certificate: Section | None = None
    seconds: Section = dataclasses.field(default_factory=dict)
    adjoint: Section = dataclasses.field(default_factory=dict)
    memory: Section = dataclasses.field(default_factory=dict)
    recordings: Section = dataclasses.field(default_factory=dict)
    members: Section = dataclasses.field(default_factory=dict)
    own: Section = dataclasses.field(default_factory=dict)
    frames: int | None = None
    dt: float | None = None
    solver: str = ""
    invariant_drift: Section = dataclasses.field(default_factory=dict)
    exact_error: float | None = None
    reference_error: float | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Summary":
        """The record in the content of a file."""
        names = [f.name for f in dataclasses.fields(cls)]
        return cls(**{name: content[name] for name in names if content.get(name) is not None})

    def write(self, path: Path, entries: Collection[str] = ()) -> None:
        """Write summary.json: entries of these names, without any those of a fit."""
        names = [f.name for f in dataclasses.fields(self)]
        names = names[: names.index("recordings")]
        names += [name for name in ("recordings", "members") if getattr(self, name)]
        write_json(path, {name: getattr(self, name) for name in entries or names})
