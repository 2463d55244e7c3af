"""Writers that are killed while they append."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# importing pdefit takes seconds: one process imports it, its forks write and are killed at seeded random times
_KILLER = """
import os, pathlib, random, signal, sys, time
{imports}

def write(path, ready):
{body}

for i in range({count}):
    started, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        write(pathlib.Path(sys.argv[1]) / f"{{i}}.h5", lambda: os.write(ready, b"!"))
        os._exit(1)
    os.read(started, 1)
    time.sleep(random.Random(i).uniform(0.0, 0.25))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the writer ended before it was killed"
"""


@pytest.fixture
def kill_writers(tmp_path: Path) -> Callable[[str, str, int], list[Path]]:
    """From imports and body of `write(path, ready)`, which never ends, to the files that `count` killed writers left."""

    def run(imports: str, body: str, count: int) -> list[Path]:
        indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
        code = _KILLER.format(imports=imports, body=indented, count=count)
        subprocess.run([sys.executable, "-W", "ignore", "-c", code, tmp_path], check=True, timeout=600)
        return [tmp_path / f"{i}.h5" for i in range(count)]

    return run
