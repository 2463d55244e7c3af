"""Sources of the data of an experiment: times, a data file, a twin, an initial state, a table."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import diffrax

from pdefit._util.errors import PdefitError
from pdefit._util.expected import Expected, Number, Read, TimeStep, WholeNumber, count, is_list, is_number, is_text
from pdefit.cli.config._noise import AUTOMATIC, NAMED, NoiseSettings
from pdefit.cli.config._reader import make, make_or_auto, read_section
from pdefit.data.readers.source import DataSource
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.inverse.fit.likelihoods import PredictedVariance
from pdefit.systems.initial import AbstractInitial

_SIGMA = Expected(
    f"an entry for each variable, e.g. {{u: 0.05}}, or one of {', '.join((AUTOMATIC, *NAMED))} for all",
    lambda x: isinstance(x, Mapping) or (is_text(x) and x in (AUTOMATIC, *NAMED)),
)
_NOISE = Expected("a fraction of each variable's range, e.g. 0.02", lambda x: is_number(x) and x >= 0, float)
_TRUTH = Expected(
    "controls with their true values, e.g. {D: 1.0}, or a list of controls",
    lambda x: isinstance(x, Mapping) or is_list(x, is_text),
    each=is_text,
)
_REFINE = Expected(
    "a number >= 1, such as 2 or 1.5", lambda x: is_number(x) and x >= 1, lambda x: int(x) if x == int(x) else float(x),
    "set twin.refine=1",
)  # fmt: skip
_TABLE = Expected("fields, e.g. {position: [[x1, y1], [x2, y2]]}", lambda x: isinstance(x, Mapping))


def _solver(node: Any, path: str) -> diffrax.AbstractSolver | None:
    """A solver; None for an automatic choice."""
    return make_or_auto(node, path, diffrax.AbstractSolver)


Solver = Annotated[diffrax.AbstractSolver | None, Read(_solver)]


@dataclasses.dataclass(frozen=True)
class Later:
    """Frames of a twin after the fitted ones: `count` frames up to the time `stop`."""

    stop: Number
    count: Annotated[int, count(1, "set times.forecast=null for no forecast")]


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of the frames, in the system's time unit.

    **Arguments:**

    - `start`, `stop`: the time of the initial state and the last frame; null for the first and the last frame of the data.
    - `count`: the number of frames of a twin or a simulation; null for a file.
    - `fit_until`: the time of the last fitted frame; later ones are forecast. null fits all.
    - `forecast`: frames that a twin adds after `stop`, to be forecast; null for none.
    """

    start: Number | None
    stop: Number | None
    count: Annotated[int, count(2, "e.g. times={start: 0, stop: 10, count: 41}")] | None
    fit_until: Number | None
    forecast: Later | None

    def __post_init__(self) -> None:
        if self.forecast is not None and (self.stop is None or not self.forecast.stop > self.stop):
            after = "times.stop" if self.stop is None else f"times.stop = {self.stop:g}"
            raise PdefitError(
                f"times.forecast expects a stop after {after}, e.g. {{stop: 20, count: 40}}, but got {self.forecast.stop:g}"
            )

    @property
    def last_fitted(self) -> float | None:
        """Time up to which frames are fitted; None if all are fitted."""
        return self.stop if self.fit_until is None and self.forecast is not None else self.fit_until


@dataclasses.dataclass(frozen=True)
class DataSettings(DataSource):
    """Observations in a file: their source, their noise, and the truth.

    **Arguments:**

    - `sigma`: by field the standard deviation of its noise in the field's declared unit, or the name of a variable that
      holds it; `auto` estimates it. `{value: 0.05, certain: true}` says that it is known to better than a percent.
      Noise that follows the prediction is `poisson` (counts), `proportional`, or `{constant: 2, gain: 0.5, relative:
      auto}` with the parts of the variance constant^2 + gain * m + (relative * m)^2. `negative_binomial` is `{gain: 1,
      relative: auto}`, for counts that scatter by more than Poisson's law. `log_normal`, or
      `{log_normal: 0.1}`, compares logarithms. For several variables without a sigma, one sigma each is estimated from
      residuals.
    - `noise`: Gaussian noise that is added, drawn with `seed`, as a fraction of each variable's range; its variance is
      added to the variance of a stated sigma.
    - `truth`: true values of controls, for tables only; a fit does not use them. A list names controls whose true
      values are in the file.
    """

    sigma: Annotated[str | Mapping[str, Any], _SIGMA] = dataclasses.field(default_factory=dict)
    noise: Annotated[float, _NOISE] = 0.0
    truth: Annotated[Mapping[str, Any] | tuple[str, ...], _TRUTH] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise and (self.variances or self.logarithmic):
            raise PdefitError("data.noise adds noise of one size; leave it out where data.sigma follows the prediction")

    @functools.cached_property
    def _noise(self) -> dict[str, NoiseSettings]:
        """Noise of every field whose entry is more than a number."""
        nodes = {n: NAMED.get(s) if is_text(s) else s for n, s in self.given.items()}
        return {
            n: read_section(NoiseSettings, x, f"data.sigma.{n}") for n, x in nodes.items() if isinstance(x, Mapping)
        }

    @property
    def certain(self) -> bool:
        """True if all standard deviations are known to better than a percent."""
        return len(self._noise) == len(self.variables) and all(n.certain for n in self._noise.values())

    @property
    def variances(self) -> dict[str, PredictedVariance]:
        """Variances that follow the prediction, by field."""
        return {n: x.variance for n, x in self._noise.items() if x.variance is not None}

    @property
    def logarithmic(self) -> dict[str, float | None]:
        """Fields whose logarithms are compared, with the standard deviations of the logarithms if stated."""
        found = {n: x.log_normal for n, x in self._noise.items() if x.log_normal is not None}
        return {n: None if x == AUTOMATIC else float(x) for n, x in found.items()}

    @property
    def stated(self) -> dict[str, Any]:
        """Stated standard deviations, by field."""
        plain = {n: self._noise[n].value if n in self._noise else sigma for n, sigma in self.given.items()}
        return {name: sigma for name, sigma in plain.items() if sigma is not None and sigma != AUTOMATIC}

    @property
    def automatic(self) -> tuple[str, ...]:
        """Fields whose standard deviation is estimated before the fit."""
        return tuple(name for name, sigma in self.given.items() if sigma == AUTOMATIC)

    @property
    def unstated(self) -> tuple[str, ...]:
        """Fields without any standard deviation."""
        open_ = [n for n, x in self.logarithmic.items() if x is None]
        return () if self.noise else tuple(n for n in self.variables if n not in self.given or n in open_)

    @property
    def true_values(self) -> Mapping[str, Any] | None:
        """True values of controls; None if they are in the file."""
        return self.truth if self.truth and isinstance(self.truth, Mapping) else None


@dataclasses.dataclass(frozen=True)
class TwinSettings:
    """Synthetic observations.

    **Arguments:**

    - `variant`: `self` or `independent`.
    - `system`: arguments of the true system that differ from the model's.
    - `refine`: the refinement factor of the truth's grid, such as 2 or 1.5.
    - `solver`: the solver of the truth; None for an automatic choice.
    - `dt`: the step of the truth, in the system's time unit; None for the model's step or the stable one.
    - `noise`: the standard deviation, as a fraction of each variable's range.
    - `seed`: the seed of the noise.
    - `steps`: adaptive steps of the truth, in place of `dt`; None for constant steps.
    """

    variant: Annotated[str, Expected("self or independent, as twin=self or twin=independent sets it", is_text)]
    system: Annotated[
        Mapping[str, Any], Expected("arguments of the system, e.g. {D: 2.0}", lambda x: isinstance(x, Mapping))
    ]
    refine: Annotated[int | float, _REFINE]
    solver: Solver
    dt: TimeStep | None
    noise: Number
    seed: WholeNumber
    steps: Adaptive | None = None


@dataclasses.dataclass(frozen=True)
class Reference:
    """A table that is compared with the end state of a simulation.

    **Arguments:**

    - `path`: the file.
    - `column`: its column.
    - `time`: the time of the column, in the system's time unit.
    - `fields`: by field the names of its rows, nested as in the field.
    """

    path: str
    column: Annotated[str, Expected("the name of a column", lambda x: is_text(x) or is_number(x), str)]
    time: Number
    fields: Annotated[Mapping[str, Any], _TABLE]


@dataclasses.dataclass(frozen=True)
class StateFile:
    """A file whose last frame is the initial state."""

    path: Annotated[str, Expected("the name of a file", lambda x: is_text(x) or is_number(x), str)]


Initial = Literal["system", "fixed", "data"] | StateFile | AbstractInitial


def read_initial(node: Any, path: str = "initial") -> Initial:
    """Settings of the initial state."""
    if node == "system" or node == "fixed" or node == "data":
        return node
    if isinstance(node, Mapping) and set(node) == {"path"}:
        return read_section(StateFile, node, path)
    if isinstance(node, Mapping) and {"name", "_target_"} & {*node}:
        return make(node, path, AbstractInitial)
    raise PdefitError(
        f"{path} expects `system`, `fixed`, `data`, a file as {{path: fields.h5}}, or {{name: steady}} and the like, but got "
        f"{node!r}"
    )
