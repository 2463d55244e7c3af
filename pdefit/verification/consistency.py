"""Do the optional interfaces say what the vector field says."""

from collections.abc import Iterator

import jax.numpy as jnp

from pdefit.systems.interfaces import AbstractMechanical, AbstractSwitched
from pdefit.verification.report import Finding, at_most, not_applicable
from pdefit.verification.subject import Subject, gap, rates, relative

_SAME = 1e-9


def mechanics(subject: Subject) -> Iterator[Finding]:
    """AbstractMechanical: positions and velocities split the state, and their rates are velocities and accelerations."""
    system, y = subject.system, subject.y1
    if not isinstance(system, AbstractMechanical):
        yield not_applicable("mechanics", "the system is not AbstractMechanical")
        return
    t = jnp.asarray(float(subject.example.ts[-1]))
    x, v, slope = system.positions(y), system.velocities(y), rates(system, t, y)
    remedy = "assemble must undo positions and velocities"
    yield at_most("assembled state against the state", gap(system.assemble(x, v), y), 0, remedy)
    remedy = "the rate of the positions must be the velocities"
    yield at_most("rate of positions against velocities", relative(system.positions(slope), v), _SAME, remedy)
    found = system.acceleration(t, x, None)
    remedy = "acceleration must be the rate of the velocities in vector_field; symplectic solvers use it alone"
    yield at_most("acceleration against rate of velocities", relative(found, system.velocities(slope)), _SAME, remedy)


def switches(subject: Subject) -> Iterator[Finding]:
    """AbstractSwitched: `smoothed` gave a system that says it is smooth; the gradient checks then test that it is."""
    system = subject.system
    if not isinstance(system, AbstractSwitched):
        yield not_applicable("switches", "the system is not AbstractSwitched")
        return
    remedy = "smoothed() must return a system with is_smooth"
    yield at_most("smoothed() that is not smooth", float(not system.is_smooth), 0, remedy)
