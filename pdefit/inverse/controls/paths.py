"""Paths of controls: from a name such as `y0.u` to the array it stands for."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array, PyTree

from pdefit._util.errors import PdefitError, unknown
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.system import PARTS as PARTS
from pdefit.systems.system import ParameterInfo, parameters, unit_in


def leaf(problem: Problem, path: str) -> Callable[[Problem], Array]:
    """The function from a problem to the array called `path`.

    **Arguments:**

    - `problem`: a problem, for a check that this array exists.
    - `path`: its name, with dots.
    """
    node = _node(problem, path)
    if not eqx.is_inexact_array(node):
        raise PdefitError(f"'{path}' is not an array; name one of its leaves: {', '.join(_children(node)) or 'none'}")
    root, *rest = path.split(".")
    return _Leaf(root, tuple(rest))


def leaf_paths(problem: Problem, path: str) -> list[str]:
    """The names of the arrays that a control moves: itself, or all arrays of a parameter that is a module.

    The array of a module is called as in `net.layers.0.weight`.

    **Arguments:**

    - `problem`: the problem that holds the arrays.
    - `path`: the name of the control, with dots.
    """
    node = _node(problem, path)
    if path.split(".")[0] in PARTS or not isinstance(node, eqx.Module | Mapping):
        return [path]
    inside = list(_arrays(node, path))
    if not inside:
        raise PdefitError(f"'{path}' is a module without arrays, so it cannot be a control; remove it")
    return inside


def holder(problem: Problem, path: str) -> PyTree:
    """The part of a problem that holds the array called `path`."""
    above, _, name = path.rpartition(".")
    return _node(problem, above or name)


def declaration(problem: Problem, path: str) -> ParameterInfo | None:
    """The declaration of the parameter called `path`, of the system or of an observation operator; None for other arrays.

    The arrays of a module are declared by the name of the module.
    """
    root, _, name = path.partition(".")
    if root != "observe":
        return parameters(problem.system).get(root)
    owner = holder(problem, path)
    info = parameters(owner).get(name.rpartition(".")[2]) if isinstance(owner, eqx.Module) else None
    return None if info is None else dataclasses.replace(info, unit=unit_in(problem.system, info.unit, path))


def possible(problem: Problem) -> list[str]:
    """The paths of arrays that may be unknown: parameters of system and instrument, and a given initial state."""
    own = [p for name in parameters(problem.system) for p in _arrays(getattr(problem.system, name), name)]
    start = _arrays(problem.y0, "y0") if problem.initial is None and problem.nodes is None else []
    return [*own, *_declared(problem.observe, "observe"), *start]


def check_units(problem: Problem) -> None:
    """Refuse a parameter of an observation operator, or of a part of it, whose unit is not the system's."""
    parts = [problem.observe]
    for part in parts:
        if isinstance(part, eqx.Module):
            for name, info in parameters(part).items():
                unit_in(problem.system, info.unit, f"{name} of {type(part).__name__}")
        parts += [x for x in _children(part).values() if isinstance(x, eqx.Module | Mapping | list | tuple)]


def _arrays(node: PyTree, path: str) -> list[str]:
    if eqx.is_inexact_array(node):
        return [path]
    return [p for name, part in _children(node).items() for p in _arrays(part, f"{path}.{name}")]


def _declared(node: PyTree, path: str) -> list[str]:
    """The paths of arrays that are declared parameters of a module, or of a part of it."""
    names = parameters(node) if isinstance(node, eqx.Module) else {}
    inside = ((_arrays if k in names else _declared)(part, f"{path}.{k}") for k, part in _children(node).items())
    return [p for paths in inside for p in paths]


def _node(problem: Problem, path: str) -> PyTree:
    """The part of a problem called `path`."""
    root, *rest = path.split(".")
    choices: dict[str, PyTree] = {n: getattr(problem.system, n) for n in parameters(type(problem.system))}
    choices |= {n: getattr(problem, n) for n in PARTS if getattr(problem, n) is not None}
    if root not in choices:
        raise unknown("control", root, choices)
    node, walked = choices[root], root
    for name in rest:
        inside = _children(node)
        if name not in inside:
            if not inside:
                raise PdefitError(
                    f"'{walked}' is one control, which holds no '{name}'; its keys are transform, guess, bounds, prior, unit, "
                    f"scale, smoothing, modes, scope and estimate"
                )
            raise unknown(f"control in '{walked}'", name, inside)
        node, walked = inside[name], f"{walked}.{name}"
    return node


@dataclasses.dataclass(frozen=True)
class _Leaf:
    """The function from a problem to one of its leaves.

    Two of equal names are equal, so that they share compiled programs.
    """

    root: str
    names: tuple[str, ...]

    def __call__(self, p: PyTree) -> PyTree:
        node: PyTree = getattr(p if self.root in PARTS else p.system, self.root)
        for name in self.names:
            node = _children(node)[name]
        return node


def _children(node: PyTree) -> dict[str, Any]:
    """The parts of a tree one level down, by name or number."""
    if isinstance(node, Mapping):
        return dict(node)
    if dataclasses.is_dataclass(node):
        return {f.name: getattr(node, f.name) for f in dataclasses.fields(node)}
    names = getattr(node, "_fields", None)
    if isinstance(node, list | tuple):
        return {str(name): part for name, part in zip(names or range(len(node)), node, strict=True)}
    return {}
