"""Reader of configurations by type hints: sections, and objects made from a name and arguments.

A section is a frozen dataclass. Every other class or function has a name, or is the only one of its kind.
"""

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import AbstractArray

from pdefit._util.errors import PdefitError, first_line, unknown
from pdefit._util.expected import Expected, Read
from pdefit.cli.config._registry import KINDS, Target, lookup, names, resolve, word
from pdefit.cli.config._types import argument_hints, classes_in, converted, fits, returned

_WORDS = {
    Any: "of any kind",
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
# types of objects that have a name
_BASES = tuple(kind.base for kind in KINDS)
# missing entries that an error names, at most
_SHOWN = 4
# the largest number of things: starts, memories, products, substeps
_MOST = 1_000_000
# stands for an object that is chosen later
AUTO = {"name": "auto"}

Made = TypeVar("Made")


def make(node: Any, path: str, base: type[Made]) -> Made:
    """The object that a mapping describes by its name and arguments. Classes of another type are not called.

    **Arguments:**

    - `node`, `path`: the mapping, or the name alone, and its path for errors.
    - `base`: type of the object.
    """
    made = read(base, node, path)
    assert isinstance(made, base)
    return made


def make_or_auto(node: Any, path: str, base: type[Made]) -> Made | None:
    """Object as in `make`; None for `auto`, if it is still to be chosen."""
    if node in (AUTO, AUTO["name"]):
        return None
    if isinstance(node, Mapping) and node.get("name") == AUTO["name"]:
        extra = ", ".join(key for key in node if key != "name")
        raise PdefitError(f"{path} is auto, which takes no arguments; remove {extra}, or name the {word(base)}")
    return make(node, path, base)


def read_section(section: type[Made], node: Any, path: str = "") -> Made:
    """The section that a mapping describes. Null stands for an entry's default, if it has one.

    A `ValueError` of the section about several of its entries becomes one sentence with the path.

    **Arguments:**

    - `section`: a dataclass, whose fields without a default must be given.
    - `node`, `path`: the mapping, and its path for errors.
    """
    check_keys(section, node, path)
    free = {name for name, p in inspect.signature(section).parameters.items() if p.default is not p.empty}
    return _called(section, {k: v for k, v in node.items() if not (v is None and k in free)}, path, "")


def check_keys(section: Target, node: Any, path: str = "", label: str = "") -> None:
    """Refuse a node that is no mapping, lacks an argument of a class or function, or has an unknown one.

    **Arguments:**

    - `section`: a section, or the class or function that a node names; `label` is then its name in errors.
    - `node`, `path`: the node, and its path for errors.
    """
    if not isinstance(node, Mapping):
        raise PdefitError(f"{path} expects {described(section)}, but got {node!r}")
    parameters = inspect.signature(section).parameters
    for key in node:
        if key not in parameters and "kwargs" not in parameters:
            owner = f"argument of {label} ({path})" if label else f"key of {path or 'the configuration'}"
            raise unknown(owner, str(key), parameters)
    missing, hints = dict[str, str](), argument_hints(section)
    for key, p in parameters.items():
        lacks = key not in node and p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
        if lacks or isinstance(node.get(key), str) and node[key] == "???":
            missing[_below(path, key)] = f"{key} ({described(hints.get(key, Any))})"
    if missing:
        # a section with more of them is to be chosen as a whole, which the first one says
        shown, verb = [*missing][:_SHOWN], "is" if len(missing) == 1 else "are"
        optional = ", ".join(key for key, p in parameters.items() if p.default is not p.empty)
        raise PdefitError(
            f"{' and '.join(shown)} {verb} missing; {label or path or 'an experiment'} expects "
            f"{' and '.join(missing[key] for key in shown)}{f', and may have {optional}' if optional and not label else ''}"
        )


def build(target: Target, arguments: Mapping[str, Any], path: str) -> Any:
    """Call a class or function with configured arguments; its errors become one sentence."""
    if inspect.isabstract(target):
        raise PdefitError(f"{path} ({target.__name__}) is abstract; name one of its subclasses")
    try:
        check_keys(target, arguments, path, target.__name__)
    # of the signature of a function in another language
    except ValueError:
        raise PdefitError(f"{path} ({target.__name__}) cannot be described by a configuration") from None
    return _called(target, arguments, path, target.__name__)


def _called(target: Target, node: Mapping[str, Any], path: str, label: str) -> Any:
    """The result of a class or function whose arguments are read by their type hints."""
    hints, late = argument_hints(target), converted(target)
    arguments = dict[str, Any]()
    for key, value in node.items():
        hint, below = hints.get(key, Any), _below(path, key)
        if key != "seed" and type(value) is int and value > _MOST and _counts(hint, label):
            raise PdefitError(f"{below} expects a whole number up to {_MOST}, but got {value}")
        # a converter may take more than the hint of its field
        arguments[key] = _inside(hint, value, below) if key in late else read(hint, value, below, floats=not label)
    where = f"{path} ({label})" if label else path
    try:
        made = target(**arguments)
    except PdefitError as error:
        # a section names its entries by itself
        raise PdefitError(f"{where}: {error}" if label else str(error)) from error
    # plugins and libraries may raise any exception for wrong arguments
    except Exception as error:
        raise PdefitError(f"{where}: {first_line(error)}" if where else first_line(error)) from error
    for name in late & hints.keys():
        if not fits(hints[name], value := getattr(made, name)):
            raise PdefitError(f"{path}.{name} expects {described(hints[name])}, but got {value!r}")
    return made


def read(hint: Any, value: Any, path: str, floats: bool = False) -> Any:
    """An entry of a configuration, read as the first type of a union that it fits.

    **Arguments:**

    - `hint`, `value`: the type, and the entry at `path`.
    - `floats`: whether an integer becomes a float if a float is expected.
    """
    options = _options(hint)
    but, plain = f"got {value!r}", list[Any]()
    for option in options:
        rules = getattr(option, "__metadata__", ())
        for rule in rules:
            if isinstance(rule, Read):
                return rule.read(value, path)
            if rule.test(value):
                return rule.convert(value)
            but = rule.but(value, path)
        if not rules:
            plain.append(option)
            if _is_section(option) and (isinstance(value, Mapping) or len(options) == 1):
                return read_section(option, value, path)
    made = _inside(hint, value, path)
    if kind := [option for option in plain if fits(option, made)]:
        return float(made) if floats and kind[0] is float else made
    raise PdefitError(f"{path} expects {described(hint)}, but {but}")


def described(hint: Any) -> str:
    """Words for the values that a type hint expects."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    for rule in getattr(hint, "__metadata__", ()):
        said = rule.words if isinstance(rule, Expected) else rule.expected
        return said if isinstance(said, str) else described(said or hint.__origin__)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is typing.Literal:
        *others, last = map(str, inside)
        return f"{', '.join(others)} or {last}" if others else last
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(described, inside))
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return f"a mapping, each entry {described(inside[1])}"
    if origin is not None or not inspect.isclass(hint):
        return f"a list ({str(hint).replace('pdefit.', '')})" if origin else f"a {hint}"
    if issubclass(hint, AbstractArray | jax.Array | np.ndarray):
        return "numbers"
    if not (_is_section(hint) or issubclass(hint, _BASES)):
        return f"a {hint.__name__}"
    known = names(hint)
    if _is_section(hint) or (_concrete(hint) and (not known or hint in known.values())):
        return f"a mapping of {', '.join(inspect.signature(hint).parameters)}"
    some = next(iter(sorted(known)), "NAME")
    return f"the name of a kind of {word(hint)} and its arguments, e.g. {{name: {some}}}"


def _inside(hint: Any, value: Any, path: str) -> Any:
    """A value with names, and mappings that describe objects, replaced by these objects."""
    if isinstance(value, list | tuple):
        return [_inside(hint, v, f"{path}.{i}") for i, v in enumerate(value)]
    bases = classes_in(hint)
    if isinstance(value, str) and not fits(hint, value):
        known = {name for base in bases for name in names(base)}
        # of what may be an array, or any module, only a name that is known is one
        if value in known or (known and eqx.Module not in bases):
            return _object({"name": value}, path, bases)
    if not isinstance(value, Mapping):
        return value
    if "_target_" in value:
        # where a number may stand, a function may make it as well
        return _object(value, path, (object,) if not bases or fits(hint, 0.0) else bases)
    if (bases and "name" in value) or any(map(_concrete, bases)):
        return _object(value, path, bases)
    return {k: _inside(hint, v, f"{path}.{k}") for k, v in value.items()}


def _object(node: Mapping[str, Any], path: str, bases: tuple[type, ...]) -> Any:
    """The object that a mapping describes, of one of these types."""
    arguments = {str(k): v for k, v in node.items() if k not in ("name", "_target_")}
    return build(_target(node, path, bases), arguments, path)


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


def _counts(hint: Any, label: str) -> bool:
    """True if a hint stands for a count, unlike a size in bytes; a section has limits in its own rules."""
    options = [getattr(option, "__origin__", option) if label else option for option in _options(hint)]
    return int in options and float not in options


def _options(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _is_section(hint: Any) -> bool:
    return inspect.isclass(hint) and dataclasses.is_dataclass(hint) and not issubclass(hint, _BASES)


def _concrete(base: type) -> bool:
    """True for a type with one class, which needs no name."""
    return base is not eqx.Module and not inspect.isabstract(base) and not base.__name__.startswith("Abstract")


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
