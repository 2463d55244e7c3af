"""Paths of controls: from a name such as `y0.u` to its array."""

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
    """Function from a problem to the array at `path`.

    **Arguments:**

    - `problem`: a problem, to check that this array exists.
    - `path`: the dotted path.
    """
    node = _node(problem, path)
    if not eqx.is_inexact_array(node):
        raise PdefitError(f"'{path}' is not an array; name one of its leaves: {', '.join(_children(node)) or 'none'}")
    root, *rest = path.split(".")
    if root == "events" and rest != ["amount"]:
        raise PdefitError(
            f"'{path}' is no control: steps end at stated times; of events the amounts can be (events.amount)"
        )
    return _Leaf(root, tuple(rest))


def leaf_paths(problem: Problem, path: str) -> list[str]:
    """Paths of the arrays of a control: its own path, or the paths of all arrays of a module.

    Arrays of a module have paths such as `net.layers.0.weight`.

    **Arguments:**

    - `problem`: the problem that holds the arrays.
    - `path`: the dotted path of the control.
    """
    node = _node(problem, path)
    if path.split(".")[0] in PARTS or not isinstance(node, eqx.Module | Mapping):
        return [path]
    inside = list(_arrays(node, path))
    if not inside:
        raise PdefitError(f"'{path}' is a module without arrays, so it cannot be a control; remove it")
    return inside


def holder(problem: Problem, path: str) -> PyTree:
    """The part of a problem that holds the array at `path`."""
    above, _, name = path.rpartition(".")
    return _node(problem, above or name)


def declaration(problem: Problem, path: str) -> ParameterInfo | None:
    """Declaration of a parameter of the system or of an observation operator, by path; None for other arrays.

    Arrays of a module have the declaration of the module.
    """
    root, _, name = path.partition(".")
    if root != "observe":
        return parameters(problem.system).get(root)
    owner = holder(problem, path)
    info = parameters(owner).get(name.rpartition(".")[2]) if isinstance(owner, eqx.Module) else None
    return None if info is None else dataclasses.replace(info, unit=unit_in(problem.system, info.unit, path))


def possible(problem: Problem) -> list[str]:
    """Paths of arrays that may be unknown: parameters of system and instrument, and a given initial state."""
    own = [p for name in parameters(problem.system) for p in _arrays(getattr(problem.system, name), name)]
    start = _arrays(problem.y0, "y0") if problem.initial is None and problem.nodes is None else []
    return [*own, *_declared(problem.observe, "observe"), *start]


def check_units(problem: Problem) -> None:
    """Refuse parameters of observation operators, or of their parts, in other units than the system's."""
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
    """Paths of arrays that are declared parameters of a module, or of its parts."""
    names = parameters(node) if isinstance(node, eqx.Module) else {}
    inside = ((_arrays if k in names else _declared)(part, f"{path}.{k}") for k, part in _children(node).items())
    return [p for paths in inside for p in paths]


def _node(problem: Problem, path: str) -> PyTree:
    """The part of a problem at `path`."""
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
    """Function from a problem to one of its leaves.

    Functions with equal names are equal, so that they share compiled programs.
    """

    root: str
    names: tuple[str, ...]

    def __call__(self, p: PyTree) -> PyTree:
        node: PyTree = getattr(p if self.root in PARTS else p.system, self.root)
        for name in self.names:
            node = _children(node)[name]
        return node


def _children(node: PyTree) -> dict[str, Any]:
    """Parts of a tree one level down, by name or index."""
    if isinstance(node, Mapping):
        return dict(node)
    if dataclasses.is_dataclass(node):
        return {f.name: getattr(node, f.name) for f in dataclasses.fields(node)}
    names = getattr(node, "_fields", None)
    if isinstance(node, list | tuple):
        return {str(name): part for name, part in zip(names or range(len(node)), node, strict=True)}
    return {}
