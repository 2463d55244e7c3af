"""Checks of structure: shape of rates, compiled and batched evaluation, declared arrays, and coordinates."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.trees import cast, named_fields
from pdefit.conformance._subject import Subject, finite, gap, rates, relative, size
from pdefit.conformance.report import Finding, at_least, at_most, not_applicable
from pdefit.systems.capabilities import AbstractRefinable
from pdefit.systems.system import AbstractSystem

# relative difference by the same arithmetic in another order, where rates are small differences of large terms
_SAME = 1e-9


def structure(subject: Subject) -> Iterator[Finding]:
    """Tree, shapes and dtypes of dy/dt against y, for states in float64 and in float32."""
    for dtype in (jnp.float64, jnp.float32):
        system, y0 = cast((subject.system, subject.y0), dtype)
        name, time = jnp.dtype(dtype).name, jnp.zeros((), dtype)
        rate = eqx.filter_eval_shape(lambda s, y, t: s.vector_field(t, y, None), system, y0, time)
        same_tree = jax.tree.structure(rate) == jax.tree.structure(y0)
        remedy = "return the state's own class with a rate for each field"
        yield at_most(f"rates differ from the tree of a {name} state", float(not same_tree), 0, remedy)
        if not same_tree:
            return
        pairs = list(zip(jax.tree.leaves(rate), jax.tree.leaves(y0), strict=True))
        remedy = "make each rate as large as its field; a broadcast may have enlarged it"
        yield at_most(f"rates of another shape ({name})", sum(a.shape != b.shape for a, b in pairs), 0, remedy)
        remedy = "let every array follow the dtype of the state (y.u.dtype); NumPy arrays and fixed dtypes do not"
        yield at_most(f"rates that are not {name}", sum(a.dtype != b.dtype for a, b in pairs), 0, remedy)
        yield _precision(system, y0, time)


def _precision(system: AbstractSystem, y0: PyTree, time: Array) -> Finding:
    """Arithmetic in another precision inside a vector field.

    The dtype of the result does not reveal it: a float32 intermediate times a float64 parameter is float64 again, and
    float64 transforms may be rounded at the end.
    """
    arrays, rest = eqx.partition((system, y0), eqx.is_array)

    def field(arrays: PyTree) -> PyTree:
        system, y = eqx.combine(arrays, rest)
        return system.vector_field(time, y, None)

    kinds = {v.aval.dtype for v in _variables(jax.make_jaxpr(field)(arrays).jaxpr) if hasattr(v.aval, "dtype")}
    inexact = (k for k in kinds if jnp.issubdtype(k, jnp.inexact))
    other = sorted(k.name for k in inexact if jnp.finfo(k).bits != jnp.finfo(time.dtype).bits)
    remedy = f"something is computed in {', '.join(other)}; use the dtype of the state (y.u.dtype)"
    return at_most(f"other precision inside a {time.dtype.name} vector field", len(other), 0, remedy)


def _variables(jaxpr: Any) -> Iterator[Any]:
    """Results of every operation, including operations inside loops and called functions."""
    for equation in jaxpr.eqns:
        yield from equation.outvars
        for part in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from _variables(inner)


def execution(subject: Subject) -> Iterator[Finding]:
    """Finite rates and states, compiled and batched evaluation against plain evaluation, and an example that moves."""
    t = jnp.asarray(float(subject.example.ts[0]))
    y0, y1 = subject.y0, subject.y1
    plain = subject.system.vector_field(t, y0, None)
    good = finite(plain) and finite(subject.film(0))
    remedy = "the example blows up: use a smaller dt, or guard division, roots and logarithms"
    yield at_most("rates or states that are not finite", float(not good), 0, remedy)
    if not good:
        return
    remedy = "the field must depend on its arguments alone: no Python branch on values, no state kept between calls"
    yield at_most("jit against no jit", relative(rates(subject.system, t, y0), plain), _SAME, remedy)
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), y0, y1)
    single = jax.tree.map(lambda a, b: jnp.stack([a, b]), plain, rates(subject.system, t, y1))
    batched = jax.vmap(rates, in_axes=(None, None, 0))(subject.system, t, pair)
    remedy = "use axes counted from the end, or named by the grid; each batch member must be a system of its own"
    yield at_most("vmap against one by one", relative(batched, single), _SAME, remedy)
    moved = gap(y1, y0) / max(size(y0), 1e-300)
    remedy = "an example that stands still tests nothing: start where something happens, or run longer"
    yield at_least("change over the example, relative", moved, 1e-3, remedy)


def declarations(subject: Subject) -> Iterator[Finding]:
    """Declared arrays: an undeclared array would be neither an unknown nor a constant."""
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
    """Coordinates of a system that states them: a name and a value for every index of every field."""
    system, name = subject.system, "coordinates that do not fit their field"
    if not system.coords():
        yield not_applicable(name, "the system states no coords, so films have numbered axes")
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
    """True if grid axes have half the length, and axes of components are unchanged."""
    same_rank = len(coarse) == len(fine) and coarse != fine
    return same_rank and all(c in (n, n // 2) for c, n in zip(coarse, fine, strict=True))
