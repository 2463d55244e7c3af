"""Verbs that show runs: figures and movies, one page, and the fields in other formats."""

import importlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from pdefit._util.errors import PdefitError, first_line, sentence, unknown
from pdefit.cli.config.command_line import boolean, run_and_options
from pdefit.output.pictures.drawn import Drawn
from pdefit.output.store.runs import RunFiles, find_runs, recordings_in
from pdefit.output.store.xdmf import write_xdmf

log = logging.getLogger("pdefit")

# what begins to draw a run, and returns what waits for the pictures
Draw = Callable[[], Callable[[], Drawn]]
# movies of so many recordings are drawn; pdefit render RUN/recordings/NAME draws another
_MOST_MOVIES = 4


def for_each_run(folder: Path, make: Callable[[Path], Drawn], console: Console) -> None:
    """Call a function for each run in a folder, and print one line for each.

    A run that fails is reported, and the remaining runs are processed.

    **Arguments:**

    - `folder`: a run, or a folder of runs.
    - `make`: the function, called with the directory of a run.
    """
    runs, failed = find_runs(folder), []
    for run in runs:
        begin = time.perf_counter()
        try:
            if not os.access(run, os.W_OK):
                raise PdefitError(f"'{run}' cannot be written; make it writable, or copy it to a folder that is")
            RunFiles(run).refuse_old()
            drawn = make(run)
        # whatever fails in one run must not stop the others
        except Exception as error:
            if len(runs) == 1:
                raise
            failed.append(run)
            console.print(f"[bold red]{escape(str(run))}[/]: {escape(sentence(first_line(error)))}", soft_wrap=True)
            continue
        names = ", ".join(str(f.relative_to(run)) for f in drawn.files) or "nothing to draw"
        line = f"{escape(str(run))}: {escape(names)} ({time.perf_counter() - begin:.1f} s)"
        console.print(line, highlight=False, soft_wrap=True)
        for note in drawn.notes:
            console.print(f"  [yellow]{escape(sentence(note))}[/]", highlight=False, soft_wrap=True)
    if failed:
        raise PdefitError(f"{len(failed)} of {len(runs)} runs could not be shown; the lines above say why")


def pictures(run: Path, form: str = "png", with_movie: bool = True) -> Drawn:
    """Draw figures, the movie and fields.xdmf of a run and of its first recordings; `form` is the figures' file format."""
    # matplotlib takes half a second to load, and a fit leaves it to another process
    from pdefit.output.pictures.figures import draw_all, draw_run_movie

    parts = [draw_all(run, form)]
    for number, folder in enumerate(recordings_in(run).values()):
        parts.append(pictures(folder, form, with_movie and number < _MOST_MOVIES))
    parts += [draw_run_movie(run)] if with_movie else []
    parts.append(description(run))
    return Drawn([file for part in parts for file in part.files], [note for part in parts for note in part.notes])


@contextmanager
def drawing(run: Path, wanted: bool, cores: int) -> Iterator[Draw]:
    """Context manager in which another process draws the pictures of a run; yields the function that starts the drawing.

    That process loads matplotlib at once, while this one computes, and draws once the files of the run exist. On one core,
    or if this process has drawn before, the pictures are drawn here, when they are waited for.

    **Arguments:**

    - `run`: the directory of the run.
    - `wanted`: whether figures and a movie are drawn, and not only fields.xdmf.
    - `cores`: the number of cores that share the run; 1 on a GPU.
    """
    # here, because the other verbs do not need it
    import jax

    if not wanted or cores == 1 and jax.default_backend() == "cpu" or "matplotlib" in sys.modules:
        yield lambda: lambda: pictures(run) if wanted else description(run)
        return
    code = "from pdefit.cli.run.pictures import draw_for_another; draw_for_another()"
    command, pipe = [sys.executable, "-P", "-c", code, str(run)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as other:
        stdin, stdout = other.stdin, other.stdout
        assert stdin is not None and stdout is not None

        def begin() -> Callable[[], Drawn]:
            # where it has died, the pictures are drawn here
            with suppress(OSError):
                os.write(stdin.fileno(), b"\n")
            return finish

        def finish() -> Drawn:
            notes = stdout.read()
            return Drawn(notes=json.loads(notes)) if other.wait() == 0 else pictures(run)

        try:
            yield begin
        finally:
            other.kill()


def draw_for_another() -> None:
    """Draw the run named on the command line when a line is read, and print the notes.

    The process ends as soon as its parent ends.
    """
    asked = threading.Event()

    def listen() -> None:
        if sys.stdin.readline():
            asked.set()
            sys.stdin.read()
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    importlib.import_module("pdefit.output.pictures.figures")
    asked.wait()
    print(json.dumps(pictures(Path(sys.argv[1])).notes), flush=True)
    os._exit(0)


def description(run: Path) -> Drawn:
    """Write fields.xdmf of a run, if its fields lie in space."""
    drawn = Drawn()
    if RunFiles(run).has("fields.h5"):
        drawn.attempt(run / "fields.xdmf", lambda _: write_xdmf(run / "fields.h5"))
    drawn.files = [file for file in drawn.files if file.is_file()]
    return drawn


def report(run: Path) -> Drawn:
    """Write report.html of a run and of each of its recordings, with their pictures."""
    from pdefit.output.pictures.report import write_report

    drawn = Drawn()
    for folder in recordings_in(run).values():
        drawn.attempt(folder / "report.html", lambda _, where=folder: write_report(where))
    drawn.attempt(run / "report.html", lambda _: write_report(run))
    return drawn


def tell(drawn: Drawn, console: Console) -> None:
    """Report failed pictures as warnings, at the end of a run that must not fail because of them."""
    for note in drawn.notes:
        log.warning(note)
        console.print(f"[yellow]{escape(sentence(note))}[/]", highlight=False, soft_wrap=True)


def run_render(arguments: list[str], console: Console) -> None:
    """Draw figures into RUN/figures, and write RUN/movie.mp4 and RUN/fields.xdmf.

    **Arguments:**

    - `arguments`: the directory of a run or a folder of runs; `format=` png (default), svg or pdf; `movie=false` draws
      no movie.
    """
    from pdefit.output.pictures.style import FORMATS

    folder, options = run_and_options(arguments, "render", {"format": "png", "movie": "true"})
    if options["format"] not in FORMATS:
        raise unknown("format", options["format"], FORMATS)
    with_movie = boolean(options["movie"], "movie")
    for_each_run(folder, lambda run: pictures(run, options["format"], with_movie), console)


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


def run_export(arguments: list[str], console: Console) -> None:
    """Write fields of a run into RUN/export.

    **Arguments:**

    - `arguments`: the directory of the run; `format=` netcdf (default), tiff, numpy or csv; `fields=[u,v]` (default: all).
    """
    # here, because it loads JAX, which the other verbs do not need
    from pdefit.output.store.export import export

    folder, options = run_and_options(arguments, "export", {"format": "netcdf", "fields": ""})
    names = [name.strip() for name in options["fields"].strip("[] ").split(",") if name.strip()] or None

    def make(run: Path) -> Drawn:
        files = RunFiles(run)
        return Drawn(export(files.path("fields.h5"), files.path("export"), options["format"], names))

    for_each_run(folder, make, console)
