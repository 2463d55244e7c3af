"""Estimates of many members: table rows, medians, and a dataset with observed and predicted values."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray

from pdefit._util.program import Program
from pdefit.cli.run.build_members import MemberExperiment
from pdefit.cli.run.minimise import flat_values
from pdefit.inverse.members.result import MemberFits, MemberIntervals
from pdefit.inverse.uncertainty.marginal_likelihood import likelihood_sums, log_likelihoods
from pdefit.output.store.tables import number

# values of records that the file of all members holds, at most
_MOST_VALUES = 50_000_000


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

    @property
    def columns(self) -> list[int]:
        """Indices of theta that belong neither to fields nor to node states."""
        return np.flatnonzero(self.exp.members.controls.numbers).tolist()

    @property
    def chi2_per_value(self) -> np.ndarray:
        return self.found.chi2 / np.maximum(self.found.observed_values, 1)

    def z_scores(self) -> np.ndarray:
        """(estimate - truth) in standard errors, in search space, (E, p); NaN if unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.found.theta - self.exp.truth) / self.spans.error

    def rows(self) -> list[dict[str, Any]]:
        """Table rows, one for each member."""
        names, rows, z, chi2 = self.exp.members.controls.names(), [], self.z_scores(), self.chi2_per_value
        sums = _SUMS(self.exp.members, self.found.theta)
        # where sigma is unknown, one factor of that of all variables has its likeliest value
        estimated = {0: False} if self.exp.first.estimated else {}
        likely = log_likelihoods(self.found.chi2[:, None], np.asarray(sums)[:, None], estimated)
        for e, name in enumerate(self.exp.names):
            row: dict[str, Any] = {
                "member": name,
                "verdict": self.words[e],
                "loss": number(self.found.loss[e]),
                "chi2_per_value": number(chi2[e]),
                "log_likelihood": number(likely[e]),
                "evaluations": int(self.found.evaluations[e]),
                "start": int(self.found.start[e]),
            }
            for i in self.columns:
                row |= {
                    names[i]: number(self.spans.estimate[e, i]),
                    f"{names[i]} ci95_low": number(self.spans.low[e, i]),
                    f"{names[i]} ci95_high": number(self.spans.high[e, i]),
                }
                if np.isfinite(z[:, i]).any():
                    row[f"{names[i]} z"] = number(z[e, i])
            rows.append(row)
        return rows

    def parameters(self) -> dict[str, Any]:
        """Median and quartiles of each scalar over members, and the coverage of intervals if the truth is known."""
        names, out, z = self.exp.members.controls.names(), dict[str, Any](), self.z_scores()
        good = ~self.found.blown_up
        for i in self.columns:
            low, middle, high = (
                np.quantile(self.spans.estimate[good, i], [0.25, 0.5, 0.75]) if good.any() else (None,) * 3
            )
            out[names[i]] = {"median": middle, "quartiles": [low, high]}
            known = good & np.isfinite(z[:, i])
            if known.any():
                x = z[known, i]
                out[names[i]] |= {"members": x.size, "rms_z": float(np.sqrt(np.mean(x**2)))}
                out[names[i]]["inside"] = float(np.mean(np.abs(x) <= 1.96))
        return out

    def dataset(self, title: str) -> xarray.Dataset:
        """Estimates, intervals and records of all members."""
        names, members = self.exp.members.controls.names(), self.exp.members
        units = members.controls.units()
        truth = np.asarray(flat_values(members.controls, self.exp.truth))
        data: dict[str, Any] = {
            "chi2_per_value": ("member", self.chi2_per_value),
            "loss": ("member", self.found.loss),
            "evaluations": ("member", self.found.evaluations),
            "verdict": ("member", np.array(self.words, object)),
        }
        for i in self.columns:
            unit = {"units": units[i]}
            data[names[i]] = ("member", self.spans.estimate[:, i], unit)
            data[f"{names[i]}_low"] = ("member", self.spans.low[:, i], unit)
            data[f"{names[i]}_high"] = ("member", self.spans.high[:, i], unit)
            if np.isfinite(self.exp.truth[:, i]).any():
                data[f"{names[i]}_true"] = ("member", truth[:, i], unit)
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
