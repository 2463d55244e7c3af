"""Initial states: the system's own, steady states, states from data or files, and prepared ones, integrated once and cached."""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from pdefit._util.cached_tree import cached_tree, origin
from pdefit._util.depends import depends
from pdefit._util.errors import PdefitError, first_line, with_space
from pdefit._util.trees import named_fields, promoted
from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import Initial, StateFile
from pdefit.cli.runtime.console import Console
from pdefit.cli.runtime.terminal import RunsProgress, warn
from pdefit.data.readers.locate import locate
from pdefit.integrate.preparation import AbstractPreparation, prepare
from pdefit.inverse.controls.declare import declared_leaves
from pdefit.inverse.controls.paths import PARTS, leaf
from pdefit.inverse.problem.problem import Problem
from pdefit.output.store.fields import read_frame
from pdefit.systems.capabilities import AbstractConstrained
from pdefit.systems.initial import OwnInitial, Steady
from pdefit.systems.system import AbstractSystem


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Cost of a prepared state.

    **Arguments:**

    - `duration`: the integrated time, in the system's time unit.
    - `seconds`: the wall time; 0 for a state from the cache.
    - `cached`, `path`: whether it came from the cache, and its file.
    """

    duration: float
    seconds: float
    cached: bool
    path: Path


# the part of a field by which a projection may change it without a remark
_MOVED = 1e-3


def initial_state(
    initial: Initial, seed: int, system: AbstractSystem, first_frame: Callable[[], PyTree] | None, args: PyTree = None
) -> tuple[PyTree, Prepared | None, tuple[str, ...]]:
    """Initial state of an experiment, the cost of its preparation if it has one, and remarks for the user.

    **Arguments:**

    - `initial`, `seed`: the setting, and the seed of random states.
    - `system`: the equations.
    - `first_frame`: makes the state from data; None without data.
    - `args`: the inputs of the equations.
    """
    try:
        y0, prepared = _state(initial, system, first_frame, seed, args)
        y0 = promoted(y0, system)
        if not isinstance(system, AbstractConstrained):
            return y0, prepared, ()
        allowed, parts = _projected(system, y0)
        return allowed, prepared, _moved(parts)
    except PdefitError:
        raise
    # a plugin may raise any exception where its parameters do not fit each other
    except Exception as error:
        raise PdefitError(f"{type(system).__name__} cannot make its initial state: {first_line(error)}") from None


@eqx.filter_jit
def _projected(system: AbstractConstrained, y0: PyTree) -> tuple[PyTree, dict[str, Array]]:
    """The nearest state that satisfies the constraint, and the relative change of each field; NaN for zero fields."""
    allowed = system.project(y0)
    pairs = zip(named_fields(y0).items(), named_fields(allowed).values(), strict=True)
    return allowed, {name: jnp.linalg.norm(new - x) / jnp.linalg.norm(x) for (name, x), new in pairs}


def _moved(parts: dict[str, Array]) -> tuple[str, ...]:
    """Remark on fields of a state that its constraint changed by more than round-off."""
    told = ", ".join(f"{name} by {part:.1%}" for name, part in parts.items() if part > _MOVED)
    if not told:
        return ()
    return (f"the initial state did not obey the constraint of the equations (divergence) and was projected: {told}",)


def _state(
    initial: Initial, system: AbstractSystem, first_frame: Callable[[], PyTree] | None, seed: int, args: PyTree
) -> tuple[PyTree, Prepared | None]:
    name = type(system).__name__
    if initial == "data" and first_frame is not None:
        return first_frame(), None
    if isinstance(initial, StateFile):
        return state_from_file(locate(initial.path), system.init(jax.random.key(seed)), name), None
    if isinstance(initial, AbstractPreparation):
        return prepared_state(initial, system, seed)
    y0 = system.init(jax.random.key(seed))
    return (initial.checked(system, y0, args) if isinstance(initial, Steady) else y0), None


def following(settings: Settings, problem: Problem) -> tuple[Problem, tuple[str, ...]]:
    """The problem with an initial state that depends on the unknown parameters, and remarks for the user.

    The system's own state depends on them if one trace shows so. Fields that are themselves unknown do not.

    **Arguments:**

    - `settings`: the experiment.
    - `problem`: the problem at its nominal values, with a fixed initial state.
    """
    if isinstance(settings.initial, Steady):
        return dataclasses.replace(problem, initial=settings.initial), ()
    declared = {name: control for name, control in settings.controls.items() if name.split(".")[0] != "nodes"}
    paths = [path for path, _ in declared_leaves(problem, declared)]
    own = [path for path in paths if path.split(".")[0] not in PARTS]
    hold = [path.partition(".")[2] or "y" for path in paths if path.split(".")[0] == "y0"]
    if settings.initial != "system" or not own or len(hold) == len(named_fields(problem.y0)):
        return problem, ()
    key, leaves = jax.random.key(settings.seed), [leaf(problem, path) for path in own]

    def initial_fields(values: list[Array]) -> list[Array]:
        moved = eqx.tree_at(lambda p: [where(p) for where in leaves], problem, values)
        return [x for name, x in named_fields(moved.system.init(key)).items() if name not in hold]

    try:
        moves = any(depends(initial_fields, [where(problem) for where in leaves]))
    # a plugin may raise any exception where it expects numbers and is given what is traced
    except Exception as error:
        name = type(problem.system).__name__
        told = f"the initial state does not follow {', '.join(own)}, because {name}.init cannot be traced"
        return problem, (f"{told} ({first_line(error)}); write it with jax.numpy",)
    return (dataclasses.replace(problem, initial=OwnInitial(key, hold)) if moves else problem), ()


def prepared_state(preparation: AbstractPreparation, system: AbstractSystem, seed: int) -> tuple[PyTree, Prepared]:
    """State at the end of a preparation, from the cache if it exists there."""
    key, begin = jax.random.key(seed), time.perf_counter()
    kicks = preparation.kicks(system, key)
    duration = float(sum(t for _, t in kicks))
    told = f"preparing the state, {duration:g}{with_space(system.time_unit)} (kept for the next run)"

    def make() -> PyTree:
        with RunsProgress(Console()) as bar:
            bar(0, len(kicks), told)
            return prepare(preparation, system, key, report=lambda done, of: bar(done, of, told))

    made_of, like = origin(str(seed), preparation, system), preparation.start(system, key)
    state, path, cached = cached_tree("states", type(system).__name__, made_of, like, make, partial(warn, Console()))
    seconds = 0.0 if cached else time.perf_counter() - begin
    return jax.tree.map(jnp.asarray, state), Prepared(duration, seconds, cached, path)


def state_from_file(path: Path, like: PyTree, model: str) -> PyTree:
    """The last frame of a file as a state with the fields and shapes of `like`."""
    expected = named_fields(like)
    found = read_frame(path, {n: np.shape(x) for n, x in expected.items()}, model)
    leaves = [jnp.asarray(found[n], x.dtype) for n, x in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
