"""A planted fault: what it makes wrong, how long it is in force, and the tools that spoil a derivative alone."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax

import pdefit


class Planted(NamedTuple):
    objective: Any
    clean: Any
    driver: Any = None


@dataclasses.dataclass(frozen=True)
class Fault:
    """`make` plants it; `wrong` is what of the objective is wrong: gradient, product, normal equations or nothing."""

    room: str
    name: str
    make: Callable[[], Planted]
    wrong: str = "gradient"
    patches: Callable[[], list[tuple[Any, str, Any]]] = list
    explained: str = ""

    @contextlib.contextmanager
    def planted(self) -> Iterator[Planted]:
        """The objective while the fault is in force."""
        # what surrounds compiled programs is not compiled again
        kept, compiled = [], self.room not in ("tiers", "hosted")
        try:
            for module, name, new in self.patches():
                kept.append((module, name, getattr(module, name)))
                setattr(module, name, new)
            if kept and compiled:
                jax.clear_caches()
            yield self.make()
        finally:
            for module, name, old in reversed(kept):
                setattr(module, name, old)
            if kept and compiled:
                jax.clear_caches()


FAULTS: dict[str, Fault] = {}


def fault(room: str, **options: Any) -> Callable:
    """Register a function that plants a fault."""

    def register(make: Callable[[], Planted]) -> Callable[[], Planted]:
        FAULTS[make.__name__] = Fault(room, make.__name__, make, **options)
        return make

    return register


def wrong_transpose(wrong: Callable) -> Callable:
    """The identity, whose reverse pass applies `wrong` to the cotangent."""

    @eqx.filter_custom_vjp
    def identity(x):
        return x

    identity.def_fwd(lambda perturbed, x: (x, None))
    identity.def_bwd(lambda residuals, cotangent, perturbed, x: wrong(cotangent))
    return identity


def as_class(objective: Any, cls: type) -> Any:
    """The same objective, of a subclass with a fault."""
    new = object.__new__(cls)
    for f in dataclasses.fields(objective):
        object.__setattr__(new, f.name, getattr(objective, f.name))
    return new


def certificate(planted: Planted, **options: Any) -> pdefit.Certificate:
    """By default settings."""
    functional = planted.objective if planted.driver is None else planted.driver.resolve_for(planted.objective)
    return pdefit.certify(functional, functional.theta0, driver=planted.driver, **options)
