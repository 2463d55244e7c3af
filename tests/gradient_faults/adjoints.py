"""Faults of the adjoint: frames lost, tangents exchanged, and wrong states restored."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from zoo import equations
from zoo.cases import LOG, line

import pdefit
from gradient_faults.fits import flow, segments
from gradient_faults.plant import FAULTS, Fault, Planted, fault, wrong_transpose


class Wrapped(pdefit.adjoints.AbstractReverse):
    """The checkpointed adjoint with a fault in its reverse pass."""

    accuracy: ClassVar[float] = 1e-8
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        return self.spoiled(*pdefit.adjoints.Checkpointed().run(stepper, y0, grid, emit, inputs, probes))

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        return pdefit.adjoints.Checkpointed().account(grid, unknowns)


def on_outputs(change: Callable) -> type:
    """An adjoint that applies `change` to the cotangents (frames, ...) of what was observed."""

    class OnOutputs(Wrapped):
        def spoiled(self, y, outputs):
            return y, wrong_transpose(lambda ct: jax.tree.map(lambda c: c if c is None else change(c), ct))(outputs)

    return OnOutputs


def adjoint_fault(name: str, change: Callable, explained: str = "", **options: Any) -> None:
    def make() -> Planted:
        return Planted(flow(adjoint=on_outputs(change)(), **options), flow(**options))

    FAULTS[name] = Fault("adjoint", name, make, explained=explained)


def _from(c, k, factor):
    return c.at[k:].multiply(factor)


adjoint_fault("last_frame_lost", lambda c: c.at[-1].set(0.0))
adjoint_fault("first_frame_lost", lambda c: c.at[1].set(0.0))
adjoint_fault("one_frame_of_101_lost", lambda c: c.at[71 % len(c)].set(0.0) if len(c) > 71 else c, frames=101)
adjoint_fault("scaled_by_1e-3", lambda c: 1.001 * c)
adjoint_fault("scaled_by_1e-5", lambda c: 1.00001 * c)
adjoint_fault("second_half_lost", lambda c: _from(c, 20, 0.0) if len(c) > 20 else c)
adjoint_fault("sign_from_frame_30", lambda c: _from(c, 30, -1.0) if len(c) > 30 else c)
adjoint_fault("last_tenth_weak", lambda c: _from(c, 37, 0.99) if len(c) > 37 else c)


class Rounded(Wrapped):
    """Cotangents of what is observed lose half their digits."""

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        rounded = wrong_transpose(lambda ct: jax.tree.map(lambda c: c.astype(jnp.float32).astype(c.dtype), ct))
        return pdefit.adjoints.Checkpointed().run(stepper, y0, grid, lambda y, i: emit(rounded(y), i), inputs, probes)


@fault("adjoint", explained="7 digits are right: the best that a fit in float32 has")
def cotangents_rounded_to_float32():
    return Planted(flow(adjoint=Rounded()), flow())


class EndLost(Wrapped):
    """What comes in at the end of a trajectory is lost: the jumps of multiple shooting."""

    def spoiled(self, y, outputs):
        return wrong_transpose(lambda ct: jax.tree.map(jnp.zeros_like, ct))(y), outputs


@fault("adjoint")
def jumps_lost_in_reverse():
    return Planted(segments(adjoint=EndLost()), segments())


class OfGradient(pdefit.adjoints.Checkpointed):
    """The gradient itself is changed behind the reverse pass."""

    change: Callable = eqx.field(static=True, default=lambda g, probes: g)

    def gradient(self, function, theta, probes, size):
        value, gradient, growth = super().gradient(function, theta, probes, size)
        return value, self.change(gradient, probes), growth


@fault("adjoint")
def gradient_of_one_element_negative():
    return Planted(flow(adjoint=OfGradient(change=lambda g, _: g.at[1].multiply(-1.0))), flow())


@fault("adjoint")
def gradient_of_one_element_off_by_a_percent():
    return Planted(flow(adjoint=OfGradient(change=lambda g, _: g.at[2].multiply(1.01))), flow())


@fault("adjoint")
def only_the_watched_gradient_wrong():
    return Planted(flow(adjoint=OfGradient(change=lambda g, probes: g if probes is None else 0.9 * g)), flow())


@fault("adjoint")
def watched_gradient_wrong_with_long_probes():
    def change(g, probes):
        return g if probes is None or probes[0].shape[1] < 12 else g.at[0].multiply(0.0)

    return Planted(flow(adjoint=OfGradient(change=change)), flow())


class WrongSeed(pdefit.adjoints.Tangent):
    """Two tangents take each other's place."""

    def gradient(self, function, theta, probes, size):
        value, slopes, growth = super().gradient(function, theta, probes, size)
        return value, slopes[jnp.array([1, 0, *range(2, theta.size)])], growth


@fault("adjoint")
def tangents_change_places():
    return Planted(flow(adjoint=WrongSeed()), flow())


@fault("adjoint", explained="its error is that of the steps: 4e-5, 2e-6 and 1e-7 as they are halved")
def backsolve_of_diffusion_without_backups():
    options = {
        "rate": equations.burgers,
        "at": (1.0, 0.02),
        "u0": 1 + np.sin(2 * np.pi * line(32, 1.0)),
        "stop": 0.4,
        "frames": 9,
        "dt": 0.01,
        "free": {"a": LOG, "b": LOG},
    }
    return Planted(flow(adjoint=pdefit.adjoints.Backsolve(backups=1), **options), flow(**options))


class RestoresTheOneBefore(pdefit.adjoints.AbstractReverse):
    """From the fourth checkpoint on the state of the checkpoint before is restored."""

    accuracy: ClassVar[float] = 1e-8
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        times, sizes = grid.times_and_sizes()

        def interval(carry, start, step):
            (moving_stepper, y) = carry
            for j in range(grid.length):
                y, _ = moving_stepper(start[j], step[j], (y, None))
            return y

        @eqx.filter_custom_vjp
        def restored(moving, before, start, step):
            return interval(moving, start, step)

        def backward(before, cotangent, perturbed, moving, again, start, step):
            _, pull = eqx.filter_vjp(lambda m: interval(m, start, step), (moving[0], before))
            return pull(cotangent)[0]

        restored.def_fwd(lambda perturbed, moving, before, start, step: (interval(moving, start, step), before))
        restored.def_bwd(backward)

        def turn(carry, x):
            before, y = carry
            start, step, inputs_i, i = x
            kept = jax.tree.map(lambda a, b: jnp.where(i >= 4, a, b), lax.stop_gradient(before), lax.stop_gradient(y))
            new = restored((stepper, y), kept, start, step)
            return (lax.stop_gradient(y), new), emit(new, inputs_i)

        seen = [emit(y0, jax.tree.map(lambda x: x[0], inputs))]
        xs = times, sizes, jax.tree.map(lambda x: x[1:], inputs), jnp.arange(len(times))
        (_, y), outputs = lax.scan(turn, (lax.stop_gradient(y0), y0), xs)
        return y, jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), seen[0], outputs)

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        return pdefit.adjoints.Checkpointed().account(grid, unknowns)


@fault("adjoint")
def checkpoint_before_restored_from_the_fourth():
    return Planted(flow(adjoint=RestoresTheOneBefore(), dt=0.125), flow(dt=0.125))
