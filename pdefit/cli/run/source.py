"""Observations and their problem, with known times, noise and true values."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit.analysis.goodness.holdout import held_frames, withhold
from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import Times
from pdefit.cli.run.initial_state import Prepared
from pdefit.cli.run.trial import check_memory
from pdefit.data.noise import NoiseEstimate
from pdefit.data.observations import Observations
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.controls.paths import leaf
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.fit.choose_solver import SolverChoice
from pdefit.inverse.problem.problem import Problem


@dataclasses.dataclass(frozen=True)
class Source:
    """A problem and its observations.

    **Arguments:**

    - `problem`: the problem; for a twin, at true values.
    - `record`: all observations, including those kept for the forecast.
    - `true_paths`: controls whose true values are known.
    - `true_states`: states of a twin without noise, with leading axis time.
    - `variant`: kind of data, in words.
    - `noise`: standard deviations estimated from the data; `unstated` are the fields without any.
    - `prepared`: the cost of preparing the initial state.
    - `assumed`, `remarks`: messages for the user about assumptions and about suspicious data.
    - `truth`: the problem at true values, if `problem` is not.
    - `noiseless`: whether the data are noiseless data of a twin.
    - `sigma_exact`: whether sigma is known to better than a percent, as for a twin.
    - `same_cells`: whether the data are a twin's on the grid of the model.
    - `method`, `dt`: the method and step of the model, if the data were made with them.
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
    sigma_exact: bool = False
    same_cells: bool = False
    method: SolverChoice | None = None
    dt: float | None = None


def frame_times(times: Times) -> np.ndarray:
    """Times of `times.count` frames from start to stop, followed by the times of `times.forecast`.

    Frames of the forecast may be further apart.
    """
    if times.start is None or times.stop is None or times.count is None or times.stop <= times.start:
        raise PdefitError("times expects start < stop and count >= 2, e.g. times={start: 0, stop: 10, count: 41}")
    check_memory(times.count)
    ts = np.linspace(times.start, times.stop, times.count)
    if times.forecast is None:
        return ts
    check_memory(times.count + times.forecast.count)
    return np.concatenate([ts, np.linspace(ts[-1], times.forecast.stop, times.forecast.count + 1)[1:]])


def fitted_frames(times: Times, ts: np.ndarray, first: int = 0) -> int:
    """Number of fitted times of a record `ts`, up to `times.fit_until`; `first` is the index of the first frame."""
    stop = times.last_fitted
    # a time that was typed is the nearest number to a frame's, but for round-off
    slack = 1e-9 * float(ts[-1] - ts[0])
    fitted = ts.size if stop is None else int(np.searchsorted(ts, stop + slack, side="right"))
    if fitted < max(2, first + 1):
        raise PdefitError(
            f"times.fit_until = {stop} leaves {max(fitted - first, 0)} frames to fit; the first is at {ts[first]:g}"
        )
    return fitted


def problem_at(problem: Problem, stated: Mapping[str, Any]) -> Problem:
    """The problem at true values of its controls.

    **Arguments:**

    - `stated`: for each control one number, or one for each element, in the system's units.
    """
    for path, value in stated.items():
        where = leaf(problem, path)
        shape = where(problem).shape
        try:
            true = np.broadcast_to(np.asarray(value, float), shape)
        except (TypeError, ValueError):
            true = np.asarray(np.nan)
        if isinstance(value, bool) or not np.all(np.isfinite(true)):
            raise PdefitError(f"data.truth.{path} expects a number, or numbers of shape {shape}, but got {value!r}")
        problem = eqx.tree_at(where, problem, jnp.asarray(true, where(problem).dtype))
    return problem


def check_stated(stated: Sequence[str], controls: Sequence[BoundControl], truth: Problem) -> None:
    """Refuse a true value of an array that is not fitted, or a value outside the range of its transform.

    **Arguments:**

    - `stated`: paths of the true values.
    - `controls`: the controls of the fit.
    - `truth`: the problem at the true values.
    """
    for path in stated:
        told = [c for c in controls if c.path == path]
        if not told:
            raise unknown("control (data.truth)", path, [c.path for c in controls])
        if not np.all(np.isfinite(np.asarray(told[0].to_theta(told[0].where(truth))))):
            kind = type(told[0].transform).__name__.lower()
            raise PdefitError(
                f"data.truth.{path} lies outside what its transform ({kind}) can reach; correct one of them"
            )


def true_value(control: BoundControl, truth: Problem | None, true_paths: Sequence[str]) -> np.ndarray | None:
    """True value of a control in its unit, its own or its parameter's; None if unknown.

    **Arguments:**

    - `control`: the control.
    - `truth`: the problem at true values; None if none are known.
    - `true_paths`: the paths of the known values.
    """
    known = any(control.path == path or control.path.startswith(f"{path}.") for path in true_paths)
    return np.asarray(control.where(truth)) if known and truth is not None else None


def true_theta(controls: Controls, true: Callable[[BoundControl], np.ndarray | None]) -> np.ndarray:
    """theta (p,) at the truth; NaN for unknown elements.

    **Arguments:** `controls`, `true`: the controls, and the true value of each.
    """
    values = [(c, true(c)) for c in controls.items]
    parts = [np.full(c.size, np.nan) if x is None else c.to_theta(jnp.asarray(x)) for c, x in values]
    return np.concatenate([*map(np.asarray, parts)])


def fitted_window(settings: Settings, record: Observations) -> tuple[int, np.ndarray, Observations]:
    """Number of fitted times of a record, the frames held out of the fit, and the record without them."""
    fitted = fitted_frames(settings.times, record.ts, record.first_frame)
    stages = settings.stages.stages
    used = [settings.formulation, *(s.formulation for s in stages if s.formulation is not None)]
    held = held_frames(record.ts[:fitted], settings.holdout, used, record.first_frame)
    return fitted, held, withhold(record.at(slice(0, fitted)), held)
