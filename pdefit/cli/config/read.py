"""Settings from a composed configuration. Every key is read and checked here, and nowhere else."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
from omegaconf import DictConfig, OmegaConf

from pdefit._util.errors import PdefitError
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed
from pdefit.cli.config._controls import read_controls
from pdefit.cli.config._instantiate import make
from pdefit.cli.config._sections import check_sections, is_number, shipped, whole_number
from pdefit.cli.config._sources import read_data, read_initial, read_reference, read_times, read_twin
from pdefit.cli.config._system import read_system
from pdefit.cli.config.configuration import readable
from pdefit.cli.config.recordings import each_recording, read_gauge
from pdefit.cli.config.settings import PosteriorSettings, Settings
from pdefit.cli.config.stages import AUTO, read_stages
from pdefit.cli.config.store import read_store
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch
from pdefit.inverse.controls.regularizers import AbstractRegularizer
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted, Traced
from pdefit.inverse.problem.instrument import AbstractObservationOperator
from pdefit.inverse.shooting.formulation import AbstractFormulation


def read_settings(cfg: DictConfig) -> Settings:
    """Settings of a configuration, checked as far as that is possible without data."""
    node = _plain(cfg)
    devices = _choose_devices(node["device"])
    gauge, each = read_gauge(node), each_recording(node)
    settings = {} if isinstance(each, str) else {name: _settings(one) for name, one in each.items()}
    first = next(iter(settings.values())) if settings else _settings(node)
    if devices and isinstance(first.driver, Hosted):
        raise PdefitError("driver=hosted runs on one device; set device=null, or driver=traced")
    return dataclasses.replace(
        first, recordings=each if isinstance(each, str) else settings, gauge=gauge, devices=devices
    )


def _settings(node: Mapping[str, Any]) -> Settings:
    if node["data"] is not None and node["times"]["forecast"] is not None:
        raise PdefitError("times.forecast is for frames that a twin makes; for data from a file set times.fit_until")
    adjoint, driver = _adjoint_and_driver(node)
    formulation = make(node["formulation"], "formulation", AbstractFormulation)
    if formulation.partial:
        raise PdefitError(
            "formulation leaves out a part of the record; every and until belong to stages (times.fit_until)"
        )
    return Settings(
        seed=_count(node, "seed"),
        dtype=_one_of(node, "dtype", ("float32", "float64"), "float32 or float64"),
        certificate=_one_of(node, "certificate", ("stop", "warn", "end"), "stop, warn or end"),
        max_iterations=_iterations(node),
        render=_flag(node, "render"),
        holdout=_holdout(node["holdout"]),
        dt=_step(node["dt"]),
        lyapunov=_flag(node, "lyapunov"),
        posterior=_posterior(node["posterior"]),
        smooth_tangents=_flag(node, "smooth_tangents"),
        times=read_times(node["times"]),
        data=read_data(node["data"]),
        twin=read_twin(node["twin"]),
        system=read_system(node["system"]),
        initial=read_initial(node["initial"]),
        args=None if node["args"] is None else make(node["args"], "args", eqx.Module),
        observe=make(node["observe"], "observe", AbstractObservationOperator),
        solver=None if node["solver"] == AUTO else make(node["solver"], "solver", diffrax.AbstractSolver),
        steps=None if node["steps"] is None else make(node["steps"], "steps", Adaptive),
        adjoint=adjoint,
        driver=driver,
        batch=make(node["batch"], "batch", AbstractBatch),
        formulation=formulation,
        stages=read_stages(node["stages"]),
        controls=read_controls(node["controls"]),
        regularizers=tuple(make(r, f"regularizers.{n}", AbstractRegularizer) for n, r in node["regularizers"].items()),
        store=read_store(node["store"]),
        reference=read_reference(node["reference"]),
    )


def _plain(cfg: DictConfig) -> dict[str, Any]:
    """Configuration as plain Python objects, with all of its sections."""
    try:
        plain = OmegaConf.to_container(cfg, resolve=True)
    # resolvers, and interpolations that contain themselves, may raise any exception
    except Exception as error:
        raise readable(error) from None
    if not isinstance(plain, dict):
        raise PdefitError("A configuration expects keys and values; this one has none")
    # a missing operator means that all is observed, not nothing
    if plain.get("observe") is None:
        plain["observe"] = shipped("observe/all.yaml")
    check_sections({**plain})
    if plain["noise"] is not None and not is_number(plain["noise"]):
        raise PdefitError(f"noise expects a number, but got '{plain['noise']}'")
    return {str(k): v for k, v in plain.items()}


def _choose_devices(given: Any) -> tuple[int, ...]:
    """Numbers of the devices that a fit is spread over, none for one device; JAX is told of the kind, or of that one."""
    numbers = given if isinstance(given, list) else []
    counted = bool(numbers) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers)
    if not (counted and len({*numbers}) == len(numbers)) and given not in (None, "cpu", "gpu", "all"):
        raise PdefitError(f"device expects cpu, gpu, all, or numbers of devices such as [0, 1], but got '{given}'")
    if given in ("cpu", "gpu"):
        jax.config.update("jax_platforms", {"gpu": "cuda"}.get(given, given))
    try:
        there = jax.devices()
    except RuntimeError:
        raise PdefitError(f"There is no {given} that JAX can use here; set device=cpu") from None
    if numbers and max(numbers) >= len(there):
        raise PdefitError(
            f"device={given} names number {max(numbers)}, but JAX finds {len(there)} here, counted from 0; set device=all"
        )
    if len(numbers) == 1:
        jax.config.update("jax_default_device", there[numbers[0]])
    chosen = range(len(there)) if given == "all" else numbers
    return tuple(chosen) if len(chosen) > 1 else ()


def _adjoint_and_driver(node: Mapping[str, Any]) -> tuple[AbstractAdjoint, AbstractDriver]:
    adjoint, driver = make(node["adjoint"], "adjoint", AbstractAdjoint), make(node["driver"], "driver", AbstractDriver)
    chooses = isinstance(driver, Hosted) or (isinstance(driver, Traced) and driver.memory is not None)
    if chooses and not isinstance(adjoint, Checkpointed):
        raise PdefitError(
            f"driver={node['driver']['name']} chooses how many checkpoints there are, so it expects adjoint=checkpointed; "
            f"{type(adjoint).__name__} runs with driver=traced driver.memory=null"
        )
    return adjoint, driver


def _count(node: Mapping[str, Any], key: str) -> int:
    whole_number(node[key], key)
    return node[key]


def _iterations(node: Mapping[str, Any]) -> int | None:
    if node["max_iterations"] is None:
        return None
    if _count(node, "max_iterations") == 0:
        raise PdefitError(
            "max_iterations expects 1 or more, but got 0; pdefit plan and pdefit certify look at the guess without fitting"
        )
    return node["max_iterations"]


def _one_of(node: Mapping[str, Any], key: str, allowed: tuple[str, ...], told: str) -> Any:
    if node[key] not in allowed:
        raise PdefitError(f"{key} expects {told}, but got '{node[key]}'")
    return node[key]


def _flag(node: Mapping[str, Any], key: str) -> bool:
    if not isinstance(node[key], bool):
        raise PdefitError(f"{key} expects true or false, but got '{node[key]}'")
    return node[key]


def _posterior(given: Any) -> PosteriorSettings | None:
    if given is None:
        return None
    node = {"samples": 0, **(given if isinstance(given, Mapping) else {"rank": given})}
    if set(node) != {"rank", "samples"}:
        raise PdefitError(f"posterior expects a rank, or {{rank: 100, samples: 3}}, but got {given!r}")
    for key, least in (("rank", 1), ("samples", 0)):
        whole_number(node[key], f"posterior.{key}")
        if node[key] < least:
            raise PdefitError(f"posterior.{key} expects 1 or more, but got 0; posterior=null leaves it out")
    return PosteriorSettings(**node)


def _step(dt: Any) -> float | None:
    if dt is None:
        return None
    if not is_number(dt):
        raise PdefitError(f"dt expects a number, but got '{dt}'")
    if not dt > 0:
        raise PdefitError(f"dt expects a positive time step, but got {dt}")
    return float(dt)


def _holdout(node: Any) -> float | list[int]:
    if isinstance(node, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in node):
        return node
    if node is not None and not is_number(node):
        raise PdefitError(
            f"holdout expects a fraction of the fitted frames between 0 and 0.5, or numbers of frames, but got '{node}'"
        )
    return node or 0.0
