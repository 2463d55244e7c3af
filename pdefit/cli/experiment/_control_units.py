"""Units of controls, compared with those that the system declares."""

from collections.abc import Mapping
from typing import Any

from pdefit._util.errors import PdefitError
from pdefit.data.units import Conversion, conversion
from pdefit.inverse.controls.declare import Control
from pdefit.systems.capabilities import AbstractGridded
from pdefit.systems.system import AbstractSystem, parameters


def check_control_units(declared: Mapping[str, Any], system: AbstractSystem) -> None:
    """Refuse a control whose unit differs from the system's.

    Guess, bounds, prior, tables and solver share one number, so nothing is converted. The same unit may be spelled in
    another way (`mm2/s` for `mm^2/s`).
    """
    known = {name: info.unit for name, info in parameters(system).items()}
    if isinstance(system, AbstractGridded):
        known |= {f"y0.{name}": where.unit for name, where in system.coords().items()}
    _check(declared, "", known)


def _check(node: Mapping[str, Any], prefix: str, known: Mapping[str, str]) -> None:
    for name, control in node.items():
        path = f"{prefix}{name}"
        if isinstance(control, Mapping):
            _check(control, f"{path}.", known)
        elif (
            isinstance(control, Control)
            and control.unit is not None
            and path in known
            and not _same(control.unit, known[path])
        ):
            raise PdefitError(
                f"controls.{path}.unit is {control.unit}, but the system declares {known[path]}; give its guess, bounds and "
                f"prior in {known[path]}"
            )


def _same(unit: str, declared: str) -> bool:
    try:
        return conversion(unit, declared) == Conversion()
    except PdefitError:
        return False
