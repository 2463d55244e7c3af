"""Names of the jobs of a sweep: the keys that differ between them, with their values."""

import hashlib
import re
from collections.abc import Sequence

# characters but those that every file system takes, and neither a shell nor a setting `key=PATH` interprets
_OTHERS = re.compile(r"[^\w.+-]+", re.ASCII)
_LONGEST = 100
# sections whose name says nothing about a key
_SECTIONS = ("controls", "system", "data", "twin")


def swept_keys(jobs: Sequence[Sequence[str]]) -> list[str]:
    """The keys whose values differ between jobs; all keys but the experiment if none does.

    **Arguments:** `jobs`: the overrides of each job, `key=value`.
    """
    values: dict[str, list[str]] = {}
    for job in jobs:
        for key, value in map(_parted, job):
            values.setdefault(key, []).append(value)
    found = [key for key, of in values.items() if len({*of}) > 1 or len(of) < len(jobs)]
    return found or [key for key in values if key != "experiment"]


def swept_values(jobs: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Values of the swept keys, for each job."""
    keys = swept_keys(jobs)
    each = [dict(map(_parted, job)) for job in jobs]
    return [{key: values[key] for key in keys if key in values} for values in each]


def job_names(jobs: Sequence[Sequence[str]]) -> list[str]:
    """A name for each job, such as `D.guess_0.5__seed_1`, which does not depend on its number.

    Long names, and characters that a folder name cannot have, are cut; a digest of the overrides then keeps names
    distinct. Jobs with equal overrides are numbered.
    """
    short = _shortened(swept_keys(jobs))
    names, found = list[str](), list[str]()
    for job, values in zip(jobs, swept_values(jobs), strict=True):
        whole = "__".join(f"{short[key]}_{value}" for key, value in values.items()) or "job"
        plain = _OTHERS.sub("-", whole).strip("-.") or "job"
        if plain != whole or len(plain) > _LONGEST:
            digest = hashlib.sha256("\n".join(job).encode()).hexdigest()[:6]
            plain = f"{plain[:_LONGEST]}-{digest}"
        found.append(plain)
        count = found.count(plain)
        names.append(plain if count == 1 else f"{plain}__{count}")
    return names


def _shortened(keys: Sequence[str]) -> dict[str, str]:
    """Keys without the names of their sections, if they stay distinct."""
    short = {key: key.partition(".")[2] if key.partition(".")[0] in _SECTIONS else key for key in keys}
    return {key: name if list(short.values()).count(name) == 1 else key for key, name in short.items()}


def _parted(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key.lstrip("+~"), value
