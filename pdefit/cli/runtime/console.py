"""The terminal for all messages of the command line."""

from collections.abc import Iterable
from typing import Any

from rich import console
from rich.segment import Segment

from pdefit._util.errors import printable


class Console(console.Console):
    """A terminal that prints control characters as spaces, so that no file can send it commands."""

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        for text, style, control in super().render(*arguments, **options):
            yield Segment(text if control else printable(text), style, control)
