"""Trial of the parts of an experiment together, by shapes, types and units alone, at no cost."""

from collections.abc import Callable, Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit._util.errors import PdefitError, first_line
from pdefit._util.memory import too_large
from pdefit.data.units import Conversion, conversion
from pdefit.integrate.loop.stable_step import settle
from pdefit.integrate.loop.stepper import Stepper
from pdefit.inverse.controls.declare import Control
from pdefit.inverse.controls.paths import declaration
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.system import AbstractSystem

# arrays of the size of a film in memory: states, observations, noise and mask
_COPIES = 4


def try_step(
    system: AbstractSystem, y0: PyTree, solver: diffrax.AbstractSolver, path: str, args: PyTree = None
) -> None:
    """Refuse a system that cannot be evaluated at its state, or a solver that cannot step it.

    **Arguments:**

    - `system`, `y0`: equations and state.
    - `solver`, `path`: the solver, and its path in the configuration for errors.
    - `args`: exogenous inputs.
    """
    name = type(system).__name__
    _finite(y0, name)
    t = jax.device_put(0.0)
    slope = _shapes(lambda y: system.vector_field(t, y, args), y0, f"system ({name}) cannot be evaluated at its state")
    _alike(slope, y0, f"The vector field of {name}")
    stepper = Stepper(system, settle([(system, y0)], None, solver), args)

    def step(y: PyTree) -> PyTree:
        return stepper(t, t + 1, stepper.init(t, y))[0]

    _alike(
        _shapes(step, y0, f"{path} ({type(solver).__name__}) cannot step {name}"),
        y0,
        f"A step of {type(solver).__name__}",
    )


def try_observe(observe: Callable[..., dict[str, Any]], t: float, y0: PyTree, args: PyTree) -> dict[str, Any]:
    """Shapes of the observed values. An operator that does not fit the state, or that sees no point of it, is refused.

    **Arguments:** `observe`: an operator; `t`, `y0`, `args`: a time, a state and exogenous inputs.
    """
    found = _shapes(lambda y: observe(jnp.asarray(t), y, args), y0, "observe does not fit the state")
    for name, seen in found.items():
        if 0 in seen.shape:
            raise PdefitError(
                f"observe sees no point of '{name}' (shape {seen.shape}); take smaller strides or offsets"
            )
    return found


def check_memory(frames: int, y0: PyTree = 1.0) -> None:
    """Refuse a number of frames that does not fit into the memory of this machine."""
    values = sum(int(np.size(x)) for x in jax.tree.leaves(y0))
    if size := too_large((frames, values, _COPIES)):
        raise PdefitError(
            f"{frames} frames of {values} values take {size} of memory; set times.count or the grid smaller"
        )


def _finite(y0: PyTree, name: str) -> None:
    if not all(bool(np.all(np.isfinite(np.asarray(x)))) for x in jax.tree.leaves(y0)):
        raise PdefitError(
            f"The initial state of {name} is not finite; correct the parameters of the system or the data"
        )


def _shapes(function: Callable[[PyTree], PyTree], y0: PyTree, wrong: str) -> PyTree:
    try:
        return eqx.filter_eval_shape(function, y0)
    except PdefitError:
        raise
    # equations of a plugin may raise any exception where a parameter has a wrong shape
    except Exception as error:
        raise PdefitError(f"{wrong}: {first_line(error)}") from None


def _alike(found: PyTree, y0: PyTree, what: str) -> None:
    shapes = [(x.shape, x.dtype) for x in jax.tree.leaves(found)]
    expected = [(jnp.shape(x), jnp.result_type(x)) for x in jax.tree.leaves(y0)]
    if jax.tree.structure(found) != jax.tree.structure(y0) or shapes != expected:
        whole = "; write whole numbers with a point (4.0)" if any(x.kind in "iu" for _, x in expected) else ""
        raise PdefitError(
            f"{what} is {shapes}, but the state is {expected}; give the parameters shapes that fit it{whole}"
        )


def check_control_units(declared: Mapping[str, Any], problem: Problem) -> None:
    """Refuse a control whose unit differs from the unit of the system or the observation operator.

    Guess, bounds, prior, tables and solver use the same number, so nothing is converted. Spellings of the same unit may
    differ (`mm2/s` for `mm^2/s`).
    """
    system = problem.system
    states = {f"y0.{n}": x.unit for n, x in system.coords().items()}
    _check(declared, "", problem, states)


def _check(node: Mapping[str, Any], prefix: str, problem: Problem, states: Mapping[str, str]) -> None:
    for name, control in node.items():
        path = f"{prefix}{name}"
        if isinstance(control, Mapping):
            _check(control, f"{path}.", problem, states)
        elif isinstance(control, Control) and control.unit is not None:
            info = declaration(problem, path)
            known = info.unit if info else states.get(path)
            if known is not None and not _same(control.unit, known):
                owner = "observation operator" if path.startswith("observe.") else "system"
                raise PdefitError(
                    f"controls.{path}.unit is {control.unit}, but the {owner} declares {known}; give its guess, bounds and "
                    f"prior in {known}"
                )


def _same(unit: str, declared: str) -> bool:
    try:
        return conversion(unit, declared) == Conversion()
    except PdefitError:
        return False
