"""Objects made from their names and arguments in a configuration."""

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx

from pdefit._util.errors import PdefitError, first_line, nearest, unknown
from pdefit.cli.config._argument_types import argument_hints, classes_in, described, fits, misbuilt, misfit, returned
from pdefit.cli.config._registry import Target, lookup, name_of, names, word
from pdefit.cli.runtime.plugins import plugins

_OURS = ("pdefit", "diffrax", "optax", "optimistix")

Made = TypeVar("Made")


def make(node: Any, path: str, base: type[Made]) -> Made:
    """Object that a mapping describes by its name and arguments. Classes of another type are not even called.

    **Arguments:**

    - `node`: the mapping; `path` is where it stands, for errors.
    - `base`: type of the object.
    """
    if isinstance(node, str):
        node = {"name": node}
    if not isinstance(node, Mapping) or not ({"name", "_target_"} & {*node} or _concrete(base)):
        if _concrete(base):
            raise PdefitError(f"{path} expects a mapping of {', '.join(argument_hints(base))}, but got {node!r}")
        some = next(iter(sorted(names(base))), "NAME")
        raise PdefitError(
            f"{path} expects the name of a kind of {word(base)} and its arguments, e.g. {{name: {some}}}, but got {node!r}"
        )
    made = _made(node, path, (base,))
    assert isinstance(made, base)
    return made


def build(target: Target, arguments: Mapping[str, Any], path: str) -> Any:
    """Call a class or function with configured arguments; its errors become one sentence."""
    try:
        known = list(inspect.signature(target).parameters)
    except ValueError:
        raise PdefitError(f"{path} ({target.__name__}) cannot be described by a configuration") from None
    if inspect.isabstract(target):
        raise PdefitError(f"{path} ({target.__name__}) is abstract; name one of its subclasses")
    for name in arguments:
        if name not in known and "kwargs" not in known:
            raise unknown(f"argument of {target.__name__} ({path})", str(name), known)
    missing = [k for k, v in arguments.items() if isinstance(v, str) and v == "???"]
    missing += [
        k
        for k, p in inspect.signature(target).parameters.items()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and k not in arguments
    ]
    if missing:
        hint = argument_hints(target).get(missing[0], Any)
        raise PdefitError(f"{path}.{missing[0]} is missing; {target.__name__} expects {described(hint)}")
    wrong = misfit(target, arguments)
    if wrong is None:
        try:
            made = target(**arguments)
        except PdefitError as error:
            raise PdefitError(f"{path} ({target.__name__}): {error}") from error
        # plugins and libraries may raise any exception for wrong arguments
        except Exception as error:
            raise PdefitError(f"{path} ({target.__name__}): {first_line(error)}") from error
        if (wrong := misbuilt(made)) is None:
            return made
    raise PdefitError(f"{path}.{wrong}")


def resolve(target: object, path: str) -> Target:
    """Class or function of a `_target_`: one that a plugin defines itself and exports at its top level."""
    package, _, name = str(target).rpartition(".")
    root = str(target).partition(".")[0]
    if root in _OURS and (known := name_of(str(target))) is not None:
        raise PdefitError(
            f"_target_ '{target}' ({path}) is written as in pdefit 0.1; write {path}={{name: {known}, ...}} in its place"
        )
    found = plugins()
    if root not in (*found, *_OURS) and nearest(root, found):
        raise unknown(f"plugin (_target_ '{target}', {path})", root, found)
    refused = PdefitError(
        f"_target_ '{target}' ({path}) is not allowed; it must be a class or function that a plugin exports, and everything "
        f"else has a name (name: ...)"
    )
    if package not in found or name.startswith("_") or not name.isidentifier():
        raise refused
    public = {n: x for n, x in vars(found[package]).items() if not n.startswith("_")}
    if name not in public:
        raise unknown(f"_target_ in {package} ({path})", name, public) if nearest(name, public) else refused
    wanted = public[name]
    if not (inspect.isclass(wanted) or inspect.isfunction(wanted)):
        raise refused
    if wanted.__module__ != package and not wanted.__module__.startswith(f"{package}."):
        raise refused
    return wanted


def _made(node: Mapping[str, Any], path: str, bases: tuple[type, ...]) -> Any:
    """Object that a mapping describes, of one of these types; objects inside it are made first."""
    target = _target(node, path, bases)
    hints = argument_hints(target)
    inside = {
        str(k): _inside(v, f"{path}.{k}", hints.get(str(k), Any))
        for k, v in node.items()
        if k not in ("name", "_target_")
    }
    return build(target, inside, path)


def _inside(value: Any, path: str, hint: Any) -> Any:
    """Argument in which mappings that describe objects are replaced by these objects."""
    if isinstance(value, list | tuple):
        return [_inside(v, f"{path}.{i}", hint) for i, v in enumerate(value)]
    bases = classes_in(hint)
    if isinstance(value, str) and not fits(hint, value) and any(value in names(base) for base in bases):
        return _made({"name": value}, path, bases)
    if not isinstance(value, Mapping):
        return value
    if "_target_" in value:
        return _made(value, path, (object,))
    if (bases and "name" in value) or any(map(_concrete, bases)):
        return _made(value, path, bases)
    return {k: _inside(v, f"{path}.{k}", hint) for k, v in value.items()}


def _target(node: Mapping[str, Any], path: str, bases: tuple[type, ...]) -> Target:
    if "_target_" in node:
        target = resolve(node["_target_"], path)
        if "name" in node:
            raise PdefitError(f"{path} has a name and a _target_; keep one of them")
        makes = returned(target)
        if bases != (object,) and not (inspect.isclass(makes) and issubclass(makes, bases)):
            kinds = " or ".join(map(word, bases))
            raise PdefitError(f"{path} expects a kind of {kinds}, which '{node['_target_']}' is not")
        return target
    if "name" not in node:
        return next(filter(_concrete, bases))
    name = node["name"]
    if not isinstance(name, str):
        raise PdefitError(f"{path}.name expects text, but got {name!r}")
    return lookup(name, next((base for base in bases if name in names(base)), bases[-1]), path)


def _concrete(base: type) -> bool:
    """Whether a type has one class, so that no name is needed."""
    return base is not eqx.Module and not inspect.isabstract(base) and not base.__name__.startswith("Abstract")
