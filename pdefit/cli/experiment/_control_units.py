"""Units of controls, compared with those that the system declares."""

from collections.abc import Mapping
from typing import Any

from pdefit._util.errors import PdefitError
from pdefit.data.units import Conversion, conversion
from pdefit.inverse.controls.declare import Control
from pdefit.inverse.controls.paths import declaration
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractGridded


def check_control_units(declared: Mapping[str, Any], problem: Problem) -> None:
    """Refuse a control whose unit differs from that of the system or the observation operator.

    Guess, bounds, prior, tables and solver share one number, so nothing is converted. The same unit may be spelled in
    another way (`mm2/s` for `mm^2/s`).
    """
    system = problem.system
    states = {f"y0.{n}": x.unit for n, x in system.coords().items()} if isinstance(system, AbstractGridded) else {}
    _check(declared, "", problem, states)


def _check(node: Mapping[str, Any], prefix: str, problem: Problem, states: Mapping[str, str]) -> None:
    for name, control in node.items():
        path = f"{prefix}{name}"
        if isinstance(control, Mapping):
            _check(control, f"{path}.", problem, states)
        elif isinstance(control, Control) and control.unit is not None:
            info = declaration(problem, path)
            known = info.unit if info else states.get(path)
            if known is not None and not _same(control.unit, known):
                owner = "observation operator" if path.startswith("observe.") else "system"
                raise PdefitError(
                    f"controls.{path}.unit is {control.unit}, but the {owner} declares {known}; give its guess, bounds and "
                    f"prior in {known}"
                )


def _same(unit: str, declared: str) -> bool:
    try:
        return conversion(unit, declared) == Conversion()
    except PdefitError:
        return False
