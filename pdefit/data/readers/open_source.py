"""Opening of the file of a source, once for many recordings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdefit.data.readers.formats import opened
from pdefit.data.readers.long_tables import widened
from pdefit.data.readers.source import DataSource
from pdefit.data.readers.variable import DataFile

# files that stay open for several readers
_SHARED = dict[Path, DataFile]()


@contextmanager
def opened_source(source: Path | DataSource) -> Iterator[DataFile]:
    """Context manager with the variables of a file, or with the named variables of a long table (`widened`)."""
    path = source if isinstance(source, Path) else source.file
    if path in _SHARED:
        yield _SHARED[path]
        return
    with opened(path) as file:
        yield file if isinstance(source, Path) or not source.long else widened(file, source)


@contextmanager
def shared(source: DataSource) -> Iterator[None]:
    """Context manager in which one open file serves all readers, as for 500 recordings of one file."""
    with opened_source(source) as file:
        _SHARED[source.file] = file
        try:
            yield
        finally:
            del _SHARED[source.file]
