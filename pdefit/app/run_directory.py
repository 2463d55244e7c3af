"""The directory of a run: its log, its status, where it came from."""

import importlib.metadata
import logging
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import jax
from hydra.core.hydra_config import HydraConfig

from pdefit.errors import PdefitError
from pdefit.files.atomic import write_json, write_text

log = logging.getLogger("pdefit")

_PACKAGES = ("pdefit", "jax", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "h5py", "hydra-core")


def run_name() -> str:
    """A name that two sweeps started in the same second do not share."""
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{uuid.uuid4().hex[:4]}"


def current() -> Path:
    """The directory Hydra made for this run."""
    return Path(HydraConfig.get().runtime.output_dir)


@contextmanager
def recorded(directory: Path, command: str, cfg: Any) -> Iterator[None]:
    """Provenance at the start; DONE at the end, or FAILED with the reason."""
    for stale in ("DONE", "FAILED"):
        (directory / stale).unlink(missing_ok=True)
    write_json(directory / "provenance.json", _provenance(command, cfg))
    try:
        yield
    except BaseException as error:
        log.error("%s", error, exc_info=not isinstance(error, PdefitError))
        write_text(directory / "FAILED", f"{error if str(error) else type(error).__name__}\n")
        raise
    write_text(directory / "DONE", f"{datetime.now().astimezone().isoformat(timespec='seconds')}\n")


def _provenance(command: str, cfg: Any) -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "command": [command, *sys.argv[1:]],
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in _PACKAGES}},
        "git_commit": _commit(),
        "device": {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "dtype": cfg["dtype"],
        "seed": cfg["seed"],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the source tree, with `+` when it has changes; None for an installed wheel."""
    here = Path(__file__).parent
    try:
        top = subprocess.run(
            ["git", "-C", here, "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return top.stdout.strip()
