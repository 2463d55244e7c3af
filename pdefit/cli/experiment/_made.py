"""Observations and the problem that they belong to, from a file or a twin alike."""

import dataclasses
from typing import NamedTuple

import diffrax
from jaxtyping import PyTree

from pdefit.cli.experiment._prepared import Prepared
from pdefit.data.noise import NoiseEstimate
from pdefit.data.observations import Observations
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.inverse.problem.problem import Problem


class MethodChoice(NamedTuple):
    """The solver of a fit and its adaptive steps, if it has any; why it was chosen, where nobody did."""

    solver: diffrax.AbstractSolver
    steps: Adaptive | None
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Made:
    """A problem and its observations.

    **Arguments:** `record` all observations, those kept for the forecast included; `true_paths` the controls whose true values
    are known, `truth` the problem at them where `problem` is not, and `true_states` the film without noise of a twin;
    `variant` what the data are, in words; `noise` the deviations estimated from the data, `unstated` the fields without any;
    `noiseless` whether the data are a twin's without noise; `prepared` what preparing the initial state took; `assumed` and
    `remarks` what a user is told; `method` and `dt` the model's, where the data were made with them.
    """

    problem: Problem
    record: Observations
    true_paths: tuple[str, ...]
    true_states: PyTree | None
    variant: str
    noise: dict[str, NoiseEstimate] = dataclasses.field(default_factory=dict)
    unstated: tuple[str, ...] = ()
    prepared: Prepared | None = None
    assumed: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    truth: Problem | None = None
    noiseless: bool = False
    method: MethodChoice | None = None
    dt: float | None = None
