"""pdefit export RUN: the fields of a run in other formats."""

from pathlib import Path

from rich.console import Console

from pdefit.cli.results.pictures_of_runs import for_each_run, run_and_options
from pdefit.output.pictures.figures import Drawn
from pdefit.output.store.export import export
from pdefit.output.store.runs import RunFiles


def run_export(arguments: list[str], console: Console) -> None:
    """Write fields of a run into RUN/export.

    **Arguments:**

    - `arguments`: the directory of the run; `format=` netcdf (default), tiff, numpy or csv; `fields=[u,v]` (default: all).
    """
    folder, options = run_and_options(arguments, "export", {"format": "netcdf", "fields": ""})
    names = [name.strip() for name in options["fields"].strip("[] ").split(",") if name.strip()] or None

    def make(run: Path) -> Drawn:
        files = RunFiles(run)
        return Drawn(export(files.path("fields.h5"), files.path("export"), options["format"], names))

    for_each_run(folder, make, console)
