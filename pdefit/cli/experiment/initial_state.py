"""Initial states: of the system, from the data, by a preparation, or from a file."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError, first_line
from pdefit._util.trees import named_fields
from pdefit.cli.config.sources import Initial, StateFile
from pdefit.cli.experiment._prepared import Prepared, prepared_state, state_from_file
from pdefit.data.observations import Observations
from pdefit.data.readers.locate import locate
from pdefit.integrate.preparation import AbstractPreparation
from pdefit.systems.capabilities import AbstractConstrained, AbstractDataState
from pdefit.systems.system import AbstractSystem

# the part of a field by which a projection may change it without a remark
_MOVED = 1e-3


def initial_state(
    initial: Initial, seed: int, system: AbstractSystem, observations: Observations | None
) -> tuple[PyTree, Prepared | None, tuple[str, ...]]:
    """Initial state of an experiment, the cost of its preparation if it has one, and remarks for the user.

    **Arguments:**

    - `initial`: the setting; `seed` is for states that are random.
    - `system`: the equations.
    - `observations`: the data; None where there are none.
    """
    try:
        y0, prepared = _state(initial, system, observations, seed)
        if not isinstance(system, AbstractConstrained):
            return y0, prepared, ()
        allowed = system.project(y0)
        return allowed, prepared, _moved(y0, allowed)
    except PdefitError:
        raise
    # a plugin may raise any exception where its parameters do not fit each other
    except Exception as error:
        raise PdefitError(f"{type(system).__name__} cannot make its initial state: {first_line(error)}") from None


def _moved(y0: PyTree, allowed: PyTree) -> tuple[str, ...]:
    """A remark on the fields of a state that its constraint changed by more than round-off."""
    pairs = zip(named_fields(y0).items(), named_fields(allowed).values(), strict=True)
    parts = {name: float(jnp.linalg.norm(new - x) / jnp.linalg.norm(x)) for (name, x), new in pairs if jnp.any(x != 0)}
    told = ", ".join(f"{name} by {part:.1%}" for name, part in parts.items() if part > _MOVED)
    if not told:
        return ()
    return (f"the initial state did not obey the constraint of the equations (divergence) and was projected: {told}",)


def _state(
    initial: Initial, system: AbstractSystem, observations: Observations | None, seed: int
) -> tuple[PyTree, Prepared | None]:
    name = type(system).__name__
    if initial == "data" and observations is not None:
        if isinstance(system, AbstractDataState):
            return system.init_from_data(observations), None
        raise PdefitError(
            f"{name} cannot take its initial state from data, having no init_from_data; set initial=system, and give "
            f"unknown fields that were observed `guess: data` (controls.y0.FIELD)"
        )
    if isinstance(initial, StateFile):
        return state_from_file(locate(initial.path), system.init(jax.random.key(seed)), name), None
    if isinstance(initial, AbstractPreparation):
        return prepared_state(initial, system, seed)
    return system.init(jax.random.key(seed)), None
