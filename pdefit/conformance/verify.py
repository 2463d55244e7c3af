"""Verification of a system class: one call that runs all checks on its example."""

import time
from collections.abc import Callable, Iterator

from pdefit._util.trees import demand_float64
from pdefit.conformance._interfaces import invariants, mechanics, projection, split, switches
from pdefit.conformance._inversion import gradients, recovery
from pdefit.conformance._steps import degenerate_states, space_order, stability, time_order
from pdefit.conformance._structure import coordinates, declarations, execution, refinement, structure
from pdefit.conformance._subject import Subject
from pdefit.conformance.report import Finding, Verification, broken
from pdefit.systems.capabilities import AbstractVerifiable
from pdefit.systems.system import AbstractSystem

_Check = Callable[[Subject], Iterator[Finding]]

# checks that all others rely on: after a failure here the others would only repeat it
_FIRST: tuple[_Check, ...] = (structure, declarations, coordinates, execution)
_THEN: tuple[_Check, ...] = (
    refinement,
    mechanics,
    split,
    switches,
    projection,
    degenerate_states,
    stability,
    time_order,
    space_order,
    invariants,
    gradients,
    recovery,
)


def verify(system_class: type[AbstractSystem]) -> Verification:
    """Verification of a system class on its own example.

    The checks are: structure of states and rates, declared arrays, coordinates, compiled and batched evaluation,
    optional interfaces, degenerate states, stable step, orders in time and space, conservation, gradients, and recovery
    of the parameters from data of the example. They take some seconds, most of them for compilation. In the tests of a
    plugin: `report = pdefit.verify(MySystem); assert report.passed, report`.

    **Arguments:**

    - `system_class`: a class with the method `example` (`pdefit.capabilities.AbstractVerifiable`). Any other class is
      reported as not verified.

    An error that the system raises becomes a finding. Raises `PdefitError` only if JAX is not set to float64.
    """
    demand_float64()
    begin, name = time.perf_counter(), system_class.__name__
    if not issubclass(system_class, AbstractVerifiable):
        return Verification(name, False, (), 0.0)
    try:
        subject = Subject(system_class)
        findings = [f for check in _FIRST for f in _findings(check, subject)]
        if all(f.passed is not False for f in findings):
            findings += [f for check in _THEN for f in _findings(check, subject)]
    except Exception as error:
        findings = [broken("example", error)]
    return Verification(name, True, tuple(findings), time.perf_counter() - begin)


def _findings(check: _Check, subject: Subject) -> Iterator[Finding]:
    """Findings of one check; any error of the system becomes one of them."""
    try:
        yield from check(subject)
    except Exception as error:
        yield broken(check.__name__.replace("_", " "), error)
