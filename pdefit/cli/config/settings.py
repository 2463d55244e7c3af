"""Settings: a configuration as frozen records, checked once, for all other rooms of the command line."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import numpy as np
from rich.console import Console

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.expected import (
    Count,
    Expected,
    Number,
    Read,
    Size,
    TimeStep,
    WholeNumber,
    count,
    is_index,
    is_list,
    is_number,
    is_whole,
)
from pdefit._util.memory import size_in_bytes
from pdefit.adjoints.base import AbstractAdjoint
from pdefit.cli.config._controls import ControlSettings, read_controls
from pdefit.cli.config._events import EXPECTED, read_events
from pdefit.cli.config._reader import make, read_section
from pdefit.cli.config._system import SystemSettings, read_system
from pdefit.cli.config.sources import DataSettings, Initial, Reference, Solver, Times, TwinSettings, read_initial
from pdefit.cli.config.stages import Stages, StageSettings, read_stages
from pdefit.cli.config.starts import StartsSettings
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch
from pdefit.inverse.controls.declare import Declaration
from pdefit.inverse.controls.priors import AbstractRegularizer
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted
from pdefit.inverse.fit.refused_combinations import Choices, Kind
from pdefit.inverse.members.bootstrap import Bootstrap
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.shooting.formulation import AbstractFormulation
from pdefit.inverse.uncertainty.quantities import read_formulas
from pdefit.systems.coordinates import FieldCoords
from pdefit.systems.events import Event
from pdefit.systems.terms.expression import Expression


@dataclasses.dataclass(frozen=True)
class Store:
    """Content of fields.h5.

    **Arguments:**

    - `fields`: names of the fields to keep; null for all.
    - `every`: n keeps each n-th frame.
    - `dtype`: the type of the numbers.
    - `budget`: the largest size of the file, such as "2 GB", or in bytes.
    """

    fields: Annotated[
        tuple[str, ...] | None,
        Expected(
            "a list of names, or null for all",
            lambda x: x is None or isinstance(x, list),
            lambda x: x and tuple(map(str, x)),
        ),
    ]
    every: Count
    dtype: Literal["float32", "float64"]
    budget: Size

    def wanted(self, coords: Mapping[str, FieldCoords], frames: int, kinds: int) -> list[str]:
        """Names of the stored fields. Unknown names, and a file above the budget, are refused.

        **Arguments:**

        - `coords`: axes and coordinates of each field.
        - `frames`: number of frames of the record.
        - `kinds`: number of variables of a field (observed, predicted, true).
        """
        wanted = list(coords) if self.fields is None else list(self.fields)
        for name in wanted:
            if name not in coords:
                raise unknown("field (store.fields)", name, coords)
        size = self.size(coords, wanted, frames, kinds)
        if size > size_in_bytes(self.budget, "store.budget"):
            raise PdefitError(
                f"fields.h5 would take {size / 1e9:.2f} GB, more than store.budget = {self.budget}; keep fewer fields "
                f"(store.fields) or frames (store.every), use store.dtype=float32, or raise the budget"
            )
        return wanted

    def size(self, coords: Mapping[str, FieldCoords], wanted: list[str], frames: int, kinds: int) -> int:
        """Size in bytes of this many frames of the wanted fields, in this many kinds."""
        values = sum(int(np.prod([c.size for c in coords[n].coords.values()])) for n in wanted)
        return values * np.dtype(self.dtype).itemsize * kinds * (frames // self.every + 1)


def _is_rule(x: Any) -> bool:
    return x == "sum" or is_whole(x)


# null stands for no gauge
_GAUGE = Expected(
    "CONTROL: sum, or the number of a recording, such as 0",
    lambda x: x is None or isinstance(x, Mapping) and all(map(_is_rule, x.values())),
    lambda x: dict(x or {}),
    each=_is_rule,
)
Certificate = Literal["stop", "warn", "end"]


@dataclasses.dataclass(frozen=True)
class PosteriorSettings:
    """Settings for the uncertainty of unknown fields after a fit.

    **Arguments:**

    - `rank`: the largest number of eigenpairs.
    - `samples`: the number of samples in posterior.h5, up to 10000.
    """

    rank: Annotated[int, count(1, "posterior=null leaves it out")]
    samples: Annotated[int, Expected("a whole number up to 10000", lambda x: is_whole(x) and x <= 10_000)] = 0


def _posterior(node: Any, path: str) -> PosteriorSettings | None:
    """The section `posterior`: a rank, or a mapping with the number of samples; null for no posterior."""
    if node is None:
        return None
    return read_section(PosteriorSettings, node if isinstance(node, Mapping) else {"rank": node}, path)


def _regularizers(node: Any, path: str) -> tuple[AbstractRegularizer, ...]:
    if not isinstance(node, Mapping):
        raise PdefitError(f"{path} expects a mapping, a name for each regularizer, but got {node!r}")
    return tuple(make(regularizer, f"{path}.{name}", AbstractRegularizer) for name, regularizer in node.items())


def choose_devices(given: Any, path: str) -> tuple[int, ...]:
    """Indices of the devices that share a fit, empty for one device; sets JAX's platform or default device."""
    numbers = given if isinstance(given, list) else []
    counted = bool(numbers) and is_list(numbers, is_whole)
    if not (counted and len({*numbers}) == len(numbers)) and given not in (None, "cpu", "gpu", "all"):
        raise PdefitError(f"{path} expects cpu, gpu, all, or numbers of devices such as [0, 1], but got {given!r}")
    if given in ("cpu", "gpu"):
        jax.config.update("jax_platforms", {"gpu": "cuda"}.get(given, given))
    try:
        # those of other processes are shared by the fit alone
        there = jax.local_devices()
    except RuntimeError:
        raise PdefitError(f"There is no {given} that JAX can use here; set device=cpu") from None
    if numbers and max(numbers) >= len(there):
        raise PdefitError(
            f"device={given} names number {max(numbers)}, but JAX finds {len(there)} here, counted from 0; set device=all"
        )
    if len(numbers) == 1:
        jax.config.update("jax_default_device", there[numbers[0]])
    # cores are chosen by `cores`
    chosen = range(len(there)) if given == "all" and there[0].platform != "cpu" else numbers
    return tuple(chosen) if len(chosen) > 1 else ()


def choose_cores(given: Any, path: str) -> int:
    """Number of cores that share a fit: all that this process may use, or fewer; 1 on a GPU."""
    if given is not None and not (is_whole(given) and given > 0):
        raise PdefitError(f"{path} expects a number of cores, 1 or more, or null for all, but got {given!r}")
    there = len(jax.local_devices()) if jax.default_backend() == "cpu" else 1
    return min(given or there, there)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of one experiment, as far as known without data. `conf/config.yaml` explains every key.

    `solver` is None for an automatic choice, `steps` for constant steps, and `dt` for the stable step. `recordings` are
    the settings of each of many recordings by name, or the axis of the file along which they lie; the other settings
    are then the first recording's, or common. `members` are the same for many independent fits. `gauge` holds the fixed
    part of controls of which the recordings determine only differences, and `derive` the formulas of derived quantities.
    `device` holds the indices of the devices that share the work; empty for one device. `cores` is the number of cores
    that share it without a GPU.
    """

    # first, because JAX takes its device before it makes an array
    device: Annotated[tuple[int, ...], Read(choose_devices)]
    cores: Annotated[int, Read(choose_cores)]
    seed: WholeNumber
    dtype: Literal["float32", "float64"]
    certificate: Certificate
    intervals: Literal["auto", "always"]
    max_iterations: Annotated[int, count(1, "pdefit plan and pdefit certify look at the guess without fitting")] | None
    render: bool
    holdout: Annotated[
        float | list[int],
        Expected(
            "a fraction of the fitted frames between 0 and 0.5, or numbers of frames",
            lambda x: x is None or is_number(x) or is_list(x, is_index),
            lambda x: x if isinstance(x, list) else x or 0.0,
        ),
    ]
    noise: Number | None
    dt: TimeStep | None
    lyapunov: bool
    posterior: Annotated[PosteriorSettings | None, Read(_posterior, PosteriorSettings)]
    uncertainty: Bootstrap | None
    smooth_tangents: bool
    times: Times
    data: DataSettings | None
    twin: TwinSettings | None
    system: Annotated[SystemSettings, Read(read_system, "the name of one, as pdefit list systems prints them")]
    initial: Annotated[Initial, Read(read_initial)]
    args: eqx.Module | None
    events: Annotated[tuple[Event, ...], Read(read_events, EXPECTED)]
    observe: AbstractObservationOperator
    solver: Solver
    steps: Adaptive | None
    adjoint: AbstractAdjoint
    driver: AbstractDriver
    batch: AbstractBatch
    formulation: AbstractFormulation
    stages: Annotated[Stages, Read(read_stages, StageSettings)]
    controls: Annotated[Declaration, Read(read_controls, ControlSettings)]
    regularizers: Annotated[tuple[AbstractRegularizer, ...], Read(_regularizers)]
    starts: StartsSettings | None
    store: Store
    reference: Reference | None
    recordings: Annotated["str | Mapping[str, Settings]", Read(lambda given, _: given)]
    members: Annotated["str | Mapping[str, Settings]", Read(lambda given, _: given)]
    gauge: Annotated[Mapping[str, int | str], _GAUGE]
    derive: Annotated[Mapping[str, Expression], Read(read_formulas)] = dataclasses.field(default_factory=dict)

    @property
    def shared_by(self) -> list[Any]:
        """JAX devices that stand for `cores`: those of this process, even if several processes share the fit."""
        return jax.local_devices()[: self.cores]

    def choices(self, *also: Kind) -> Choices:
        """The choices of a run that may exclude each other; `also` adds kinds of runs that the settings do not state."""
        many: dict[Kind, Any] = {
            "recordings": self.recordings,
            "members": self.members,
            "starts": self.starts is not None and self.starts.when == "always",
            "starts if needed": self.starts is not None and self.starts.when == "needed",
            "bootstrap": self.uncertainty,
        }
        return Choices(
            kinds=frozenset({*also, *(kind for kind, given in many.items() if given)}),
            resampled="" if self.uncertainty is None else self.uncertainty.kind,
            solver=self.solver,
            adaptive=self.steps is not None,
            # a solver that is chosen later may come with adaptive steps
            open_steps=self.solver is not None and self.dt is None and self.steps is None,
            adjoint=self.adjoint,
            driver=self.driver,
            formulation=self.formulation,
            observe=self.observe,
            stages=() if self.stages.open else tuple(self.stages.stages),
            events=bool(self.events),
            states=frozenset("node" for path in self.controls if path.split(".")[0] == "nodes"),
        )

    def __post_init__(self) -> None:
        # each of many recordings has a text here
        if self.gauge and self.recordings == {}:
            raise ValueError(
                "gauge fixes controls of many recordings, but there is one; set recordings, or remove gauge"
            )
        many = bool(self.members or self.recordings)
        if self.starts is not None and self.starts.by == "holdout" and (many or not self.holdout):
            raise ValueError(
                "starts.by=holdout is for one fit with frames that are kept out of it; set holdout=0.1, or starts.by=loss"
            )
        if self.data is not None and self.times.forecast is not None:
            raise ValueError("times.forecast is for frames that a twin makes; for data from a file set times.fit_until")
        if self.data is not None and self.noise:
            raise ValueError(
                f"noise = {self.noise} is that of a twin, and these data are from a file; set noise=0, or add noise to them "
                f"with data.noise={self.noise}"
            )
        if self.formulation.partial:
            raise ValueError(
                "formulation leaves out a part of the record; every and until belong to stages (times.fit_until)"
            )
        if isinstance(self.driver, Hosted) and self.device:
            raise ValueError("driver=hosted runs on one device; set device=null, or driver=traced")


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of a verb.

    **Arguments:**

    - `settings`, `name`: the experiment, and its name for tables and files.
    - `directory`: the directory of the run.
    - `console`: the terminal.
    """

    settings: Settings
    directory: Path
    name: str
    console: Console
