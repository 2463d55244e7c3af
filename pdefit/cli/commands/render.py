"""pdefit render RUN: figures and movie of a run, or of all runs in a folder."""

from rich.console import Console

from pdefit._util.errors import unknown
from pdefit.cli.results.pictures_of_runs import boolean, for_each_run, pictures, run_and_options
from pdefit.output.pictures.style import FORMATS


def run_render(arguments: list[str], console: Console) -> None:
    """Draw figures into RUN/figures, and write RUN/movie.mp4 and RUN/fields.xdmf.

    **Arguments:**

    - `arguments`: the directory of a run or a folder of runs; `format=` png (default), svg or pdf; `movie=false` draws
      none.
    """
    folder, options = run_and_options(arguments, "render", {"format": "png", "movie": "true"})
    if options["format"] not in FORMATS:
        raise unknown("format", options["format"], FORMATS)
    with_movie = boolean(options["movie"], "movie")
    for_each_run(folder, lambda run: pictures(run, options["format"], with_movie), console)
