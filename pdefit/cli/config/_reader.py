"""Sections of a configuration, read by the types of their fields."""

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._argument_types import described, fits
from pdefit.cli.config._instantiate import make
from pdefit.cli.config._registry import KINDS
from pdefit.cli.config._types import Read

Section = TypeVar("Section")
# types of objects that have a name
_BASES = tuple(kind.base for kind in KINDS)


def read_section(section: type[Section], node: Any, path: str = "") -> Section:
    """The section that a mapping describes. Null stands for the default of an entry that has one.

    A `ValueError` that the section raises, about several of its entries, becomes one sentence with the path.

    **Arguments:**

    - `section`: a dataclass, whose fields without a default must be given.
    - `node`: the mapping; `path` is where it stands, for errors.
    """
    check_keys(section, node, path)
    values = {
        key: _read(hint, node[key], f"{path}.{key}" if path else key)
        for key, hint in typing.get_type_hints(section, include_extras=True).items()
        if key in node and not (node[key] is None and key in _defaults(section))
    }
    try:
        return section(**values)
    except ValueError as error:
        raise PdefitError(f"{path}: {error}" if path else str(error)) from None


def check_keys(section: Any, node: Any, path: str = "") -> None:
    """Refuse a node that is no mapping, that lacks a key of a section, or that has another one."""
    fields = [field.name for field in dataclasses.fields(section)]
    if not isinstance(node, Mapping):
        raise PdefitError(f"{path} expects {described(section)}, but got {node!r}")
    where = path or "the configuration"
    for key in node:
        if key not in fields:
            raise unknown(f"key of {where}", str(key), fields)
    for key in fields:
        if key not in node and key not in _defaults(section):
            hint = typing.get_type_hints(section, include_extras=True)[key]
            raise PdefitError(f"The key '{key}' is missing in {where}; it expects {described(hint)}")


def _defaults(section: Any) -> set[str]:
    """Names of the fields that need not be given."""
    missing = dataclasses.MISSING
    return {f.name for f in dataclasses.fields(section) if f.default is not missing or f.default_factory is not missing}


def _read(hint: Any, value: Any, path: str) -> Any:
    """Entry of a section by its type hint: the first type of a union that the value fits."""
    union, but, remedy = typing.get_origin(hint) in (typing.Union, types.UnionType), f"got {value!r}", ""
    for option in typing.get_args(hint) if union else (hint,):
        rules = getattr(option, "__metadata__", ())
        for rule in rules:
            if isinstance(rule, Read):
                return rule.read(value, path)
            if rule.test(value):
                return rule.convert(value)
            but, remedy = rule.but(value, path), rule.remedy and f"; {rule.remedy}"
        if not rules and value is not None and inspect.isclass(option):
            if issubclass(option, _BASES):
                return make(value, path, option)
            if dataclasses.is_dataclass(option) and (isinstance(value, Mapping) or not union):
                return read_section(option, value, path)
        if not rules and fits(option, value):
            return float(value or 0.0) if option is float else value
    raise PdefitError(f"{path} expects {described(hint)}, but {but}{remedy}")
