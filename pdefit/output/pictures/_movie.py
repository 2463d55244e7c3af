"""Movies of fields and bodies: truth, prediction and error beside each other."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._encode import write_movie
from pdefit.output.pictures._movie_bodies import bodies_scene
from pdefit.output.pictures._movie_lines import lines_scene
from pdefit.output.pictures._movie_maps import maps_scene
from pdefit.output.pictures._quantities import bodies, quantities
from pdefit.output.pictures._stage import Stage
from pdefit.output.pictures.style import styled

# a figure with parts that move, and its frames, drawn one at a time
Scene = tuple[Stage, Iterator[np.ndarray]]


def draw_movie(path: Path, film: Film, most_frames: int = 300) -> Path:
    """Write the movie of a run: planes as images, lines as curves, bodies as points with tails.

    Frames are read, drawn and encoded one at a time.

    **Arguments:**

    - `path`: ends in .mp4; a GIF takes its place where there is no encoder.
    - `film`: the content of fields.h5.
    - `most_frames`: most frames of the movie, evenly taken, so that it costs seconds however long a run is.
    """
    if film.ts.size == 0:
        raise PdefitError(f"'{film.path}' holds no frame yet; wait for the run, or resume it")
    numbers = film.chosen(most_frames)
    with styled():
        stage, shots = _scene(film, numbers)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_movie(path, shots, len(numbers))


def has_movie(film: Film) -> bool:
    """Whether there is something that moves in space."""
    return bodies(film) is not None or any(q.axes for q in quantities(film))


def _scene(film: Film, numbers: list[int]) -> Scene:
    moving = bodies(film)
    if moving is not None:
        return bodies_scene(film, moving, numbers)
    shown = [q for q in quantities(film) if q.axes]
    if not shown:
        raise PdefitError(f"'{film.path}' has no field in space, so there is nothing to move")
    return maps_scene(film, numbers) if len(shown[0].axes) == 2 else lines_scene(film, shown, numbers)
