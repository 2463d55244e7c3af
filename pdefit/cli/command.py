"""Entry point of the `pdefit` command, which prints its help without Hydra."""

import importlib
import sys

from pdefit.cli.config.command_line import HELP, USAGE


def command() -> None:
    """The `pdefit` command. Hydra and all that other verbs need take a second to load."""
    if sys.argv[1:] and sys.argv[1] not in HELP:
        importlib.import_module("pdefit.cli.main").command()
    else:
        print(USAGE, end="")
