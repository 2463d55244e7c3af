"""The protocol of a study's result: rows of a table, and a record."""

from typing import Any, Protocol, runtime_checkable


class Recorded(Protocol):
    """A result with a JSON file."""

    def record(self) -> dict[str, Any]:
        """Content of its JSON file, from which its figure is drawn."""
        ...


@runtime_checkable
class Study(Recorded, Protocol):
    """A result of an analysis that can be tabulated, recorded and drawn."""

    def rows(self) -> list[dict[str, Any]]:
        """Rows of its table."""
        ...
