"""Entry point of the `pdefit` command, which prints its help without Hydra."""

import importlib
import sys

from pdefit.cli.config.command_line import HELP, USAGE


def command() -> None:
    """Run the `pdefit` command. Loading Hydra and the verbs takes a second, which the help does not need."""
    if sys.argv[1:] and sys.argv[1] not in HELP:
        importlib.import_module("pdefit.cli.main").command()
    else:
        print(USAGE, end="")
