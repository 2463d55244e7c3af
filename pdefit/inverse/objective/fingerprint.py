"""Fingerprints of the equations, data and numerics behind a computed number."""

from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from pdefit._util.cache import contents, digest, sources, without_addresses
from pdefit._util.cached_tree import compiler
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.spread import given_devices, on_one
from pdefit.inverse.objective.variants import is_adaptive


def fingerprint(functional: AbstractObjective) -> dict[str, str]:
    """SHA-256 hashes of an objective in three parts, and of pdefit itself.

    `equations` is the traced program of J, with every array an input. `data` are all its input arrays (data, weights,
    known parameters, time grids), except those that theta replaces. `flags` are versions and settings that affect
    round-off. `pdefit` are its sources: the version stays the same between two releases.
    """
    # equations are the same on any number of devices, sums differ by round-off
    bare = _without_steps(on_one(functional))
    return {"equations": _equations(bare), "data": _data(bare), "flags": _flags(functional), "pdefit": own_sources()}


def own_sources() -> str:
    """The SHA-256 of the sources of pdefit."""
    return sources(Path(str(resources.files("pdefit"))))


def _without_steps(functional: AbstractObjective) -> AbstractObjective:
    """The objective with constant steps in place of adaptive ones, of which only the tolerances count.

    Adaptive steps are results, which differ by round-off between machines.
    """
    if not is_adaptive(functional):
        return functional

    def constant(part: Functional, own: Array) -> tuple[Functional, Array]:
        layout = part.formulation.layout(part.observations.ts, np.inf)
        return eqx.tree_at(lambda f: f.layout, part, layout), own

    return functional.each(constant, functional.theta0)[0]


def _equations(functional: AbstractObjective) -> str:
    arrays, static = eqx.partition(functional, eqx.is_array)

    def value(arrays: Any, theta: Any) -> Any:
        return eqx.combine(arrays, static).value(theta)

    program = str(jax.make_jaxpr(value)(arrays, functional.theta0))
    return digest([without_addresses(program)])


def _data(functional: AbstractObjective) -> str:
    leaves = jax.tree.leaves(eqx.filter(functional.emptied(), eqx.is_array))
    tolerance = [] if functional.steps is None else [repr(functional.steps).encode()]
    return digest(chain(tolerance, contents(leaves)))


def _flags(functional: AbstractObjective) -> str:
    dtype = jax.tree.leaves(functional.problem.y0)[0].dtype
    parts = (
        *compiler(),
        str(dtype),
        *(f"{n} devices" for n in [len(given_devices(functional))] if n > 1),
    )
    return digest(["|".join(parts).encode()])
