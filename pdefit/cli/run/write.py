"""Files of a study: its table, its record, its figure, and the line that names them."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from pdefit._util.atomic import plain, write_json
from pdefit.cli.config.settings import Job
from pdefit.output.pictures.report import write_report
from pdefit.output.pictures.study import Picture, Study
from pdefit.output.store.runs import RunFiles
from pdefit.output.store.tables import write_rows


def write(
    found: Study,
    job: Job,
    files: Sequence[str],
    picture: Picture,
    *,
    about: Mapping[str, Any] | None = None,
    tables: Mapping[str, list[dict[str, float]]] | None = None,
    more: str = "",
) -> None:
    """Write the files of a study in their order, renew the report, and name the files on the terminal.

    **Arguments:**

    - `found`, `job`: the study and its run.
    - `files`: `.csv` holds the rows, `.json` the record, and another suffix the picture.
    - `picture`: the figure of a record.
    - `about`: further entries of the record.
    - `tables`: by name further tables among the files; default none.
    - `more`: the end of the line.
    """
    record = plain({**(about or {}), **found.record()})
    for name in files:
        path = job.directory / name
        if path.suffix == ".csv":
            rows = (tables or {}).get(name)
            write_rows(path, plain(found.rows() if rows is None else rows))
        elif path.suffix == ".json":
            write_json(path, record)
        else:
            picture.write(path, record)
    if RunFiles(job.directory).has("report.html"):
        write_report(job.directory)
    named = ", ".join([escape(str(job.directory / files[0])), *files[1:-1]])
    job.console.print(f"written to {named} and {files[-1]}{more}", highlight=False)
