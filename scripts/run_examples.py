"""Renews examples/output/ and the pictures of the tutorials: `./run python scripts/run_examples.py [NAME ...]`."""

import contextlib
import io
import runpy
import subprocess
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import example_pictures  # noqa: E402

ROOT = Path(__file__).parents[1]


def run(file: Path) -> None:
    """Run one example, and keep its text and its picture."""
    print(f"{file.stem} ...", end=" ", flush=True)
    begin = time.process_time()
    if file.suffix == ".sh":
        text = subprocess.run([file], check=True, capture_output=True, text=True).stdout
    else:
        with contextlib.redirect_stdout(io.StringIO()) as written:
            names = runpy.run_path(str(file), run_name="__main__")
        text = written.getvalue()
        if draw := getattr(example_pictures, file.stem, None):
            draw(names).savefig(ROOT / "docs" / "tutorials" / f"{file.stem}.png", dpi=100)
    (ROOT / "examples" / "output" / f"{file.stem}.txt").write_text(text)
    print(f"{time.process_time() - begin:.1f} s of processor time")


def main() -> None:
    files = sorted(f for f in (ROOT / "examples").iterdir() if f.suffix in (".py", ".sh") and f.stem != "my_equation")
    for file in files:
        if not sys.argv[1:] or file.stem in sys.argv[1:]:
            run(file)


if __name__ == "__main__":
    main()
