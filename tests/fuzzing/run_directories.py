"""Random damage to the files of a run."""

import json
import random
from pathlib import Path

from fuzzing.configurations import flipped


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
