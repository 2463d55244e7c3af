"""Kinds of what JSON files of a run hold, as far as their readers rely on them."""

import types
from typing import Any, get_args, get_origin, get_type_hints

from pdefit.output.store.summary import Summary

# null is a number that is not finite
_NUMBER = float | int | None
_WORDS = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a whole number"}
_NUMBERS = {...: _NUMBER}
_FIT = {
    **dict.fromkeys(("values", "chi2", "chi2_per_value"), _NUMBER), "heldout": _NUMBERS, "structure": [{"excess": _NUMBER}],
    "whiteness": {...: {...: {"value": _NUMBER, "spread": _NUMBER}}},
}  # fmt: skip
# for each file the kinds of entries by key, of all others at `...`; a list has the kind of its items
KINDS: dict[str, dict[Any, Any]] = {
    "summary.json": get_type_hints(Summary) | dict.fromkeys(("own", "seconds", "memory", "invariant_drift"), _NUMBERS) | {
        "fit": _FIT, "forecast": {"baseline": {}}, "sigma": {...: [_NUMBER]}, "likelihood": {"prior": {...: str}},
        "recordings": {...: {"fit": _FIT, "forecast": {}, "own": _NUMBERS}}, "intervals": {"not_identifiable": [str]},
        "evidence": {"reasons": [str], "next": str}, "posterior": {"eigenvalues": [_NUMBER], "degrees_of_freedom": _NUMBER},
    },
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
    | {"events": [str], "under_way": bool, "steps": dict.fromkeys(("error", "chosen", "stable"), _NUMBER)},
}  # fmt: skip


def as_kind(x: Any, kind: Any, path: str, wrong: list[str], is_item: bool = False) -> Any:
    """An entry of a file. One of another kind becomes None or empty, and a sentence about it is added to `wrong`.

    **Arguments:**

    - `x`, `path`: the entry, and where it stands in the file.
    - `kind`: a type, types, or what `KINDS` holds.
    - `wrong`: the sentences.
    - `is_item`: whether the entry is an item of a list, or has no name of its own. Then a mapping is never None.
    """
    if isinstance(kind, dict) and (type(x) is dict or x is None and is_item):
        entries = [(k, v, kind.get(k, kind.get(..., Any)), k not in kind) for k, v in (x or {}).items()]
        return {k: as_kind(v, of, f"{path}.{k}".lstrip("."), wrong, is_one) for k, v, of, is_one in entries}
    if isinstance(kind, list) and type(x) is list:
        return [as_kind(v, kind[0], f"{path}[{i}]", wrong, True) for i, v in enumerate(x)]
    options = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    kinds = [type(k) if isinstance(k, dict | list) else get_origin(k) or k for k in options]
    # not isinstance: a bool is no number
    if kind is Any or type(x) in kinds:
        return x
    if type(x) is int and float in kinds:
        return float(x)
    if x is not None:
        wrong.append(f"{path} expects {_WORDS.get(kinds[0], 'a number')}, but got {str(x)[:60]!r}")
    return None if types.NoneType in kinds or x is None and isinstance(kind, dict) else kinds[0]()
