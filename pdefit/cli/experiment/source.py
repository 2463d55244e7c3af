"""Observations and their problem, from a file or a twin alike."""

import dataclasses

from jaxtyping import PyTree

from pdefit.cli.experiment._prepared import Prepared
from pdefit.data.noise import NoiseEstimate
from pdefit.data.observations import Observations
from pdefit.inverse.fit.choose_solver import SolverChoice
from pdefit.inverse.problem.problem import Problem


@dataclasses.dataclass(frozen=True)
class Source:
    """A problem and its observations.

    **Arguments:**

    - `problem`: at true values where it is a twin's.
    - `record`: all observations, including those kept for the forecast.
    - `true_paths`: controls whose true values are known.
    - `true_states`: states of a twin without noise, with leading axis time.
    - `variant`: kind of data, in words.
    - `noise`: standard deviations that were estimated from the data; `unstated` are the fields without any.
    - `prepared`: cost of preparing the initial state.
    - `assumed`, `remarks`: messages for the user about what was assumed, and what looks odd.
    - `truth`: the problem at true values, where `problem` is not.
    - `noiseless`: whether the data are a twin's without noise.
    - `method`, `dt`: those of the model, where the data were made with them.
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
    method: SolverChoice | None = None
    dt: float | None = None
