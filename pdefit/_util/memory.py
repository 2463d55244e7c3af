"""Memory that this process may still use, so that oversized work is refused before allocation."""

import math
import os
import re
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pdefit._util.errors import PdefitError

# bytes below which nothing is checked
_SMALL = 2**20
_SIZES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}


def size_in_bytes(size: object, key: str) -> float:
    """A size in bytes, from a number or a text with a unit.

    **Arguments:**

    - `size`: a text such as "64 MB" or "2 GiB", or a number of bytes.
    - `key`: the setting, for the error.
    """
    parts = re.fullmatch(r"([-+.\de]+?) ?([a-z]*)", str(size).strip().lower())
    try:
        found = float(parts[1]) * _SIZES[parts[2] or "b"] if parts else math.nan
    except (KeyError, ValueError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise PdefitError(f"{key} expects a size like '2 GB', but got '{size}'")
    return found


def in_words(size: float | int) -> str:
    """A number of bytes in the largest unit that fits, to three digits: "1.5 GB"."""
    unit = max(
        (u for u in ("B", "kB", "MB", "GB", "TB") if _SIZES[u.lower()] <= size),
        key=lambda u: _SIZES[u.lower()],
        default="B",
    )
    return f"{size / _SIZES[unit.lower()]:.3g} {unit}"


class CompiledProgram(NamedTuple):
    """A program compiled for given arguments, with the memory that the compiler reserved for it.

    **Arguments:**

    - `call`: the program.
    - `temporary`: bytes that live while it runs.
    - `returned`: bytes of what it returns.
    """

    call: Callable
    temporary: int
    returned: int


def compile_ahead(program: Any, *args) -> CompiledProgram:
    """Compile a program without running it, and read the compiler's memory analysis.

    **Arguments:** `program`: a function wrapped by `equinox.filter_jit`; `args`: its arguments.
    """
    call = program.lower(*args).compile()
    account = call.compiled.memory_analysis()
    return CompiledProgram(call, int(account.temp_size_in_bytes), int(account.output_size_in_bytes))


class Limit(NamedTuple):
    """A limit on memory.

    **Arguments:**

    - `left`: the number of bytes still available.
    - `name`: what sets the limit, in words.
    """

    left: float
    name: str


def available() -> Limit:
    """The tightest limit on the memory of this process; infinite if none is known."""
    return min(limits(), key=lambda limit: limit.left, default=Limit(math.inf, "no limit"))


def available_bytes() -> float:
    """Number of bytes still available."""
    return available().left


def limits(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> list[Limit]:
    """All limits on the memory of this process: the machine, `ulimit`, control groups, and a SLURM job.

    **Arguments:**

    - `root`: the root of the file system, another one in tests.
    - `environment`: the environment variables.
    """
    process = root / "proc" / "self"
    found = [_machine(root), *_process_limits(process), *_control_groups(process), _slurm(process, environment)]
    return [Limit(max(x.left, 0.0), x.name) for x in found if x is not None]


def _machine(root: Path) -> Limit | None:
    """Free memory, including caches that the system can reclaim."""
    free = _entry(root / "proc" / "meminfo", "MemAvailable:")
    if free is not None:
        return Limit(1024 * free, "free on this machine")
    try:
        return Limit(float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES")), "that this machine has")
    except (ValueError, OSError, AttributeError):
        return None


def _process_limits(process: Path) -> Iterator[Limit]:
    """The limits of `ulimit`, less the memory in use."""
    named = (
        ("RLIMIT_AS", "VmSize:", "that `ulimit -v` (RLIMIT_AS) leaves"),
        ("RLIMIT_DATA", "VmData:", "that `ulimit -d` (RLIMIT_DATA) leaves"),
    )
    for limit, entry, name in named:
        most = resource.getrlimit(getattr(resource, limit))[0]
        if most != resource.RLIM_INFINITY:
            yield Limit(most - 1024 * (_entry(process / "status", entry) or 0.0), name)


def _control_groups(process: Path) -> Iterator[Limit]:
    """The limits of the process's control groups and of all groups above them, less the memory in use."""
    for folder, top, files in _memory_groups(process):
        while True:
            most, used = _number(folder / files.limit), _number(folder / files.usage)
            # version 1 states a number near 2^63 where there is no limit
            if most is not None and most < 2.0**60:
                caches = _entry(folder / "memory.stat", files.cache) or 0.0
                yield Limit(most - (used or 0.0) + caches, f"that the control group ({folder / files.limit}) leaves")
            if folder == top:
                break
            folder = folder.parent


class _Files(NamedTuple):
    """Names of the files with a control group's limit and usage, and of the entry for its reclaimable caches."""

    limit: str
    usage: str
    cache: str


_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _Files("memory.max", "memory.current", "inactive_file")


def _memory_groups(process: Path) -> Iterator[tuple[Path, Path, _Files]]:
    """The directories of this process's control groups that limit memory, each with the root of its hierarchy."""
    # number:controllers:path, where version 2 has neither number nor controllers
    lines = [line.split(":", 2) for line in _lines(process / "cgroup")]
    paths = {
        controller: path for _, names, path in (x for x in lines if len(x) == 3) for controller in names.split(",")
    }
    for line in _lines(process / "mountinfo"):
        mount, _, kind = line.partition(" - ")
        where, what = mount.split(), kind.split()
        if len(where) < 5 or len(what) < 3 or what[0] not in ("cgroup", "cgroup2"):
            continue
        is_first = what[0] == "cgroup"
        controller, files = ("memory", _VERSION_1) if is_first else ("", _VERSION_2)
        if controller not in paths or (is_first and "memory" not in what[2].split(",")):
            continue
        # inside a container a part of the hierarchy may be mounted as the whole
        top = Path(where[4])
        inside = os.path.relpath(paths[controller], where[3])
        folder = top if inside.startswith("..") else top / inside
        yield (folder if folder.is_dir() else top), top, files


def _slurm(process: Path, environment: Mapping[str, str]) -> Limit | None:
    """The memory that a SLURM queue gave the job (in MB; 0 is all of a node), less what this process uses."""
    node, each = environment.get("SLURM_MEM_PER_NODE", ""), environment.get("SLURM_MEM_PER_CPU", "")
    count = environment.get("SLURM_CPUS_ON_NODE") or environment.get("SLURM_CPUS_PER_TASK") or "1"
    given, name = (node, "SLURM_MEM_PER_NODE") if node.isdecimal() else (each, "SLURM_MEM_PER_CPU")
    if not given.isdecimal() or int(given) == 0:
        return None
    most = int(given) * (int(count) if name == "SLURM_MEM_PER_CPU" and count.isdecimal() else 1)
    used = _entry(process / "status", "VmRSS:") or 0.0
    return Limit(most * 2.0**20 - 1024 * used, f"that this SLURM job ({name}) leaves")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _entry(path: Path, name: str) -> float | None:
    """The number after a name in a file of names and numbers."""
    found = (line.split() for line in _lines(path) if line.startswith(name))
    return next((float(x[1]) for x in found if x[0] == name and len(x) > 1 and x[1].isdecimal()), None)


def _number(path: Path) -> float | None:
    """The number in a file; None if the file holds none, or `max`."""
    found = "".join(_lines(path)).strip()
    return float(found) if found.isdecimal() else None


def too_large(shape: Sequence[int], itemsize: int = 8) -> str | None:
    """Size in words of an array that does not fit into memory; None if it fits.

    **Arguments:**

    - `shape`: the shape of the array.
    - `itemsize`: bytes of one of its numbers.
    """
    size = math.prod(int(n) for n in shape) * itemsize
    # small arrays are not worth a look at the limits
    if size < _SMALL or size <= (room := available()).left:
        return None
    return f"{min(size, 10**300) / 1e9:.3g} GB (more than the {in_words(room.left)} {room.name})"
