"""From configuration to objects, without letting a configuration run code."""

import importlib
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar

from pdefit._util.errors import PdefitError, first_line, nearest, unknown
from pdefit.cli.config.argument_types import misbuilt, misfit, returned
from pdefit.cli.runtime.plugins import plugins

_LIBRARIES = ("pdefit", "optax", "diffrax", "optimistix")


Made = TypeVar("Made")


def make(node: Any, path: str, *kinds: type[Made]) -> Made:
    """The object a mapping describes, which must be of one of these kinds; nothing else is even called."""
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise PdefitError(f"{path} expects a _target_ and its arguments, but got {node!r}")
    target = resolve(node["_target_"], path)
    makes = returned(target)
    if not (inspect.isclass(makes) and issubclass(makes, kinds)):
        named = " or ".join(kind.__name__ for kind in kinds)
        raise PdefitError(f"{path} expects a kind of {named}, which '{node['_target_']}' is not")
    return instantiate(node, path)


def instantiate(node: Any, path: str = "") -> Any:
    """The tree with every mapping that has a `_target_` replaced by the object it describes, innermost first."""
    if isinstance(node, Mapping):
        built = {k: instantiate(v, f"{path}.{k}" if path else str(k)) for k, v in node.items() if k != "_target_"}
        return build(resolve(node["_target_"], path), built, path) if "_target_" in node else built
    if isinstance(node, list | tuple):
        return [instantiate(v, f"{path}.{i}") for i, v in enumerate(node)]
    return node


def build(target: Any, arguments: dict[str, Any], path: str) -> Any:
    """Call a class or function with configured arguments; its complaints become one sentence."""
    try:
        names = list(inspect.signature(target).parameters)
    except ValueError:
        raise PdefitError(f"{path} ({target.__name__}) cannot be described by a configuration") from None
    if inspect.isabstract(target):
        raise PdefitError(f"{path} ({target.__name__}) is abstract; name one of its subclasses")
    for name in arguments:
        if name not in names and "kwargs" not in names:
            raise unknown(f"argument of {target.__name__} ({path})", str(name), names)
    missing = [k for k, v in arguments.items() if isinstance(v, str) and v == "???"]
    if missing:
        raise PdefitError(f"{path}.{missing[0]} is missing; set it")
    wrong = misfit(target, arguments)
    if wrong is None:
        try:
            made = target(**arguments)
        except PdefitError as error:
            raise PdefitError(f"{path} ({target.__name__}): {error}") from error
        # plugins and libraries complain about arguments with any exception
        except Exception as error:
            raise PdefitError(f"{path} ({target.__name__}): {first_line(error)}") from error
        if (wrong := misbuilt(made)) is None:
            return made
    raise PdefitError(f"{path}.{wrong}")


def resolve(target: Any, path: str = "") -> Any:
    """The class or function called `target`, if a configuration may name it.

    Allowed is what pdefit, a plugin, optax, diffrax or optimistix defines itself *and* exports under a public name: a
    prefix test alone would let `diffrax._integrate.jax...getcwd` through.
    """
    allowed = {*_LIBRARIES, *plugins()}
    refused = PdefitError(
        f"_target_ '{target}' ({path}) is not allowed; it must be a class or function that pdefit, a plugin, optax, "
        f"diffrax or optimistix exports"
    )
    root, *names = str(target).split(".")
    if root not in allowed and nearest(root, plugins()):
        raise unknown(f"plugin (_target_ '{target}', {path})", root, plugins())
    if root not in allowed or not names or any(not n.isidentifier() or n.startswith("_") for n in names):
        raise refused
    # our own packages and plugins say in their top level what is public; their modules hold file writers too
    if root not in _LIBRARIES[1:] and len(names) > 1:
        raise refused
    found: Any = importlib.import_module(root)
    for name in names:
        # only modules may be walked through, and only those inside the package that was named
        if not isinstance(found, ModuleType) or not _inside(found.__name__, root):
            raise refused
        if not hasattr(found, name):
            public = [n for n in dir(found) if not n.startswith("_")]
            if not nearest(name, public):
                raise refused
            raise unknown(f"_target_ in {found.__name__} ({path})", name, public)
        found = getattr(found, name)
    if not (inspect.isclass(found) or inspect.isfunction(found)) or not _inside(str(found.__module__), root):
        raise refused
    return found


def _inside(module: str, root: str) -> bool:
    return module == root or module.startswith(f"{root}.")
