"""The verdict of Python beside the verdict of the command, for shipped experiments.

    ./run python tests/benchmarks/same_verdict.py [NAME ...] [--set KEY=VALUE ...]

Runs `pdefit fit` of each experiment in an empty folder, and `pdefit.judge(pdefit.load_experiment(NAME).fit())`. Prints a
line for each, and ends with 1 if a word, a reason or the next step differs. Without names: every shipped experiment that
is no list of members and whose file states a cost below a minute.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pdefit.cli.runtime.environment import prepare

prepare()

import pdefit
from pdefit.cli.config.catalogue import costs

# tests/cli/run/test_members.py compares the verdicts of members
MEMBERS = ("populations/lotka_volterra_500",)


def quick() -> list[str]:
    """The experiments whose stated cost is in seconds, below 60."""
    found = {name: re.search(r"([\d.]+) s\b", cost) for name, cost in costs().items()}
    return [n for n, s in found.items() if s and float(s.group(1)) < 60 and n not in MEMBERS]


def of_command(name: str, words: list[str]) -> tuple[str, str, str]:
    """Verdict, reason and next step of `pdefit fit`."""
    with tempfile.TemporaryDirectory() as folder:
        given = [f"experiment={name}", "render=false", "certificate=warn", f"hydra.run.dir={folder}/run", *words]
        done = subprocess.run(["pdefit", "fit", *given], capture_output=True, text=True, cwd=folder)
        if done.returncode:
            return "", done.stderr[-300:], ""
        told = json.loads((Path(folder) / "run" / "summary.json").read_text())
        return told["verdict"], told["verdict_reason"], told["evidence"]["next"]


def of_python(name: str, words: list[str]) -> tuple[str, str, str]:
    """Verdict, reason and next step of `pdefit.judge`."""
    verdict = pdefit.judge(pdefit.load_experiment(name, words).fit()).verdict
    return verdict.word, verdict.reason, verdict.next


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--set", nargs="*", default=[], dest="words")
    options, wrong = parser.parse_args(), 0
    for name in options.names or quick():
        command = of_command(name, options.words)
        if not command[0]:
            print(f"{name}: no fit: {command[1].strip()}", flush=True)
            continue
        python = of_python(name, options.words)
        wrong += command != python
        print(f"{name}: {command[0] if command == python else f'DIFFERS: {command} and {python}'}", flush=True)
    sys.exit(bool(wrong))
