"""Scratch files in a run directory, for adjoint checkpoints that do not fit into memory."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdefit.inverse.fit.drivers import AbstractDriver, Hosted
from pdefit.output.store.adjoint_scratch import CheckpointFile

_NAME = "checkpoints"


@contextmanager
def checkpoints_in(directory: Path, driver: AbstractDriver) -> Iterator[None]:
    """Let a driver keep checkpoints in files of a run directory during a block.

    The files are removed at its end. Files left by a run that was killed are removed at its start.

    **Arguments:**

    - `directory`: of the run.
    - `driver`: only `Hosted` writes such files.
    """
    for left in directory.glob(f"{_NAME}-*"):
        left.unlink(missing_ok=True)
    if isinstance(driver, Hosted):
        numbers = itertools.count()
        driver.open_file = lambda like, slots: CheckpointFile(directory / f"{_NAME}-{next(numbers)}.bin", like, slots)
    try:
        yield
    finally:
        driver.close()
