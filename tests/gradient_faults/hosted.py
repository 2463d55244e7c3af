"""Faults of the hosted driver: stores of checkpoints, programs and targets."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from zoo.cases import FREE_3

import pdefit
import pdefit.inverse.fit.drivers as drivers
from gradient_faults.fits import flow, priors, tiers
from gradient_faults.plant import FAULTS, Fault, Planted, fault
from pdefit.inverse.offload import _programs as programs
from pdefit.inverse.offload.hosted import HostedFunctional
from pdefit.inverse.offload.stores import HostStore, InMemory
from pdefit.output.store.adjoint_scratch import CheckpointFile


class OffByOneFromFour(HostStore):
    """From slot 4 on the state of the slot before is restored."""

    def read(self, slot):
        return super().read(slot - 1 if slot >= 4 else slot)


class Stale(HostStore):
    """A slot keeps what was written first."""

    def write(self, slot, leaves):
        if slot not in self._kept:
            super().write(slot, leaves)


class Perturbed(HostStore):
    """States lose half their digits on the way."""

    def read(self, slot):
        return [x.astype(np.float16).astype(x.dtype) for x in super().read(slot)]


def in_store(name: str, cls: type, **options: Any) -> None:
    FAULTS[name] = Fault(
        "tiers",
        name,
        lambda: Planted(flow(), flow(), tiers()),
        patches=lambda: [(drivers, "HostStore", cls)],
        **options,
    )


in_store("host_checkpoint_off_by_one_from_slot_4", OffByOneFromFour)
in_store("host_slot_stale", Stale)
in_store("host_states_in_half_precision", Perturbed)


class StaleFile(CheckpointFile):
    """What was prefetched before a write is taken for what was written."""

    def write(self, slot, leaves):
        if slot in self._written and slot >= 3:
            return
        super().write(slot, leaves)


@fault("tiers")
def file_slot_stale():
    folder = Path(tempfile.mkdtemp())
    driver = tiers("3 kB", 16, 96, open_file=lambda like, slots: StaleFile(folder / "checkpoints.h5", like, slots))
    return Planted(flow(), flow(), driver)


class Swapped(CheckpointFile):
    """Two slots of the file change places."""

    def read(self, slot):
        return super().read({1: 2, 2: 1}.get(slot, slot) if {1, 2} <= self._written else slot)


@fault("tiers")
def file_slots_change_places():
    folder = Path(tempfile.mkdtemp())
    driver = tiers("3 kB", 16, 96, open_file=lambda like, slots: Swapped(folder / "checkpoints.h5", like, slots))
    return Planted(flow(), flow(), driver)


def in_program(
    name: str, program: str, change: Callable, base: Callable = flow, device: str = "3 kB", **options: Any
) -> None:
    """A fault in one of the hosted driver's programs."""
    right = getattr(programs, program)

    def wrong(*arguments: Any) -> Any:
        return change(right(*arguments), arguments)

    wrong.lower = right.lower  # pyright: ignore[reportFunctionMemberAccess]

    FAULTS[name] = Fault(
        "hosted",
        name,
        lambda: Planted(base(), base(), tiers(device)),
        patches=lambda: [(programs, program, wrong)],
        **options,
    )


def _late_piece(schedule: Any) -> bool:
    """Whether a piece begins after half of the record."""
    return float(np.asarray(schedule.time_grid.start).ravel()[0]) > 5.0


in_program(
    "piece_adds_nothing_to_the_gradient",
    "reverse",
    lambda out, a: (out[0], a[5] if _late_piece(a[3]) else out[1], out[2]),
)
in_program(
    "cotangent_lost_between_late_pieces",
    "reverse",
    lambda out, a: (jax.tree.map(jnp.zeros_like, out[0]) if _late_piece(a[3]) else out[0], *out[1:]),
)
in_program(
    "cotangent_weak_between_pieces",
    "reverse",
    lambda out, a: (jax.tree.map(lambda c: (1 - 1e-4) * c, out[0]), *out[1:]),
)
in_program(
    "hosted_start_lost",
    "reverse_start",
    lambda out, a: a[4],
    lambda: flow(free={**FREE_3, "y0": {"u": pdefit.transforms.Identity()}}),
    device="4 kB",
)
in_program("hosted_priors_lost", "close", lambda out, a: (out[0], (jnp.zeros_like(out[1][0]), out[1][1])), priors)
in_program(
    "hosted_walk_loses_a_piece",
    "advance_tangents",
    lambda out, a: out._replace(total=a[1].total) if _late_piece(a[2]) else out,
    wrong="normal",
)
in_program(
    "hosted_tangents_start_anew",
    "advance_tangents",
    lambda out, a: out._replace(tangents=jax.tree.map(lambda x: 0.5 * x, out.tangents)) if _late_piece(a[2]) else out,
    wrong="normal",
)


class _WrongProduct(HostedFunctional):
    def gauss_newton_product(self, theta, v):
        return super().gauss_newton_product(theta, v).at[0].multiply(-1.0)


class _WrongGradient(HostedFunctional):
    def watched_gradient(self, theta):
        value, gradient, growth = super().watched_gradient(theta)
        return value, gradient.at[0].multiply(-1.0) if self.functional.observations.ts.size > 6 else gradient, growth


@fault("hosted", wrong="product", patches=lambda: [(drivers, "HostedFunctional", _WrongProduct)])
def hosted_product_sign():
    return Planted(flow(), flow(), tiers())


@fault("hosted", patches=lambda: [(drivers, "HostedFunctional", _WrongGradient)])
def hosted_sign_beyond_six_frames():
    return Planted(flow(), flow(), tiers())


class LateFrames(InMemory):
    """Beyond the thirtieth frame that of before is read."""

    def read(self, first, last):
        found = super().read(first, last)
        if first < 30:
            return found
        return super().read(first - 1, last - 1)


@fault("hosted")
def targets_a_frame_late():
    base = flow()
    return Planted(base, flow(), tiers(targets=LateFrames(base.observations)))
