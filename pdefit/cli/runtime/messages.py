"""Messages that belong into the log and on the terminal."""

import logging

from rich.console import Console
from rich.markup import escape

log = logging.getLogger("pdefit")


def say(console: Console, *lines: str) -> None:
    """Write lines into the log and on the terminal; empty ones are left out."""
    for line in filter(None, lines):
        log.info(line)
        console.print(escape(line), highlight=False)


def warn(console: Console, line: str, heading: str = "") -> None:
    """Write a warning into the log and on the terminal.

    **Arguments:** `heading` is what the terminal shows before the line; empty for nothing.
    """
    log.warning(line)
    told = f"[yellow]{heading}[/] {escape(line)}" if heading else f"[yellow]{escape(line)}[/]"
    console.print(told, highlight=False)
