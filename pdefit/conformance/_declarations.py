"""Checks of the description of a system: all arrays declared, all fields with coordinates."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from pdefit._util.trees import named_fields
from pdefit.conformance._subject import Subject, relative
from pdefit.conformance.report import Finding, at_most, not_applicable
from pdefit.systems.capabilities import AbstractGridded, AbstractRefinable


def declarations(subject: Subject) -> Iterator[Finding]:
    """Declared arrays: any other array would be neither an unknown nor a constant."""
    loose = list(_undeclared(subject.system, ""))
    remedy = f"declare {', '.join(loose)} with pdefit.parameter or pdefit.constant"
    yield at_most("floating-point arrays not declared", len(loose), 0, remedy)


def _undeclared(module: Any, prefix: str) -> Iterator[str]:
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if "parameter" in field.metadata or "constant" in field.metadata or field.metadata.get("static"):
            continue
        if isinstance(value, eqx.Module):
            yield from _undeclared(value, f"{prefix}{field.name}.")
        elif any(_is_floating(x) for x in jax.tree.leaves(value)):
            yield prefix + field.name


def _is_floating(x: Any) -> bool:
    return eqx.is_inexact_array(x) or (isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.inexact))


def coordinates(subject: Subject) -> Iterator[Finding]:
    """Coordinates of an AbstractGridded system: a name and a value for every index of every field."""
    system, name = subject.system, "coordinates that do not fit their field"
    if not isinstance(system, AbstractGridded):
        yield not_applicable(name, "the system is not AbstractGridded, so films have numbered axes")
        return
    coords, fields = system.coords(), named_fields(subject.y0)
    wrong = sorted(set(coords) ^ set(fields))
    for field, value in fields.items():
        given = coords.get(field)
        if given is None:
            continue
        lengths = tuple(len(given.coords[d]) for d in given.dims if d in given.coords)
        if lengths != value.shape or len(set(given.dims)) != len(given.dims):
            wrong.append(f"{field} (coordinates {lengths}, field {value.shape})")
    yield at_most(
        name, len(wrong), 0, f"coords() must describe the fields of the state as they are: {', '.join(wrong)}"
    )


def refinement(subject: Subject) -> Iterator[Finding]:
    """Coarsening of an AbstractRefinable system: it halves axes, keeps trees and dtypes, and preserves a constant."""
    system, y = subject.system, subject.y1
    name = "coarsened by 2, wrong shapes"
    if not isinstance(system, AbstractRefinable):
        yield not_applicable(name, "the system is not AbstractRefinable, so a twin cannot refine its grid")
        return
    coarse: Any = system.coarsen(y, 2)
    pairs = list(zip(jax.tree.leaves(coarse), jax.tree.leaves(y), strict=True))
    wrong = sum(not _halved(c.shape, f.shape) or c.dtype != f.dtype for c, f in pairs)
    remedy = "coarsen must average blocks of `factor` cells along every axis of the grid, and keep the dtype"
    yield at_most(name, wrong, 0, remedy)
    flat = jax.tree.map(lambda x: 0 * x + 3, y)
    constant = jax.tree.map(lambda x: 0 * x + 3, coarse)
    remedy = "coarsen must average, not add"
    yield at_most("coarsened constant against the constant", relative(system.coarsen(flat, 2), constant), 1e-12, remedy)


def _halved(coarse: tuple[int, ...], fine: tuple[int, ...]) -> bool:
    """Whether some axes (those of the grid) are half as long, and the others (components) as they were."""
    same_rank = len(coarse) == len(fine) and coarse != fine
    return same_rank and all(c in (n, n // 2) for c, n in zip(coarse, fine, strict=True))
