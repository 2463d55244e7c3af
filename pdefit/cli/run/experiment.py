"""The record of an experiment: observations, objective and stages of a fit."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.html import summarised, table
from pdefit.analysis.goodness.evidence import LARGEST_CHI2
from pdefit.cli.config.starts import StartsSettings
from pdefit.cli.run.source import Source, true_value
from pdefit.data.known import Known
from pdefit.inverse.controls.bound_control import BoundControl
from pdefit.inverse.fit.drivers import AbstractDriver
from pdefit.inverse.fit.fit import Fit, Progress, fit
from pdefit.inverse.fit.reweight import ByPrediction
from pdefit.inverse.fit.stages import Stage, with_windows
from pdefit.inverse.fit.stop import Holdout
from pdefit.inverse.members.drop_weak_starts import Exploration, explore
from pdefit.inverse.members.from_starts import from_starts
from pdefit.inverse.objective.abstract import AbstractObjective, Objective
from pdefit.inverse.objective.compiled import sum_of_squares
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.axes import file_name
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.uncertainty.quantities import quantities
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.terms.expression import Expression

# an estimated sigma with a larger relative standard error is not taken for known
_KNOWN_TO = 0.1
# root mean square residual of data without noise, as a part of their range, that is no round-off
_NOISELESS = 1e-3


@dataclasses.dataclass(frozen=True, repr=False)
class Experiment:
    """An experiment: observations, the objective, and the stages of its minimisation.

    For many recordings, `fitted`, `truth`, `held` and `source` belong to the first one, except for the noise in
    `source`; each recording has its own in `recordings`.

    **Arguments:**

    - `functional`: the objective, on the first `fitted` observations of `source.record`.
    - `stages`: the stages of the fit.
    - `source`: the observations, with all facts about them.
    - `fitted`: the number of fitted times.
    - `truth`: the problem at true values; None if unknown.
    - `held`: indices of the frames kept out of the fit.
    - `driver`: evaluates the functional.
    - `choices`: messages about automatic choices and their reasons.
    - `remarks`: messages about suspicious data.
    - `max_iterations`: bound on the evaluations of all stages together; None for the stages' own bounds.
    - `recordings`: many recordings by name; empty for one.
    - `starts`, `seed`: other starts of the fit, and the seed of their design; None for the guess alone.
    - `derive`: formulas of quantities derived from the estimates, by name.
    """

    functional: AbstractObjective
    stages: list[Stage]
    source: Source
    fitted: int
    truth: Problem | None
    held: np.ndarray
    driver: AbstractDriver
    choices: tuple[str, ...]
    remarks: tuple[str, ...]
    max_iterations: int | None
    recordings: "Mapping[str, Experiment]" = dataclasses.field(default_factory=dict)
    starts: StartsSettings | None = None
    seed: int = 0
    derive: Mapping[str, Expression] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        # a formula that names no number of the last stage is refused before the fit
        if self.derive:
            quantities(with_windows(self.functional, self.stages[-1].formulation), self.derive)

    @property
    def each(self) -> "dict[str, Experiment]":
        """Every recording by name; a single recording has an empty name."""
        return dict(self.recordings) or {"": self}

    @functools.cached_property
    def first(self) -> Functional:
        """The functional of the only, or the first, recording."""
        return self.functional.parts(self.functional.theta0)[0][0]

    def alone(self, verb: str) -> Functional:
        """The functional of a single recording, for a verb that works on one."""
        if self.recordings:
            raise PdefitError(f"{verb} works on one recording; set recordings=null, and data.path to one of the files")
        return self.first

    @property
    def frames(self) -> int:
        """Total number of fitted times of all recordings, without times before the first frame."""
        return sum(one.fitted - one.source.record.first_frame for one in self.each.values())

    @property
    def forecasts(self) -> bool:
        """True if frames are kept for the forecast."""
        return any(one.fitted < one.source.record.ts.size for one in self.each.values())

    @property
    def estimated(self) -> dict[str, bool]:
        """Variables whose sigma is estimated from residuals, because a stage does so or no sigma was stated.

        Each has a flag: whether all recordings share the sigma.
        """
        rules, unstated = [s.reweight for s in self.stages if s.reweight is not None], self.source.unstated
        return {n: n in unstated for n in self.first.observed if n in unstated or any(r.estimates(n) for r in rules)}

    @property
    def sigma_stated(self) -> bool:
        """True if the noise of every fitted variable was stated.

        It is false if sigma was estimated from the data, or if a twin has no noise and sigma is only a weight.
        """
        unsure = any(name in self.source.noise for name in self.first.observed)
        return not (self.estimated or self.source.noiseless or unsure)

    @property
    def known(self) -> Known:
        """Facts about the data that the verdict uses; each of many recordings has its own."""
        # a sigma made from residuals, or a doubtful estimate, makes chi2 about 1, which proves nothing
        doubtful = any(self.source.noise[n].error > _KNOWN_TO for n in self.first.observed if n in self.source.noise)
        rules = [s.reweight for s in self.stages if isinstance(s.reweight, ByPrediction)]
        return Known(
            sigma_known=not (self.estimated or doubtful),
            sigma_exact=self.source.sigma_exact,
            sigma_stated=self.sigma_stated,
            unstated=self.source.unstated,
            noiseless=self.source.noiseless,
            same_cells=self.source.same_cells,
            # the variables whose variance is that of counts
            counts={n: v.gain for rule in rules for n, v in rule.variables if v.gain and v.relative == 0},
            record=self.source.record.at(slice(0, self.fitted)),
            held=self.held,
        )

    def with_known(self, found: Fit[Objective]) -> Fit[Objective]:
        """The fit with the known facts about its data attached."""
        return dataclasses.replace(found, known={name: one.known for name, one in self.each.items()})

    def fit(self, callback: Callable[[Progress], None] | None = None) -> Fit[AbstractObjective]:
        """Fit by the stages and starts, like `pdefit fit`, but without a run directory.

        **Arguments:**

        - `callback`: called after every chunk of evaluations; see `pdefit.fit`.
        """
        starts = self.starts

        def fitted(objective: AbstractObjective, stages: Sequence[Stage]) -> Fit:
            return fit(objective, stages, max_iterations=self.max_iterations, callback=callback, driver=self.driver)

        def explored() -> Exploration:
            assert starts is not None
            return explore(self.functional, starts.points, self.stages, seed=self.seed, judge=self.judge_of_starts)

        try:
            if starts is None:
                return self.with_known(fitted(self.functional, self.stages))
            needed = None if starts.when == "always" else self.unexplained
            return self.with_known(from_starts(self.functional, self.stages, explored, fitted, needed)[0])
        finally:
            self.driver.close()

    @property
    def judge_of_starts(self) -> AbstractObjective | None:
        """The objective of held-out frames, if they choose among starts; else None."""
        if self.starts is None or self.starts.by != "holdout":
            return None
        return Holdout(self.source.record.at(slice(0, self.fitted))).judged(self.functional)

    def unexplained(self, found: Fit) -> bool:
        """True if noise cannot explain the misfit, as after a fit that ended in a wrong minimum."""
        chi2 = sum(sum_of_squares(part.residuals) for part in found.recordings)
        level = _NOISELESS**2 if self.source.noiseless else LARGEST_CHI2
        return not chi2 <= level * found.functional.observed_values

    def _repr_html_(self) -> str:
        """Controls with their guesses and true values, and the data of the fit, for notebooks."""
        functional = self.functional
        guess = functional.controls.values(functional.theta0)
        rows = [
            (c.path, c.unit, *map(summarised, (guess[c.path], self.true_value(c))))
            for c in functional.controls.items
            if not c.is_node
        ]
        return table(("control", "unit", "guess", "truth"), rows, [self._size(), *self.choices, *self.remarks])

    def __repr__(self) -> str:
        return f"Experiment: {self._size()}"

    def _size(self) -> str:
        functional = self.functional
        many = f" of {len(self.recordings)} recordings" if self.recordings else ""
        return (
            f"{self.source.variant}, {functional.observed_values} values at {self.frames} times{many}, "
            f"{functional.controls.size} unknowns"
        )

    def axes(self, control: BoundControl) -> FieldCoords:
        """Axes of a control in files, as `Problem.axes` states them, or indices."""
        stated = self.first.problem.axes(control.name, control.shape, control.unit)
        return stated or FieldCoords.numbered(file_name(control.path), control.shape, control.unit)

    def true_value(self, control: BoundControl) -> np.ndarray | None:
        """True value of a control of the fit, in its unit; None if unknown."""
        if self.recordings:
            one = [*self.recordings.values()][control.recording or 0]
            return one.true_value(next(c for c in one.functional.controls.items if c.name == control.name))
        return true_value(control, self.truth, self.source.true_paths)
