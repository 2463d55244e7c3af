"""A configuration as frozen records, checked once: what every other room of the command line reads."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import diffrax
import equinox as eqx

from pdefit.adjoints.base import AbstractAdjoint
from pdefit.cli.config._system import SystemSettings
from pdefit.cli.config.stages import Stages
from pdefit.cli.config.store import Store
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch
from pdefit.inverse.controls.declare import Declaration
from pdefit.inverse.controls.regularizers import AbstractRegularizer
from pdefit.inverse.fit.drivers import AbstractDriver
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.shooting.formulation import AbstractFormulation
from pdefit.systems.preparation import AbstractPreparation

Certificate = Literal["stop", "warn", "end"]


@dataclasses.dataclass(frozen=True)
class Later:
    """Frames of a twin after those that are fitted: `count` of them up to `stop`."""

    stop: float
    count: int


@dataclasses.dataclass(frozen=True)
class Times:
    """The times of the frames, in the system's time unit; None where nothing is said."""

    start: float | None
    stop: float | None
    count: int | None
    fit_until: float | None
    forecast: Later | None

    @property
    def last_fitted(self) -> float | None:
        """The time up to which frames are fitted; None for all of them."""
        return self.stop if self.fit_until is None and self.forecast is not None else self.fit_until


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """Observations in a file.

    **Arguments:** `path` of the file; `variables` the file's name of each field; `sigma` the stated deviations, `automatic`
    the fields whose deviation is estimated and `unstated` those without any; `time` the variable with the times;
    `coordinates` for each axis the variable with its positions; `system` arguments of the system that the file holds;
    `truth` the controls whose true values are known, and `true_values` these values where they are not in the file.
    """

    path: str
    variables: dict[str, str]
    sigma: dict[str, str | float]
    automatic: tuple[str, ...]
    unstated: tuple[str, ...]
    time: str | None
    coordinates: dict[str, str | None]
    system: dict[str, str]
    truth: tuple[str, ...]
    true_values: Mapping[str, Any] | None


@dataclasses.dataclass(frozen=True)
class TwinSettings:
    """Settings of a twin: `system` holds what its truth has different; `solver` is None where it is chosen."""

    variant: str
    system: Mapping[str, Any]
    refine: int
    solver: diffrax.AbstractSolver | None
    dt: float | None
    noise: float
    seed: int


@dataclasses.dataclass(frozen=True)
class Reference:
    """A column of a table to compare the end state with: `fields` names its rows, nested as the field is."""

    path: str
    column: str
    time: float
    fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class StateFile:
    """A file whose last frame is the initial state."""

    path: str


Initial = Literal["system", "data"] | StateFile | AbstractPreparation


@dataclasses.dataclass(frozen=True)
class Settings:
    """One experiment, as far as it can be known without data. `solver` is None for what suits the equations."""

    seed: int
    dtype: str
    certificate: Certificate
    max_iterations: int | None
    render: bool
    holdout: float
    dt: float | None
    lyapunov: bool
    smooth_tangents: bool
    times: Times
    data: DataSettings | None
    twin: TwinSettings | None
    system: SystemSettings
    initial: Initial
    args: eqx.Module | None
    observe: AbstractObservationOperator
    solver: diffrax.AbstractSolver | None
    steps: Adaptive | None
    adjoint: AbstractAdjoint
    driver: AbstractDriver
    batch: AbstractBatch
    formulation: AbstractFormulation
    stages: Stages
    controls: Declaration
    regularizers: tuple[AbstractRegularizer, ...]
    store: Store
    reference: Reference | None
