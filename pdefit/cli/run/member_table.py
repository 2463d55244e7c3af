"""Estimates of many members: table rows, medians, and a dataset with observed and predicted values."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray

from pdefit._util.program import Program
from pdefit.analysis.derive import derive_each
from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.evidence import Verdict
from pdefit.cli.run.build_members import COLUMNS, MemberExperiment
from pdefit.cli.run.minimise import flat_values
from pdefit.inverse.members.result import MemberFits, MemberIntervals
from pdefit.inverse.uncertainty.marginal_likelihood import likelihood_sums, log_likelihoods
from pdefit.output.store.tables import number

# values of records that the file of all members holds, at most
_MOST_VALUES = 50_000_000


class Column(NamedTuple):
    """A number, or a derived quantity, of all members.

    **Arguments:**

    - `name`, `unit`: its name and unit.
    - `estimate`, `low`, `high`: its estimates and the ends of their intervals, (E,).
    - `truth`, `z`: its true values, and (estimate - truth) in standard errors, (E,); NaN if unknown.
    """

    name: str
    unit: str
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    truth: np.ndarray
    z: np.ndarray


@dataclasses.dataclass(frozen=True)
class MemberTable:
    """Estimates of many fits, for files and pictures.

    **Arguments:**

    - `exp`, `found`: the members and their fits.
    - `spans`: the intervals of all members.
    - `words`: the verdict on each member.
    """

    exp: MemberExperiment
    found: MemberFits
    spans: MemberIntervals
    words: list[str]

    @functools.cached_property
    def columns(self) -> list[Column]:
        """All numbers, which belong neither to fields nor to node states, and all derived quantities."""
        controls, spans = self.exp.members.controls, self.spans
        truth, z = np.asarray(flat_values(controls, self.exp.truth)), self.z_scores()
        parts, names, units = (spans.estimate, spans.low, spans.high, truth, z), controls.names(), controls.units()
        found = [Column(names[i], units[i], *(x[:, i] for x in parts)) for i in np.flatnonzero(controls.numbers)]
        assessed = [Assessment({}, verdict=Verdict(word, ())) for word in self.words]
        derived = derive_each(self.found, self.exp.first.derive, assessed, self.exp.truth)
        for each in zip(*derived, strict=True):
            values = np.array([(d.estimate, d.low, d.high, d.truth, d.z_score) for d in each]).T
            found.append(Column(each[0].name, each[0].unit, *values))
        return found

    @property
    def chi2_per_value(self) -> np.ndarray:
        return self.found.chi2 / np.maximum(self.found.observed_values, 1)

    def z_scores(self) -> np.ndarray:
        """(estimate - truth) in standard errors, in search space, (E, p); NaN if unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.found.theta - self.exp.truth) / self.spans.error

    def rows(self) -> list[dict[str, Any]]:
        """Table rows, one for each member."""
        rows, chi2 = [], self.chi2_per_value
        sums = _SUMS(self.exp.members, self.found.theta)
        # where sigma is unknown, one factor of that of all variables has its likeliest value
        estimated = {0: False} if self.exp.first.estimated else {}
        likely = log_likelihoods(self.found.chi2[:, None], np.asarray(sums)[:, None], estimated)
        for e, name in enumerate(self.exp.names):
            numbers = [number(x[e]) for x in (self.found.loss, chi2, likely)]
            counts = int(self.found.evaluations[e]), int(self.found.start[e])
            row: dict[str, Any] = dict(zip(COLUMNS, (name, self.words[e], *numbers, *counts), strict=True))
            for c in self.columns:
                row |= {
                    c.name: number(c.estimate[e]),
                    f"{c.name} ci95_low": number(c.low[e]),
                    f"{c.name} ci95_high": number(c.high[e]),
                }
                if np.isfinite(c.z).any():
                    row[f"{c.name} z"] = number(c.z[e])
            rows.append(row)
        return rows

    def parameters(self) -> dict[str, Any]:
        """Median and quartiles of each scalar over members, and the coverage of intervals if the truth is known."""
        out, good = dict[str, Any](), ~self.found.blown_up
        for c in self.columns:
            low, middle, high = np.quantile(c.estimate[good], [0.25, 0.5, 0.75]) if good.any() else (None,) * 3
            out[c.name] = {"median": middle, "quartiles": [low, high]}
            known = good & np.isfinite(c.z)
            if known.any():
                x = c.z[known]
                out[c.name] |= {"members": x.size, "rms_z": float(np.sqrt(np.mean(x**2)))}
                out[c.name]["inside"] = float(np.mean(np.abs(x) <= 1.96))
        return out

    def dataset(self, title: str) -> xarray.Dataset:
        """Estimates, intervals and records of all members."""
        data: dict[str, Any] = {
            "chi2_per_value": ("member", self.chi2_per_value),
            "loss": ("member", self.found.loss),
            "evaluations": ("member", self.found.evaluations),
            "verdict": ("member", np.array(self.words, object)),
        }
        for c in self.columns:
            values = {"": c.estimate, "_low": c.low, "_high": c.high}
            values |= {"_true": c.truth} if np.isfinite(c.truth).any() else {}
            data |= {f"{c.name}{what}": ("member", x, {"units": c.unit}) for what, x in values.items()}
        record, coords = self._record()
        coords["member"] = np.array(self.exp.names, object)
        return xarray.Dataset(data | record, coords, {"title": title, "Conventions": "CF-1.8"})

    def _record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Observed and predicted values of all members, if they are few and have the same times."""
        members, first = self.exp.members, self.exp.members.first
        values = sum(int(np.size(x)) for x in first.observations.values.values()) * members.count
        if values > _MOST_VALUES or first.groups > 1 or members.stack.own.observations.ts is not None:
            return {}, {}
        data_of_all = members.stack.part(lambda f: f.observations, members.count)
        observed = data_of_all.values, data_of_all.sigma, data_of_all.mask
        data: dict[str, Any] = {}
        for name, r in self.found.residuals.items():
            value, sigma, mask = (np.asarray(part[name]) for part in observed)
            dims = ("member", "time", *(f"{name}_{k}" for k in range(value.ndim - 2)))
            value = np.where(mask, value, np.nan)
            data[f"{name}_observed"] = (dims, value)
            data[f"{name}_predicted"] = (dims, value + r[:, 0] * sigma)
        unit = first.problem.system.time_unit
        # not `units`: xarray would decode "days" as a duration
        return data, {"time": ("time", np.asarray(first.observations.ts), {"unit": unit})}


_SUMS = Program(lambda members, theta: members.each(lambda f, _: jnp.sum(likelihood_sums(f), axis=0), theta))
