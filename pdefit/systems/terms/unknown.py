"""Systems with unknown terms in addition to the known ones."""

import functools
import types
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit._util.trees import named_fields
from pdefit.data.observations import Observations
from pdefit.systems.capabilities import AbstractMechanical
from pdefit.systems.linear_operators import AbstractDiagonal, AbstractSplit
from pdefit.systems.system import AbstractSystem, parameter
from pdefit.systems.terms.base import AbstractTerm


def parameter_of(field: str) -> str:
    """Name of the parameter that holds the unknown term of a field."""
    return f"unknown_{field}"


def with_unknown(system: AbstractSystem, terms: Mapping[str, AbstractTerm]) -> AbstractSystem:
    """A system with unknown terms added to the rates of its fields.

    A term of the field `prey` becomes the parameter `unknown_prey` of the new system, and its arrays can be controls.
    Parameters, coordinates and capabilities are unchanged. Declared conserved quantities and exact solutions hold
    without the terms.

    **Arguments:**

    - `system`: the known part.
    - `terms`: for each field name, the term that is added to the rate of the field.

    **Errors:** PdefitError for unknown field names, for fields that differ in shape from the inputs of a term, and for
    second-order equations, whose accelerations cannot take a term.
    """
    if not terms:
        return system
    if isinstance(system, AbstractMechanical):
        raise PdefitError(
            f"{type(system).__name__} is of second order, where terms cannot be added; declare the term in it"
        )
    y = named_fields(jax.eval_shape(lambda: system.init(jax.random.key(0))))
    for field, term in terms.items():
        if field not in y:
            raise unknown("field with an unknown term", field, y)
        for name in term.inputs:
            if name not in (*y, "t"):
                raise unknown(f"input of the unknown term of {field}", name, (*y, "t"))
            if name != "t" and y[name].shape != y[field].shape:
                raise PdefitError(
                    f"The unknown term of {field} depends on {name} point by point, but their shapes are {y[field].shape} and "
                    f"{y[name].shape}"
                )
    units = system.coords()
    per = "" if system.time_unit == "1" else f"/{system.time_unit}"
    declared = tuple((f, f"{units[f].unit if f in units else '1'}{per}") for f in terms)
    made = _extended(type(system), declared)
    known = {name: getattr(system, name) for name in system.__dataclass_fields__}
    new = object.__new__(made)
    for name, value in {**known, **{parameter_of(f): term for f, term in terms.items()}}.items():
        object.__setattr__(new, name, value)
    return new


def unknown_terms(system: AbstractSystem) -> dict[str, AbstractTerm]:
    """Unknown terms of a system by the name of their parameter, both declared and added ones.

    **Arguments:**

    - `system`: an instance of its own class, or the result of `with_unknown`; it may be without terms.
    """
    held = {name: getattr(system, name) for name in system.__dataclass_fields__}
    return {name: value for name, value in held.items() if isinstance(value, AbstractTerm)}


def with_terms(system: AbstractSystem, terms: Mapping[str, AbstractTerm]) -> AbstractSystem:
    """A system in which terms are replaced.

    **Arguments:**

    - `system`: a system with terms.
    - `terms`: the new terms, named as in `unknown_terms`.
    """
    return eqx.tree_at(lambda s: [getattr(s, name) for name in terms], system, [*terms.values()])


def sized_by_data(system: AbstractSystem, observations: Observations) -> AbstractSystem:
    """A system whose unknown terms take their sizes from data, if the sizes were left open.

    The size of an input is the largest observed value. The size of an added term is the root mean square rate of its
    field, corrected for noise. Unobserved fields have the size 1.

    **Arguments:**

    - `system`: a system with terms.
    - `observations`: the record.
    """
    terms = unknown_terms(system)
    if not terms:
        return system
    sizes, rates, steps = {}, {}, np.diff(observations.ts)
    for name, values in observations.values.items():
        mask = np.asarray(observations.mask[name])
        x = np.where(mask, np.asarray(values, float), np.nan)
        noise = np.broadcast_to(np.asarray(observations.sigma[name], float), x.shape)
        sizes[name] = float(np.nanmax(np.abs(x), initial=0.0)) or 1.0
        squares = np.diff(x, axis=0) ** 2 - noise[1:] ** 2 - noise[:-1] ** 2
        squares = squares / steps.reshape(-1, *[1] * (x.ndim - 1)) ** 2
        known = squares[np.isfinite(squares)]
        rates[name] = float(np.sqrt(max(known.mean(), 0.0))) if known.size else 0.0
    rates = {parameter_of(f): rate for f, rate in rates.items()}
    made = {n: t.scaled(tuple(sizes.get(x, 1.0) for x in t.inputs), rates.get(n, 0.0) or 1.0) for n, t in terms.items()}
    return with_terms(system, made)


@functools.cache
def _extended(known: type[AbstractSystem], declared: tuple[tuple[str, str], ...]) -> type[AbstractSystem]:
    """A class of systems with a parameter for each unknown term, named and with the unit of the field's rate."""

    def added(self: Any, t: Array, y: PyTree, rates: PyTree) -> PyTree:
        values = named_fields(y) | {"t": jnp.asarray(t)}
        more = {f: getattr(self, parameter_of(f)) for f, _ in declared}
        change = {f: term(*(values[name] for name in term.inputs)) for f, term in more.items()}
        leaves, tree = jax.tree.flatten(rates)
        names = named_fields(rates)
        return tree.unflatten(
            [r + change[n].astype(r.dtype) if n in change else r for n, r in zip(names, leaves, strict=True)]
        )

    def plain(self: Any) -> Any:
        # the methods of the known class may call each other, and a term would count twice
        new = object.__new__(known)
        for name in known.__dataclass_fields__:
            object.__setattr__(new, name, getattr(self, name))
        return new

    def vector_field(self: Any, t: Array, y: PyTree, args: PyTree) -> PyTree:
        return added(self, t, y, plain(self).vector_field(t, y, args))

    def explicit(self: Any, t: Array, y: PyTree, args: PyTree) -> PyTree:
        return added(self, t, y, plain(self).explicit(t, y, args))

    def explicit_modes(self: Any, t: Array, y: PyTree, args: PyTree) -> PyTree:
        more = self.to_modes(added(self, t, y, jax.tree.map(jnp.zeros_like, y)))
        return jax.tree.map(lambda m, x: m + x.astype(m.dtype), plain(self).explicit_modes(t, y, args), more)

    body: dict[str, Any] = {
        parameter_of(f): parameter(unit=unit, doc=f"unknown rate of {f}", default=None) for f, unit in declared
    }
    body |= {
        "__annotations__": {parameter_of(f): Any for f, _ in declared},
        "__doc__": known.__doc__,
        "__module__": known.__module__,
        "vector_field": vector_field,
    }
    if issubclass(known, AbstractSplit):
        body["explicit"] = explicit
    if issubclass(known, AbstractDiagonal):
        body["explicit_modes"] = explicit_modes
    return types.new_class(known.__name__, (known,), {}, lambda namespace: namespace.update(body))
