"""Random damage to the files of a run."""

import csv
import hashlib
import io
import json
import os
import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml

from fuzzing.configurations import flipped

# what stands in the place of an entry that was of another kind
OTHERS: list[Any] = [
    None, True, 3, -1, 10**400, 0.5, float("nan"), float("inf"), "x", "", "\x1b[2J", "1e999", [], [3], [None], ["x"], {},
    {"a": 1}, {"a": None}, {"a": "x"}, {"a": {"a": {"a": "x"}}}, {"a": [3]},
]  # fmt: skip
# files that verbs write beside those of a fit, as small as their readers take them
MORE = {
    "starts.csv": "start,loss,optimum,converged,dropped,D start,D\n0,1.5,1,True,,0.3,0.2\n1,2.5,2,False,1,0.1,0.4\n",
    "points.csv": "kind,time,frame,x,charge\ntrue,0.0,0,0.5,1\n",
    "derived.csv": (
        "control,unit,scale,guess,estimate,truth,relative_error,ci95_low,ci95_high,z_score,at_bound\n"
        "R0,1,log,1.0,2.0,,,1.5,2.5,,False\n"
    ),
    "profiles.json": '{"profiles": [{"control": "D", "unit": "1", "low": 0.1, "high": 0.2, "remark": "a"}]}',
    "identifiability.json": '{"at": "estimate", "controls": [{"control": "D", "word": "vague", "projection": 0.5}]}',
    "discovery.json": '{"values": 9, "rivals": 1, "misses": false, "sets": [{"formula": "u", "terms": 1, "chi2": 2.0}]}',
}
SWAPPED = (".json", ".yaml", ".csv", ".h5")
# files of a run that is shown, those with most readers more often
SHOWN = [
    *["summary.json"] * 4, *["fields.h5", "state/state.h5"] * 2, "plan.json", "provenance.json", "certificate.json", *MORE,
    "parameters.csv", "residuals.csv", "forecast.csv", "history.h5", ".hydra/config.yaml", ".lock", "run.log", "FAILED",
]  # fmt: skip


def spoiled(path: Path, rng: random.Random) -> str:
    """Damage or remove a file, or put something else in its place; says how."""
    if path.is_dir():
        return f"{path.name} is a folder already"
    raw = path.read_bytes() if path.is_file() else b""
    how = rng.choice(["cut", "bits", "burst", "deleted", "empty", "random", "json", "folder", "text"])
    at = rng.randrange(len(raw) + 1)
    path.unlink(missing_ok=True)
    if how == "cut":
        path.write_bytes(raw[:at])
    elif how in ("bits", "burst"):
        path.write_bytes(flipped(raw, rng, 3 if how == "bits" else 300))
    elif how in ("empty", "random"):
        path.write_bytes(b"" if how == "empty" else rng.randbytes(100))
    elif how == "json":
        path.write_text(
            rng.choice(
                [
                    "{}",
                    "[]",
                    "null",
                    "1",
                    '{"command": 3}',
                    '{"command": ["pdefit", "fit"], "resumed": 3}',
                    '{"start": 3}',
                    '{"end": {"hashes": 3}}',
                    '{"start": {"hashes": {}}}',
                    "[" * 100000,
                    '{"command": {"a": 1}}',
                    '{"end": [1]}',
                ]
            )
        )
    elif how == "folder":
        path.mkdir()
    elif how == "text":
        path.write_bytes("# ünlesbar \udcff".encode("utf-8", "surrogateescape"))
    return f"{path.name} {how} at {at}"


def contents(run: Path) -> dict[str, bytes]:
    """All files of a run."""
    return {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}


def worse(run: Path, before: dict[str, bytes]) -> str:
    """Whether a provenance that could be read no longer can, or one that could not was written over."""
    try:
        json.loads(before["provenance.json"])
    except (KeyError, ValueError, RecursionError):
        return (
            "" if before.get("provenance.json") == contents(run).get("provenance.json") else "provenance.json rewritten"
        )
    json.loads((run / "provenance.json").read_text())
    return ""


def with_more(run: Path) -> Path:
    """The run with small files of other verbs, and with recordings in its summary."""
    for name, content in MORE.items():
        (run / name).write_text(content)
    summary = json.loads((run / "summary.json").read_text())
    summary["recordings"] = {
        "a": {"fit": summary["fit"], "forecast": summary["forecast"], "own": {"b": 1.0}, "frames": 3}
    }
    (run / "summary.json").write_text(json.dumps(summary))
    return run


def swapped(path: Path, rng: random.Random) -> str:
    """Put something of another kind in the place of one entry of a file that stays readable; says what."""
    other = rng.choice(OTHERS)
    if path.suffix in (".json", ".yaml"):
        content = json.loads(path.read_text()) if path.suffix == ".json" else yaml.safe_load(path.read_text())
        where = _replaced(content, other, rng)
        path.write_text(json.dumps(content) if path.suffix == ".json" else yaml.safe_dump(content))
        return f"{path.name}: {where} = {str(other)[:40]!r}"
    if path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(path.read_text())))
        row = rng.choice(rows)
        at = rng.randrange(len(row))
        how = rng.choice(["cell", "short", "long", "header"])
        if how == "cell":
            row[at] = rng.choice(["", "x", "nan", "1e999", "\x1b[2J", "True", "-1", "9" * 400])
        elif how == "short":
            del row[at:]
        elif how == "long":
            row.append("1")
        else:
            rows[0][rng.randrange(len(rows[0]))] = rng.choice(["", "x", "time", "loss"])
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(rows)
        return f"{path.name}: {how} of {row[:3]}"
    if path.name == "state.h5":
        return _state(path, other, rng)
    with h5py.File(path, "r+") as file:
        names = [""] + list(file)
        node = file[rng.choice(names) or "/"]
        attributes = [a for a in node.attrs if a not in ("CLASS", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid")]
        if isinstance(node, h5py.Dataset) and node.dtype.kind in "fi" and rng.random() < 0.5:
            node[...] = rng.choice([0, 1, np.inf, np.nan]) if node.dtype.kind == "f" else rng.choice([0, -1, 127])
            return f"{path.name}: {node.name} all {node[...].ravel()[:1]}"
        name = rng.choice(attributes or ["x"])
        node.attrs[name] = rng.choice([3, -1.5, "", "\x1b[2J", "nothing", "seconds since", np.arange(3), ["a", "b"]])
        return f"{path.name}: {node.name}@{name} = {node.attrs[name]!r}"


def _state(path: Path, other: Any, rng: random.Random) -> str:
    """Another kind of number in a saved state, whose checksum is right again."""
    with h5py.File(path, "r+") as file:
        parts = {key: json.loads(str(file.attrs[key])) for key in ("numbers", "origin")}
        key = rng.choice(["numbers", "numbers", "origin"])
        where = _replaced(parts[key], other, rng)
        for name, content in parts.items():
            file.attrs[name] = json.dumps(content)
        total = hashlib.sha256(json.dumps([*parts.values()], sort_keys=True).encode())
        for name, array in sorted((str(file[k].attrs["name"]), np.asarray(file[k])) for k in file):
            total.update(f"{name}{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        file.attrs["sha256"] = total.hexdigest()
    return f"state.h5: {key}{where} = {str(other)[:40]!r}"


def _replaced(content: Any, other: Any, rng: random.Random) -> str:
    """Replace an entry at a random depth; says where."""
    where = ""
    while True:
        key = rng.choice(list(content) if isinstance(content, dict) else range(len(content)))
        where += f".{key}"
        if not (isinstance(content[key], dict | list) and content[key] and rng.random() < 0.75):
            content[key] = other
            return where
        content = content[key]


def odd(path: Path, rng: random.Random) -> str:
    """A pipe, or a link that leads elsewhere, in the place of a file."""
    path.unlink(missing_ok=True)
    if rng.random() < 0.5:
        os.mkfifo(path)
        return f"{path.name} is a pipe"
    path.symlink_to("/etc/passwd")
    return f"{path.name} leads to /etc/passwd"
