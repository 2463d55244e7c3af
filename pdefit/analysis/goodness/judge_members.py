"""Verdicts on many fits, by residuals from one program."""

import dataclasses
from collections.abc import Iterable

import jax
import numpy as np

from pdefit.analysis.goodness.assessment import Assessment
from pdefit.analysis.goodness.evidence import Quality
from pdefit.analysis.goodness.numbers import rounding
from pdefit.analysis.goodness.quality import Ending, quality_of, size_of_gaps
from pdefit.analysis.goodness.remainder import Remainder
from pdefit.analysis.goodness.verdict import decide
from pdefit.data.known import Known
from pdefit.inverse.members.result import MemberFits
from pdefit.inverse.objective.functional import Functional


def judge_members(found: MemberFits, known: Known, which: Iterable[int] | None = None) -> list[Assessment]:
    """Verdict on each of many fits, as in `judge`.

    **Arguments:**

    - `found`: the fits.
    - `known`: facts about the data, which hold for each fit.
    - `which`: the numbers of the members that are judged; default all.
    """
    members, each = found.members, []
    for e in range(members.count) if which is None else which:
        if found.blown_up[e]:
            left = Quality(float("inf"), int(found.observed_values[e]), None, found.theta.shape[1], False)
            each.append(Assessment({"": left}))
            continue
        functional, theta = members.member(e), jax.device_put(np.array(found.theta[e]))
        assert isinstance(functional, Functional)
        first, data = functional.layout.index.shape, functional.observations.values
        # shorter records are filled up to the longest
        own = {n: x[(e, *map(slice, (*first, *data[n].shape[1:])))] for n, x in found.residuals.items()}
        end = Ending(int(found.free[e].sum()), bool(found.converged[e]), gap=size_of_gaps(functional, theta, own))
        quality = quality_of(Remainder(functional, own), known, end)
        bound = functional.controls.numbers_at_bound(theta)
        each.append(Assessment({"": quality}, rounding=rounding([(functional, own)]), bound=bound))
    return [dataclasses.replace(one, verdict=decide(one)) for one in each]
