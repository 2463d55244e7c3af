"""The sections `times`, `data`, `twin`, `initial` and `reference` of a configuration."""

from collections.abc import Mapping
from typing import Any

import diffrax

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._instantiate import make
from pdefit.cli.config._sections import is_number, whole_number
from pdefit.cli.config.settings import DataSettings, Initial, Later, Reference, StateFile, Times, TwinSettings
from pdefit.cli.config.stages import AUTO
from pdefit.systems.preparation import AbstractPreparation

_DATA = ("path", "variables", "sigma", "noise", "time", "coordinates", "axes", "crop", "select", "system", "truth")
_AUTOMATIC = "auto"


def read_times(node: Mapping[str, Any]) -> Times:
    """Settings of the times of frames."""
    for key in ("start", "stop", "fit_until"):
        if node[key] is not None and not is_number(node[key]):
            raise PdefitError(f"times.{key} expects a number, but got '{node[key]}'")
    if node["count"] is not None and not (isinstance(node["count"], int) and node["count"] >= 2):
        raise PdefitError("times expects start < stop and count >= 2, e.g. times={start: 0, stop: 10, count: 41}")
    if node["count"] is not None:
        whole_number(node["count"], "times.count")
    start, stop, until = (None if node[k] is None else float(node[k]) for k in ("start", "stop", "fit_until"))
    return Times(start, stop, node["count"], until, _later(node["forecast"], stop))


def _later(node: Any, stop: float | None) -> Later | None:
    if node is None:
        return None
    complete = isinstance(node, Mapping) and set(node) == {"stop", "count"}
    if not complete or not is_number(node["stop"]) or stop is None or not node["stop"] > stop:
        after = "times.stop" if stop is None else f"times.stop = {stop:g}"
        raise PdefitError(
            f"times.forecast expects a stop after {after} and a count, e.g. {{stop: 20, count: 40}}, but got {node!r}"
        )
    whole_number(node["count"], "times.forecast.count")
    if node["count"] < 1:
        raise PdefitError("times.forecast.count expects one frame or more; set times.forecast=null for no forecast")
    return Later(float(node["stop"]), node["count"])


def read_data(node: Mapping[str, Any] | None) -> DataSettings | None:
    """Settings of a data file; None without one."""
    if node is None:
        return None
    for key in node:
        if key not in _DATA:
            raise unknown("key of data", str(key), _DATA)
    if not isinstance(node.get("variables", {}), Mapping):
        raise PdefitError(
            f"data.variables expects field: variable, e.g. {{u: intensity}}, but got {node['variables']!r}"
        )
    _check_texts(node)
    for key in ("path", "variables"):
        if not node.get(key):
            raise PdefitError(
                f"data.{key} is missing; data expects a path and variables, e.g. variables: {{u: intensity}}"
            )
    coordinates = node.get("coordinates") or {}
    if not isinstance(coordinates, Mapping) or not all(isinstance(v, str | None) for v in coordinates.values()):
        raise PdefitError(
            f"data.coordinates expects axis: variable, e.g. {{x: lon}}, or x: null to compare nothing, but got "
            f"{coordinates!r}"
        )
    axes = node.get("axes") or {}
    lists = isinstance(axes, Mapping) and all(isinstance(v, list) for v in axes.values())
    if not lists or not all(isinstance(name, str) for names in axes.values() for name in names):
        raise PdefitError(
            f"data.axes expects the axes of a variable in the order of the file, e.g. {{u: [x, time]}}, but got {axes!r}"
        )
    noise = 0.0 if node.get("noise") is None else node["noise"]
    if not is_number(noise) or noise < 0:
        raise PdefitError(f"data.noise expects a fraction of each variable's range, e.g. 0.02, but got '{noise}'")
    stated, automatic, unstated = split_sigma(node.get("sigma"), node["variables"])
    truth = node.get("truth") or ()
    return DataSettings(
        path=str(node["path"]),
        variables=dict(node["variables"]),
        sigma=stated,
        automatic=automatic,
        unstated=() if noise else unstated,
        noise=float(noise),
        time=node.get("time") or None,
        coordinates=dict(coordinates),
        axes={field: tuple(names) for field, names in axes.items()},
        select=_select(node.get("select") or {}),
        crop=_crop(node.get("crop") or []),
        system=dict(node.get("system") or {}),
        truth=tuple(truth),
        true_values=truth if isinstance(truth, Mapping) else None,
    )


def _crop(node: Any) -> tuple[tuple[int, int], ...]:
    """Pairs of indices."""
    pairs = isinstance(node, list) and all(isinstance(ends, list) and len(ends) == 2 for ends in node)
    if not pairs or not all(isinstance(i, int) and not isinstance(i, bool) for ends in node for i in ends):
        raise PdefitError(
            f"data.crop expects for each axis the first index and the one after the last, e.g. [[1, 60], [1, 59]], but got "
            f"{node!r}"
        )
    return tuple((first, last) for first, last in node)


def _select(node: Any) -> dict[str, str | int]:
    """For an axis the name or number of one recording."""
    known = isinstance(node, Mapping) and len(node) <= 1
    if not known or not all(isinstance(x, str | int) and not isinstance(x, bool) for x in node.values()):
        raise PdefitError(
            f"data.select expects the axis of the recordings and one of them, e.g. {{experiment: 2}}, but got {node!r}"
        )
    return dict(node)


def _check_texts(data: Mapping[str, Any]) -> None:
    """Refuse names of variables, and of the file, that are not text."""
    if not isinstance(data.get("system") or {}, Mapping):
        raise PdefitError(f"data.system expects argument: variable, e.g. {{gm: gm}}, but got {data['system']!r}")
    truth = data.get("truth") or []
    if not isinstance(truth, list | Mapping):
        raise PdefitError(f"data.truth expects controls with their true values, e.g. {{D: 1.0}}, but got {truth!r}")
    named = {f"data.{key}": data.get(key) for key in ("path", "time")}
    for section in ("variables", "system"):
        named |= {f"data.{section}.{name}": text for name, text in (data.get(section) or {}).items()}
    named |= {f"data.truth.{i}": text for i, text in enumerate([] if isinstance(truth, Mapping) else truth)}
    for key, text in named.items():
        if not isinstance(text, str) and not (key in ("data.path", "data.time") and text is None):
            raise PdefitError(f"{key} expects text, but got '{text}'")


def split_sigma(node: Any, variables: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """The stated entries of `data.sigma`, the variables whose sigma is `auto`, and the variables without a sigma."""
    if node == _AUTOMATIC:
        return {}, tuple(variables), ()
    if node is not None and not isinstance(node, Mapping):
        raise PdefitError(
            f"data.sigma expects an entry for each variable, e.g. {{u: 0.05}}, or `auto`, but got {node!r}"
        )
    given = dict(node or {})
    for name in given:
        if name not in variables:
            raise unknown("variable (data.sigma)", str(name), variables)
    automatic = tuple(name for name, sigma in given.items() if sigma == _AUTOMATIC)
    stated = {name: sigma for name, sigma in given.items() if sigma != _AUTOMATIC}
    return stated, automatic, tuple(name for name in variables if name not in given)


def read_twin(node: Mapping[str, Any] | None) -> TwinSettings | None:
    """Settings of a twin; None without one."""
    if node is None:
        return None
    whole_number(node["seed"], "twin.seed")
    if not isinstance(node["variant"], str):
        raise PdefitError(f"twin.variant expects text, but got '{node['variant']}'")
    if node["dt"] is not None and not (is_number(node["dt"]) and node["dt"] > 0):
        raise PdefitError(f"twin.dt expects a positive time step, but got '{node['dt']}'")
    if not is_number(node["noise"]):
        raise PdefitError(f"twin.noise expects a number, but got '{node['noise']}'")
    refine = node["refine"]
    if not is_number(refine) or refine < 1:
        raise PdefitError(f"twin.refine expects a number >= 1, such as 2 or 1.5, but got {refine}; set twin.refine=1")
    return TwinSettings(
        variant=node["variant"],
        system=node["system"],
        refine=int(refine) if refine == int(refine) else float(refine),
        solver=None if node["solver"] == AUTO else make(node["solver"], "twin.solver", diffrax.AbstractSolver),
        dt=None if node["dt"] is None else float(node["dt"]),
        noise=float(node["noise"]),
        seed=node["seed"],
    )


def read_initial(node: Any) -> Initial:
    """Settings of the initial state."""
    if node == "system" or node == "data":
        return node
    if isinstance(node, Mapping) and set(node) == {"path"}:
        return StateFile(str(node["path"]))
    if isinstance(node, Mapping) and {"name", "_target_"} & {*node}:
        return make(node, "initial", AbstractPreparation)
    raise PdefitError(
        f"initial expects `system`, `data`, a file as {{path: fields.h5}}, or a preparation as {{name: ...}}, but got "
        f"'{node}'"
    )


def read_reference(node: Mapping[str, Any] | None) -> Reference | None:
    """Settings of the reference table; None without one."""
    if node is None:
        return None
    for key in ("path", "column", "time", "fields"):
        if key not in node:
            raise PdefitError(f"reference.{key} is missing; a reference expects path, column, time and fields")
    if not is_number(node["time"]) or not isinstance(node["fields"], Mapping):
        raise PdefitError("reference expects a number as its time, and fields, e.g. {position: [[x1, y1], [x2, y2]]}")
    return Reference(str(node["path"]), str(node["column"]), float(node["time"]), node["fields"])
