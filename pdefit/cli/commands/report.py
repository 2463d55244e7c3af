"""pdefit report RUN: one page about a run, or one about each run in a folder."""

from pathlib import Path

from rich.console import Console

from pdefit.cli.results.pictures_of_runs import for_each_run, pictures, report, run_and_options
from pdefit.output.pictures.figures import Drawn
from pdefit.output.store.runs import RunFiles


def run_report(arguments: list[str], console: Console) -> None:
    """Write RUN/report.html, with new figures. The movie is drawn again only if fields.h5 is newer."""
    folder, _ = run_and_options(arguments, "report", {})
    for_each_run(folder, _make, console)


def _make(run: Path) -> Drawn:
    files, movie, film = RunFiles(run), run / "movie.mp4", run / "fields.h5"
    both = files.has(movie.name) and files.has(film.name)
    is_fresh = both and movie.stat().st_mtime >= film.stat().st_mtime
    drawn, page = pictures(run, with_movie=not is_fresh), report(run)
    return Drawn(page.files, drawn.notes + page.notes)
