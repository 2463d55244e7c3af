"""The directory of a run: its name, provenance, lock and final state."""

import importlib.metadata
import logging
import os
import platform
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any, Protocol

from hydra.core.hydra_config import HydraConfig

from pdefit._util import interrupts
from pdefit._util.atomic import read_json, write_json, write_text
from pdefit._util.errors import PdefitError, of_the_machine, sentence
from pdefit.cli.runtime import equations, processes
from pdefit.output.store.run_lock import RUNNING, heartbeat, locked
from pdefit.output.store.runs import MARKS, RunFiles

log = logging.getLogger("pdefit")

_PACKAGES = ("pdefit", "jax", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "h5py", "hydra-core")


class Reproducible(Protocol):
    """Settings that are repeated in the provenance of a run."""

    @property
    def dtype(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def cores(self) -> int: ...


def run_name() -> str:
    """A new name for a run: the time and a random number, which separates sweeps of the same second."""
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{uuid.uuid4().hex[:4]}"


def current() -> Path:
    """The directory that Hydra made for this run."""
    return Path(HydraConfig.get().runtime.output_dir)


def refuse_used(overrides: list[str]) -> None:
    """Refuse directories that already hold a run, which Hydra would overwrite.

    A new attempt may use the directory of a command that ended before it saved anything; a sweep's record continues.
    """
    for override in overrides:
        key, _, value = override.partition("=")
        runs = {"hydra.run.dir": "provenance.json", "hydra.sweep.dir": "*/provenance.json"}.get(key)
        if runs and not value.strip("'\" "):
            raise PdefitError(f"{key} expects a directory, but got nothing; name one, or leave {key} out")
        value = value.strip("'\"")
        if runs and (blocked := next((p for p in (Path(value), *Path(value).parents) if p.is_file()), None)):
            raise PdefitError(f"{key} expects a directory, but '{blocked}' is a file; choose another name")
        go_on = "sweep resume" if key == "hydra.sweep.dir" else "resume"
        alone = key == "hydra.run.dir" and RunFiles(Path(value)).unsaved
        if runs and any(Path(value).glob(runs)) and not alone:
            raise PdefitError(
                f"'{value}' already holds a run; go on with it by `pdefit {go_on} {value}`, or choose another directory"
            )


@contextmanager
def recorded(
    directory: Path,
    command: list[str],
    settings: Reproducible,
    experiment: str,
    resumed: bool = False,
    alone: bool = True,
) -> Iterator[None]:
    """Context manager that locks a run directory, and records the course of the run.

    Provenance is written at the start. During the run there is a file RUNNING, whose time is renewed every 20 s. At the
    end a file DONE, INTERRUPTED or FAILED is written, with the time or the reason.

    **Arguments:**

    - `directory`: the directory of the run.
    - `command`: the words of the command line, for the provenance.
    - `settings`, `experiment`: the settings and the name of the experiment.
    - `resumed`: whether the run existed before.
    - `alone`: whether the process ends with the run.
    """
    with locked(directory):
        # where resuming fails before it has changed anything, the run keeps its earlier mark
        before, untouched = {mark: _text(directory / mark) for mark in MARKS[:2]}, _states(directory)

        def end(mark: str, reason: str) -> None:
            same = resumed and _states(directory) == untouched
            as_it_was = next(((m, text) for m, text in before.items() if text is not None), None) if same else None
            _end(directory, *(as_it_was or (mark, f"{reason}\n")))

        def interrupted(names: Sequence[str]) -> interrupts.Interrupted:
            reason = f"{names[0]}: not everything is written"
            log.error("%s", reason)
            end("INTERRUPTED", reason)
            # the process may be left without the ends of blocks
            (directory / RUNNING).unlink(missing_ok=True)
            processes.dismiss(interrupts.exit_code(names[0]))
            go_on = f"; `pdefit resume {quote(str(directory))}` goes on" if command[1] in ("fit", "resume") else ""
            return interrupts.Interrupted(f"interrupted by {reason}{go_on}", names)

        try:
            interrupts.begin(interrupted, alone)
            _start(directory, _provenance(command, settings, experiment), resumed)
            with heartbeat(directory):
                yield
            with interrupts.uninterrupted():
                _end(directory, "DONE", f"{datetime.now().astimezone().isoformat(timespec='seconds')}\n")
        except KeyboardInterrupt:
            with interrupts.uninterrupted():
                error = interrupted(interrupts.received() or ["SIGINT"])
            raise error from None
        except BaseException as error:
            with interrupts.uninterrupted():
                told = of_the_machine(error)
                reason = told or sentence(str(error)) or type(error).__name__
                log.error("%s", reason, exc_info=told is None and not isinstance(error, PdefitError))
                end("FAILED", reason)
            raise


def mark_failed(directory: Path, reason: str) -> None:
    """Write FAILED with the reason, unless the run has begun: then it records its own end, or belongs to another process."""
    if not (directory / "provenance.json").exists():
        with suppress(OSError):
            write_text(directory / "FAILED", f"{sentence(reason)}\n")


def _start(directory: Path, entry: dict[str, Any], resumed: bool) -> None:
    """Write provenance, and remove the mark of an earlier end."""
    provenance = directory / "provenance.json"
    if resumed and provenance.is_file():
        first = read_json(provenance)
        before = first.get("resumed", [])
        entry = {**first, "resumed": [*(before if isinstance(before, list) else []), entry]}
    for mark in MARKS:
        (directory / mark).unlink(missing_ok=True)
    write_json(provenance, entry)
    if (file := equations.named()) is not None and not resumed:
        write_text(directory / equations.COPY, file.text)


def _end(directory: Path, mark: str, text: str) -> None:
    """Write the final mark of a run. Signals are ignored from now on."""
    interrupts.over()
    try:
        write_text(directory / mark, text)
    except OSError:
        # a full disk may still have room for an empty file
        with suppress(OSError):
            (directory / mark).touch()


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def _states(directory: Path) -> list[tuple[str, int]]:
    """Modification times of the summary and of the files in state/."""
    files = [*(directory / "state").glob("*.h5"), directory / "summary.json"]
    return sorted((f.name, f.stat().st_mtime_ns) for f in files if f.exists())


def _provenance(command: list[str], settings: Reproducible, experiment: str) -> dict[str, Any]:
    # here, since the command line finds most mistakes before it needs JAX, which takes seconds to load
    import jax

    device, file = jax.devices()[0], equations.named()
    return {
        "experiment": experiment,
        "command": command,
        **({} if file is None else {"equations": file.recorded}),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in _PACKAGES}},
        "git_commit": _commit(),
        "device": {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cores": settings.cores,
        "dtype": settings.dtype,
        "seed": settings.seed,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Commit of the source tree, with `+` for uncommitted changes; None for an installed wheel."""
    here = Path(__file__).parent
    try:
        top = subprocess.run(
            ["git", "-C", here, "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return top.stdout.strip()
