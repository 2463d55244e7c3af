"""Measure the rows of the benchmark table, each in a process of its own.

./run python tests/benchmarks/report.py            # all rows: about half an hour
./run python tests/benchmarks/report.py P3 P12     # some
"""

import subprocess
import sys
from pathlib import Path

from pdefit.cli.runtime.environment import prepare

prepare()


def main() -> None:
    from rows import LARGER, ROWS
    from timing import one_core

    every = {**ROWS, **LARGER}
    if len(sys.argv) == 3 and sys.argv[1] == "--row":
        one_core()
        row = every[sys.argv[2]]()
        print(f"| {sys.argv[2]} | {row.what} | {row.target} | {row.found} | {row.note} |", flush=True)
        return
    print("| id | what | target | found | |\n|---|---|---|---|---|", flush=True)
    for name in sys.argv[1:] or every:
        done = subprocess.run([sys.executable, Path(__file__), "--row", name], capture_output=True, text=True)
        print(done.stdout.strip() or f"| {name} | failed: {done.stderr.strip().splitlines()[-1]} |", flush=True)


if __name__ == "__main__":
    main()
