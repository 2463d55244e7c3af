"""Files of a study: its table, its record, its figure, and the line that names them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pdefit._util.atomic import plain, write_json
from pdefit.cli.config.settings import Job
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.study import Recorded, Study
from pdefit.output.store.tables import write_rows

if TYPE_CHECKING:
    from pdefit.output.pictures.study import Picture


def write(
    found: Recorded,
    job: Job,
    files: Sequence[str],
    picture: "Picture | None" = None,
    *,
    about: Mapping[str, Any] | None = None,
    more: str = "",
) -> None:
    """Write the files of a study in their order, update the report, and print the names of the files.

    **Arguments:**

    - `found`, `job`: the study and its run.
    - `files`: `.csv` holds the rows, `.json` the record, and any other suffix the picture.
    - `picture`: the figure of a record; None if no picture is written.
    - `about`: further entries of the record.
    - `more`: the end of the line.
    """
    record = plain({**(about or {}), **found.record()})
    for name in files:
        path = job.directory / name
        if path.suffix == ".csv" and isinstance(found, Study):
            write_rows(path, plain(found.rows()))
        elif path.suffix == ".json":
            write_json(path, record)
        elif picture is not None:
            picture.write(path, record)
    if RunFiles(job.directory).has("report.html"):
        # loaded late: a fit writes without it
        from pdefit.output.pictures.report import write_report

        write_report(job.directory)
    *first, last = [escape(str(job.directory / files[0])), *files[1:]]
    named = f"{', '.join(first)} and {last}" if first else last
    job.console.print(f"written to {named}{more}", highlight=False)
