"""Types of the entries of a run's JSON files, as far as their readers rely on them."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from pdefit.output.store.summary import Summary

# null is a number that is not finite
_NUMBER = float | int | None
# a watch over the steps of a fit
_STEPS = dict.fromkeys(("error", "chosen", "stable"), _NUMBER)
_WORDS = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a whole number"}
# for each file the kinds of entries by key, of all others at `...`; a list has the kind of its items
KINDS: dict[str, Any] = {
    "summary.json": Summary,
    "plan.json": {"unknowns": {...: int}, "evaluation": {}, "process_bytes": _NUMBER},
    "provenance.json": {
        "command": [str], "resumed": [{"command": [str]}], **dict.fromkeys(("versions", "device", "equations"), {}),
    },
    "certificate.json": dict.fromkeys(("start", "end"), {"checks": [{}], "hashes": {}}),
    "identifiability.json": {"controls": [{}]},
    "profiles.json": {"profiles": [{}]},
    "discovery.json": {"sets": [{}]},
    # the numbers of a saved state
    "state.h5": dict.fromkeys(("stage", "round", "count", "iterations", "windows", "windows_before", "rung"), int)
    | {"events": [str], "under_way": bool, "steps": _STEPS, "watches": [_STEPS]},
}  # fmt: skip


def as_kind(x: Any, kind: Any, path: str, wrong: list[str], is_item: bool = False) -> Any:
    """An entry of a file. An entry of another type becomes None or empty, with a sentence added to `wrong`.

    **Arguments:**

    - `x`, `path`: the entry, and its path in the file.
    - `kind`: a type hint, a record, or an entry of `KINDS`.
    - `wrong`: the sentences.
    - `is_item`: whether the entry is an item of a list, or has no name. Then a mapping is never None.
    """
    hints = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    record: Any = next(filter(dataclasses.is_dataclass, hints), None)
    options = [*map(_as_template, hints)]
    for of in options:
        if isinstance(of, dict) and (type(x) is dict or x is None and is_item):
            entries = [(k, v, of.get(k, of.get(..., Any)), k not in of) for k, v in (x or {}).items()]
            read = {k: as_kind(v, of, f"{path}.{k}".lstrip("."), wrong, is_one) for k, v, of, is_one in entries}
            if record is None:
                return read
            return record(**{k: v for k, v in read.items() if k in of and v is not None})
        if isinstance(of, list) and type(x) is list:
            return [as_kind(v, of[0], f"{path}[{i}]", wrong, True) for i, v in enumerate(x)]
    kinds = [type(k) if isinstance(k, dict | list) else k for k in options]
    # not isinstance: a bool is no number
    if kind is Any or type(x) in kinds:
        return x
    if type(x) is int and float in kinds:
        return float(x)
    if x is not None:
        wrong.append(f"{path} expects {_WORDS.get(kinds[0], 'a number')}, but got {str(x)[:60]!r}")
    if types.NoneType in kinds or x is None and isinstance(options[0], dict):
        return None
    return kinds[0]() if record is None else record()


def _as_template(kind: Any) -> Any:
    """Entries by key for a record, `{...: T}` for a hint such as `dict[str, T]`, `[T]` for `list[T]`; else the type."""
    origin, args = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return get_type_hints(kind)
    return {...: args[1]} if origin in (dict, Mapping) else [*args] if origin in (list, Sequence) else kind
