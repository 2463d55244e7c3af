"""The section `system` of a configuration: equations with arguments that may still change."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from pdefit._util.block_mean import is_whole
from pdefit._util.errors import PdefitError
from pdefit.cli.config._reader import make
from pdefit.systems.system import AbstractSystem, parameters
from pdefit.systems.terms.base import AbstractTerm
from pdefit.systems.terms.unknown import with_unknown


@dataclasses.dataclass(frozen=True)
class SystemSettings:
    """Name and arguments of a system; data and twins change some of them before it is built.

    The argument `unknown` holds, by field, the terms that are added to its equation.
    """

    node: Mapping[str, Any]

    def build(self) -> AbstractSystem:
        """The system; its positive parameters must not be negative."""
        node = {key: value for key, value in self.node.items() if key != "unknown"}
        system = make(node, "system", AbstractSystem)
        for name, info in parameters(system).items():
            value = getattr(system, name)
            if info.positive and eqx.is_array(value) and bool(np.any(np.asarray(value) < 0)):
                raise PdefitError(f"system.{name} must be positive, but is {np.asarray(value).min():g}")
        terms = self.node.get("unknown") or {}
        if not isinstance(terms, Mapping):
            raise PdefitError(f"system.unknown expects FIELD: {{name: network, inputs: [...]}}, but got {terms!r}")
        return with_unknown(system, {f: make(term, f"system.unknown.{f}", AbstractTerm) for f, term in terms.items()})

    def changed(self, changes: Mapping[str, Any]) -> "SystemSettings":
        """Settings with some arguments changed, at any depth: `{sphere: {radius: 2}}` or `{sphere.radius: 2}`."""
        node = self.node
        for path, value in changes.items():
            for name in reversed(path.split(".")):
                value = {name: value}
            node = merged(node, value)
        return SystemSettings(node)

    def refined(self, factor: int | float) -> "SystemSettings":
        """Settings with `factor` times as many cells along every axis."""
        if factor == 1:
            return self
        grid = self.node.get("grid")
        if not isinstance(grid, Mapping) or "shape" not in grid:
            raise PdefitError(f"twin.refine = {factor} expects a system with grid.shape; set twin.refine=1")
        if not all(is_whole(n * factor) for n in grid["shape"]):
            raise PdefitError(
                f"twin.refine = {factor} expects a whole number of cells along every axis, but {factor} times "
                f"{list(grid['shape'])} is {[n * factor for n in grid['shape']]}; set twin.refine=2"
            )
        return self.changed({"grid": {"shape": [round(n * factor) for n in grid["shape"]]}})


def read_system(node: Any, path: str = "system") -> SystemSettings:
    """The system settings of a configuration."""
    node = {"name": node} if isinstance(node, str) else node
    if not isinstance(node, Mapping) or not {"name", "_target_"} & {*node}:
        raise PdefitError(
            f"An experiment expects a system; choose one with {path}=... (pdefit list systems), but got {node!r}"
        )
    return SystemSettings(node)


def merged(node: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A nested mapping with some entries changed, at any depth; an object with another name replaces the old one completely."""
    out = dict(node)
    for key, value in changes.items():
        old = out.get(key)
        if (
            isinstance(value, Mapping)
            and isinstance(old, Mapping)
            and value.get("name", old.get("name")) == old.get("name")
        ):
            value = merged(old, value)
        out[key] = value
    return out
