"""summary.json: the results of a run in one record."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdefit._util.atomic import write_json
from pdefit.data.fit_section import FitSection, optional

Section = dict[str, Any]
_Number = float | None


def _empty() -> Any:
    return dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IntervalsSection:
    """Facts about all intervals: their origin, and whether they are trusted."""

    method: str = ""
    degrees_of_freedom: int | None = None
    not_identifiable: list[str] = dataclasses.field(default_factory=list)
    trusted: bool | None = None
    doubt: str = ""
    counting_correlation: Mapping[str, Sequence[_Number]] = _empty()
    effective_values: _Number = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelihoodSection:
    """The marginal likelihood and the quantities for information criteria, as in `MarginalLikelihood`."""

    values: int | None = None
    chi2: _Number = None
    log_sigma: _Number = None
    unknowns: int | None = None
    effective_unknowns: _Number = None
    log_evidence: _Number = None
    log_evidence_noise: _Number = None
    prior: Mapping[str, str] = _empty()
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Baseline:
    """The baseline forecast, for comparison with the model's."""

    name: str = ""
    relative_l2_at_end: _Number = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForecastSection:
    """Scores of the forecast, in the time unit of the system; missing `peak_time` and `lyapunov` are None."""

    horizon: _Number = None
    start: _Number = None
    relative_l2_at_end: _Number = None
    valid_time: _Number = None
    valid_to_end: bool | None = None
    valid_below: _Number = None
    unit: str = ""
    baseline: Baseline = Baseline()
    baselines: Mapping[str, _Number] = _empty()
    better: str | None = None
    peak_time: Section | None = None
    lyapunov: Section | None = None
    per_label: Mapping[str, Mapping[str, _Number]] = _empty()


@dataclasses.dataclass(frozen=True)
class EvidenceSection:
    """A verdict as data: the reasons in order of weight, and the next step."""

    reasons: list[str] = dataclasses.field(default_factory=list)
    next: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CertificateSection:
    """The test of the gradient at the estimate, or at the estimates of some members."""

    passed: bool | None = None
    scope: Section | None = optional()
    members: list[str] | None = optional()
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordingSection:
    """One of many recordings: its residuals, forecast, own scalars, and number of fitted frames."""

    fit: FitSection = FitSection()
    forecast: ForecastSection | None = None
    own: Mapping[str, _Number] = _empty()
    frames: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Results of a run. A fit has the entries up to `memory`, many recordings also `recordings`, and a fit
    with derived quantities `derived`.

    A file may come from another version, or from a stranger. Entries that are missing or of a wrong type are empty or
    None.

    **Arguments:**

    - `experiment`, `variant`, `status`: the name, the kind of its data, and how the run ended.
    - `converged`, `loss_initial`, `loss_final`, `iterations`, `gradient_evaluations`: results of the optimizer.
    - `time_unit`: the time unit of all times.
    - `parameters`, `intervals`, `fields`: estimates by control, facts about their intervals, and errors of unknown
      fields.
    - `sigma`, `noise`, `warnings`: standard deviations of the data, estimates of them, and suspicious values.
    - `fit`, `forecast`: chi2, the log-likelihood with its constant, whiteness and held-out frames; scores of the forecast.
    - `discretisation`, `posterior`: shifts by finer steps and cells; uncertainty of unknown fields.
    - `bootstrap`: the number of repetitions, and the ratio of their intervals to the matrix intervals; None without.
    - `likelihood`: the marginal likelihood and the quantities for information criteria, as in `MarginalLikelihood`;
      None without intervals.
    - `starts`: the results of several starts of the fit; None for one.
    - `verdict`, `verdict_reason`: the word of the verdict, and one line with its reasons and the next step.
    - `evidence`: the same as data: `reasons` in order of weight, and `next`.
    - `smooth_tangents`: the bias from smooth tangents of hard switches.
    - `events`, `certificate`: events during the fit, and the test of the gradient at the estimate.
    - `seconds`, `adjoint`, `memory`: costs of the run.
    - `derived`: derived quantities by name, each with its formula, estimate and interval.
    - `members`: for many fits their number, and the number of fits with each verdict.
    - `recordings`: `fit`, `forecast`, `own` and `frames` of each of many recordings.
    - `own`, `frames`: for one of many recordings its own scalars, and its number of fitted frames.
    - `dt`, `solver`, `invariant_drift`, `exact_error`, `reference_error`: results of a simulation.
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
    parameters: Section = _empty()
    intervals: IntervalsSection | None = None
    fields: Section = _empty()
    sigma: Mapping[str, Sequence[_Number]] = _empty()
    noise: Section = _empty()
    warnings: list[str] = dataclasses.field(default_factory=list)
    fit: FitSection = FitSection()
    forecast: ForecastSection | None = None
    discretisation: Section = _empty()
    posterior: Section | None = None
    bootstrap: Section | None = None
    likelihood: LikelihoodSection | None = None
    starts: Section | None = None
    verdict: str = ""
    verdict_reason: str = ""
    evidence: EvidenceSection = EvidenceSection()
    smooth_tangents: Section | None = None
    events: list[str] = dataclasses.field(default_factory=list)
    certificate: CertificateSection | None = None
    seconds: Mapping[str, _Number] = _empty()
    adjoint: Section = _empty()
    memory: Mapping[str, _Number] = _empty()
    recordings: Mapping[str, RecordingSection] = _empty()
    derived: Mapping[str, Section] = _empty()
    members: Section = _empty()
    own: Mapping[str, _Number] = _empty()
    frames: int | None = None
    dt: float | None = None
    solver: str = ""
    invariant_drift: Mapping[str, _Number] = _empty()
    exact_error: float | None = None
    reference_error: float | None = None

    def write(self, path: Path, entries: Collection[str] = ()) -> None:
        """Write summary.json with the named entries, by default all entries of a fit."""
        names = [f.name for f in dataclasses.fields(self)]
        names = names[: names.index("recordings")]
        names += [name for name in ("recordings", "derived", "members") if getattr(self, name)]
        write_json(path, {name: getattr(self, name) for name in entries or names})
