"""Every installed system passes its verification, and a defect planted here is caught by the check that is meant for it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import Gravity
from pdefit_reaction import FisherKPP
from pdefit_reaction.fisher_kpp import State as Density
from small_systems import Decay, Level, Relay, State, Swing

import pdefit
from pdefit.cli.runtime.plugins import systems
from pdefit.conformance import _interfaces as interfaces
from pdefit.conformance import _inversion as inversion
from pdefit.conformance import _steps as steps
from pdefit.conformance import _structure as structure
from pdefit.conformance._subject import Subject


def failed(found):
    return [f.name for f in found if f.passed is False]


@pytest.mark.parametrize("name", systems())
def test_every_installed_system_passes(name):
    report = pdefit.verify(systems()[name])
    assert report.passed, str(report)
    checked = [f.name for f in report.findings if f.passed]
    assert {"order in time", "all controls: tangent against differences"} < set(checked)
    assert "parameters found again, relative error" in checked


@pytest.mark.parametrize("name", systems())
def test_rates_of_every_installed_system_are_computed_in_the_precision_of_the_state(name):
    """Every operation of a float32 right-hand side is float32, and of a float64 one float64."""
    found = list(structure.structure(Subject(systems()[name])))
    assert {f"other precision inside a float{bits} vector field" for bits in (32, 64)} <= {f.name for f in found}
    assert not failed(found)


def test_the_system_that_most_defects_are_planted_in_is_right():
    report = pdefit.verify(Decay)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("system", "group"),
    [
        (Level, interfaces.projection),
        (Relay, inversion.gradients),
        (Relay, interfaces.switches),
        (Swing, steps.degenerate_states),
    ],
)
def test_the_other_ones_are_right_where_they_get_one(system, group):
    found = list(group(Subject(system)))
    assert any(f.passed for f in found) and not failed(found)


# --- what everything else relies on: the whole verification stops there ---------------------------------------------


class Single(Decay):
    def vector_field(self, t, y, args):
        return State((-self.k * y.u).astype(jnp.float32))


class HiddenSingle(Decay):
    def vector_field(self, t, y, args):
        return State(-self.k * y.u.astype(jnp.float32))


class Double(Decay):
    def vector_field(self, t, y, args):
        return State(-self.k * y.u * jnp.ones(3, jnp.float64))


class HiddenDouble(Decay):
    def vector_field(self, t, y, args):
        return State((-self.k * y.u * np.ones(3)).astype(y.u.dtype))


class Tuple(Decay):
    def vector_field(self, t, y, args):
        return (-self.k * y.u,)


class Broadcast(Decay):
    def vector_field(self, t, y, args):
        return State(-self.k * y.u[:, None] * jnp.ones((1, 3), y.u.dtype))


class Branching(Decay):
    def vector_field(self, t, y, args):
        return State(-self.k * y.u if float(y.u[0]) > 0 else y.u)


class AcrossTheBatch(Decay):
    def vector_field(self, t, y, args):
        return State(jax.pure_callback(lambda u: -np.asarray(u) * u.size, y.u, y.u, vmap_method="broadcast_all"))


class Loose(Decay):
    weight: jax.Array = eqx.field(converter=jnp.asarray, default=0.5)


class WrongCoordinates(Decay):
    def coords(self):
        return {"u": pdefit.capabilities.FieldCoords(("cell",), {"cell": np.arange(4)})}


class Unnamed(Decay):
    def coords(self):
        return {"v": pdefit.capabilities.FieldCoords(("cell",), {"cell": np.arange(3)})}


class Still(Decay):
    def vector_field(self, t, y, args):
        return State(-1e-6 * self.k * y.u)


class Explodes(Decay):
    def vector_field(self, t, y, args):
        return State(y.u / (y.u[0] - y.u[0]))


@pytest.mark.parametrize(
    ("system", "check"),
    [
        (Single, "rates that are not float64"),
        (HiddenSingle, "other precision inside a float64 vector field"),
        (HiddenDouble, "other precision inside a float32 vector field"),
        (Double, "rates that are not float32"),
        (Tuple, "rates differ from the tree of a float64 state"),
        (Broadcast, "rates of another shape (float64)"),
        (Branching, "structure"),
        (AcrossTheBatch, "vmap against one by one"),
        (Loose, "floating-point arrays not declared"),
        (WrongCoordinates, "coordinates that do not fit their field"),
        (Unnamed, "coordinates that do not fit their field"),
        (Still, "change over the example, relative"),
        (Explodes, "rates or states that are not finite"),
    ],
)
def test_a_system_that_is_none_is_caught(system, check):
    report = pdefit.verify(system)
    assert check in failed(report.findings) and not report.passed, str(report)
    assert "order in time" not in {f.name for f in report.findings}


# --- the physics and numerics -----------------------------------------------------------------------------------------


class OneSided(FisherKPP):
    """The gradient of a drift that is of first order only."""

    def vector_field(self, t, y, args):
        drift = jnp.diff(y.u, prepend=1.0) / self.grid.spacing[0]
        return Density(pdefit.diffuse(self.grid, self.D, y.u) + self.r * y.u * (1 - y.u) - 0.5 * drift)

    def exact(self, t):
        return Density(FisherKPP(self.grid, self.D, self.r, front=self.front + 0.5 * t).exact(t).u)


class HardSwitch(FisherKPP):
    def vector_field(self, t, y, args):
        growth = jnp.where(y.u > 0.2, y.u * (1 - y.u), 0.0)
        return Density(pdefit.diffuse(self.grid, self.D, y.u) + self.r * growth)


class Hidden(FisherKPP):
    def vector_field(self, t, y, args):
        D = jax.lax.stop_gradient(self.D)
        return Density(pdefit.diffuse(self.grid, D, y.u) + self.r * y.u * (1 - y.u))


class StepTooLong(FisherKPP):
    def stable_step(self, y):
        return 1.1 * FisherKPP.stable_step(self, y)


class StepFarTooLong(FisherKPP):
    def stable_step(self, y):
        return 2 * FisherKPP.stable_step(self, y)


class Adds(FisherKPP):
    def coarsen(self, y, factor):
        return Density(factor * self.grid.coarsen(y.u, factor))


class Crops(FisherKPP):
    def coarsen(self, y, factor):
        return Density(y.u[: y.u.size // factor - 1])


class WrongInvariant(Gravity):
    def invariants(self, y):
        return {"energy": jnp.sum(self.gm[:, None] * y.velocity**2)}


class WrongAcceleration(Gravity):
    def acceleration(self, t, x, args):
        return 1.001 * Gravity.acceleration(self, t, x, args)

    def vector_field(self, t, y, args):
        return type(y)(y.velocity, Gravity.acceleration(self, t, y.position, args))


class Swapped(Gravity):
    def assemble(self, x, v):
        return type(self.init(None))(v, x)


class Root(Decay):
    def vector_field(self, t, y, args):
        return State(-self.k * jnp.sqrt(y.u))


class Norm(Swing):
    def acceleration(self, t, x, args):
        return -self.k * x / jnp.linalg.norm(x)

    def vector_field(self, t, y, args):
        return type(y)(y.v, self.acceleration(t, y.x, args))


class Kinked(Decay):
    """A pulse whose ends no step meets."""

    def vector_field(self, t, y, args):
        return State(-self.k * y.u + jnp.where((t > 0.137) & (t < 0.5711), 1.0, 0.0).astype(y.u.dtype))


class WrongExact(Decay):
    def exact(self, t):
        return State(jnp.exp(-1.01 * self.k * t) * self.start)


class LeavesTheConstraint(Level):
    def vector_field(self, t, y, args):
        return State(-self.k * y.u + 1.0)


class HalfProjected(Level):
    def project(self, y):
        return State(y.u - jnp.mean(y.u) / 2)


class NeverSmooth(Relay):
    def smoothed(self):
        return self


class WrongDerivative(Decay):
    """The value of -k u with a derivative that is 1 % off."""

    def vector_field(self, t, y, args):
        rate = -self.k * y.u
        return State(1.01 * rate - 0.01 * jax.lax.stop_gradient(rate))


class SplitFront(FisherKPP):
    def linear_solve(self, y, h):
        return FisherKPP.linear_solve(self, y, 1.01 * h)


class SplitTwice(FisherKPP):
    def explicit(self, t, y, args):
        return self.vector_field(t, y, args)


class SplitBent(FisherKPP):
    def linear(self, y):
        return type(y)(FisherKPP.linear(self, y).u - self.r * y.u**2)

    def explicit(self, t, y, args):
        return type(y)(self.r * y.u)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("system", "group", "check"),
    [
        (OneSided, steps.space_order, "order against the exact solution"),
        (WrongExact, steps.space_order, "order against the exact solution"),
        (Kinked, steps.time_order, "order in time"),
        (NeverSmooth, inversion.gradients, "all controls: tangent against differences"),
        (Hidden, inversion.gradients, "D: tangent against differences"),
        (WrongDerivative, inversion.gradients, "k: tangent against differences"),
        (StepTooLong, steps.stability, "stated Euler limit over 2 / (fastest decay rate)"),
        (StepFarTooLong, steps.stability, "growth at the stated Euler limit"),
        (Root, steps.degenerate_states, "zero state: value or gradient not finite"),
        (Norm, steps.degenerate_states, "coincident positions: value or gradient not finite"),
        (Adds, structure.refinement, "coarsened constant against the constant"),
        (Crops, structure.refinement, "coarsened by 2, wrong shapes"),
        (WrongInvariant, interfaces.invariants, "fall of the drift of energy, order"),
        (LeavesTheConstraint, interfaces.projection, "rates that leave the constraint"),
        (HalfProjected, interfaces.projection, "projected twice against once"),
        (WrongAcceleration, interfaces.mechanics, "acceleration against rate of velocities"),
        (Swapped, interfaces.mechanics, "assembled state against the state"),
        (SplitTwice, interfaces.split, "explicit and linear against the vector field"),
        (SplitBent, interfaces.split, "linear part of a sum against the sum"),
        (SplitFront, interfaces.split, "(1 - h L) of linear_solve against the state"),
        (NeverSmooth, interfaces.switches, "smoothed() that is not smooth"),
    ],
)
def test_a_planted_defect_is_caught_by_its_check(system, group, check):
    assert check in failed(group(Subject(system)))


def test_a_hard_switch_is_told_by_how_errors_fall():
    found = {f.name: f for f in inversion.gradients(Subject(HardSwitch))}["all controls: tangent against differences"]
    assert found.measured > 1e-6 and "jump from step to step" in str(found) and "hard switch" in found.remedy


# --- what is reported without being a failure ------------------------------------------------------------------------


class Product(Decay):
    """Only k m matters."""

    m: jax.Array = pdefit.parameter(positive=True, default=1.0)

    def vector_field(self, t, y, args):
        return State(-self.k * self.m * y.u)


class Unused(Decay):
    m: jax.Array = pdefit.parameter(default=0.0)


def test_parameters_that_the_example_cannot_tell_are_named():
    (told,) = inversion.recovery(Subject(Product))
    assert (
        told.name == "parameters that the example does not determine" and told.passed is None and told.remedy == "k, m"
    )
    found = {f.name: f for f in inversion.recovery(Subject(Unused))}
    assert found["parameters that the example does not determine"].remedy == "m"
    assert found["parameters found again, relative error"].passed


def test_a_recovery_that_fails_names_the_parameter(monkeypatch):
    monkeypatch.setattr(inversion, "_EVALUATIONS", 2)
    (found,) = inversion.recovery(Subject(Decay))
    assert found.passed is False and found.remedy.startswith("k is not found")


class NoExample(pdefit.AbstractSystem):
    time_unit = "s"

    def vector_field(self, t, y, args):
        return y

    def init(self, key):
        return jnp.zeros(1)


class RaisingExample(Decay):
    @classmethod
    def example(cls, resolution):
        raise ValueError("no data file\nat all")


def test_a_system_without_an_example_is_unverified():
    report = pdefit.verify(NoExample)
    assert not report.verified and not report.passed and not report.failures
    assert "unverified" in str(report) and "AbstractVerifiable" in str(report)


def test_a_report_reads_like_one():
    report = pdefit.verify(RaisingExample)
    assert not report.passed
    assert "example: it raised ValueError: no data file" in str(report) and "at all" not in str(report)
    lines = str(pdefit.verify(Still)).splitlines()
    assert lines[0].startswith("Still: ") and "checks passed in" in lines[0]
    (wrong,) = [line for line in lines if "FAILED" in line]
    assert "change over the example" in wrong and "limit >= 0.001" in wrong and "stands still" in wrong
