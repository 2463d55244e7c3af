"""Initial states: of the system, from the data, by a preparation, or from a file."""

import jax
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError, first_line
from pdefit.cli.config.settings import Initial, StateFile
from pdefit.cli.experiment._prepared import Prepared, prepared_state, state_from_file
from pdefit.data.observations import Observations
from pdefit.data.readers.locate import locate
from pdefit.systems.capabilities import AbstractConstrained, AbstractDataState
from pdefit.systems.preparation import AbstractPreparation
from pdefit.systems.system import AbstractSystem


def initial_state(
    initial: Initial, seed: int, system: AbstractSystem, observations: Observations | None
) -> tuple[PyTree, Prepared | None]:
    """Initial state of an experiment, and the cost of its preparation if it has one.

    **Arguments:**

    - `initial`: the setting; `seed` is for states that are random.
    - `system`: the equations.
    - `observations`: the data; None where there are none.
    """
    try:
        y0, prepared = _state(initial, system, observations, seed)
        return (system.project(y0) if isinstance(system, AbstractConstrained) else y0), prepared
    except PdefitError:
        raise
    # a plugin may raise any exception where its parameters do not fit each other
    except Exception as error:
        raise PdefitError(f"{type(system).__name__} cannot make its initial state: {first_line(error)}") from None


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
