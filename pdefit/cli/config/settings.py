"""Settings: a configuration as frozen records, checked once, which all other rooms of the command line read."""

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
    """Frames of a twin after those that are fitted: `count` of them up to the time `stop`."""

    stop: float
    count: int


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of the frames, in the system's time unit.

    **Arguments:**

    - `start`, `stop`: first and last frame; None for those of the data.
    - `count`: number of frames of a twin or simulation; None for a file.
    - `fit_until`: last time that is fitted; None for all.
    - `forecast`: frames that a twin adds after `stop`; None for none.
    """

    start: float | None
    stop: float | None
    count: int | None
    fit_until: float | None
    forecast: Later | None

    @property
    def last_fitted(self) -> float | None:
        """Time up to which frames are fitted; None for all of them."""
        return self.stop if self.fit_until is None and self.forecast is not None else self.fit_until


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """Observations in a file.

    **Arguments:**

    - `path`: of the file.
    - `variables`: names in the file, by field.
    - `sigma`: stated standard deviations, as a number or the name of a variable, by field.
    - `automatic`, `unstated`: fields whose sigma is estimated, and fields without any.
    - `noise`: the standard deviation of noise that is added, in units of each variable's range; 0 for none.
    - `time`: name of the variable with the times; None for `time`.
    - `coordinates`: names of the variables with positions, by axis; None for an axis that is not checked.
    - `axes`: names of the axes of a variable in the order of the file, by field.
    - `select`: the name or number of the recording that is read along an axis of the file; empty where it holds one.
    - `crop`: for the first axes after time the first index that is taken, and the one after the last.
    - `system`: names in the file of arguments of the system.
    - `truth`: controls whose true values are known.
    - `true_values`: these values, where they are not in the file.
    """

    path: str
    variables: dict[str, str]
    sigma: dict[str, str | float]
    automatic: tuple[str, ...]
    unstated: tuple[str, ...]
    noise: float
    time: str | None
    coordinates: dict[str, str | None]
    axes: dict[str, tuple[str, ...]]
    select: dict[str, str | int]
    crop: tuple[tuple[int, int], ...]
    system: dict[str, str]
    truth: tuple[str, ...]
    true_values: Mapping[str, Any] | None


@dataclasses.dataclass(frozen=True)
class TwinSettings:
    """Synthetic observations.

    **Arguments:**

    - `variant`: `self` or `independent`.
    - `system`: arguments of the system in which the truth differs.
    - `refine`: factor by which the grid of the truth is finer, such as 2 or 1.5.
    - `solver`: of the truth; None for one that suits the equations.
    - `dt`: step of the truth, in the system's time unit; None for the model's step or the stable one.
    - `noise`: standard deviation, as a fraction of each variable's range.
    - `seed`: of the noise.
    """

    variant: str
    system: Mapping[str, Any]
    refine: int | float
    solver: diffrax.AbstractSolver | None
    dt: float | None
    noise: float
    seed: int


@dataclasses.dataclass(frozen=True)
class Reference:
    """Table that the end state of a simulation is compared with.

    **Arguments:**

    - `path`, `column`: of the table, and its column.
    - `time`: the time that the column is for, in the system's time unit.
    - `fields`: names of the rows for every element of a field, nested as the field is.
    """

    path: str
    column: str
    time: float
    fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class StateFile:
    """File whose last frame is the initial state."""

    path: str


@dataclasses.dataclass(frozen=True)
class PosteriorSettings:
    """Uncertainty of unknown fields after the fit.

    **Arguments:**

    - `rank`: the most eigenpairs.
    - `samples`: the number of samples in posterior.h5.
    """

    rank: int
    samples: int


Initial = Literal["system", "data"] | StateFile | AbstractPreparation


@dataclasses.dataclass(frozen=True)
class Settings:
    """One experiment, as far as it is known without data. `conf/config.yaml` explains every key.

    `solver` is None where one is chosen that suits the equations, `steps` for constant steps, and `dt` for the stable
    step. `recordings` are the settings of each of many recordings by name, or the axis of the file that they lie along;
    the other settings are then those of the first, or of all. `gauge` holds what is fixed of controls that only
    differences between recordings determine. `devices` are the numbers of those that share the work; none for one device.
    """

    seed: int
    dtype: str
    certificate: Certificate
    max_iterations: int | None
    render: bool
    holdout: float | list[int]
    dt: float | None
    lyapunov: bool
    posterior: PosteriorSettings | None
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
    recordings: "str | Mapping[str, Settings]" = ""
    gauge: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    devices: tuple[int, ...] = ()
