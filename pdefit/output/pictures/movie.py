"""The film of a run as a movie: truth, prediction and error beside each other."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.fields import Film
from pdefit.output.pictures.encode import write_movie
from pdefit.output.pictures.movie_bodies import bodies_scene
from pdefit.output.pictures.movie_lines import lines_scene
from pdefit.output.pictures.movie_maps import maps_scene
from pdefit.output.pictures.quantities import bodies, quantities
from pdefit.output.pictures.stage import Stage
from pdefit.output.pictures.style import styled

# what is shown: a picture, and its frames as they are asked for
Scene = tuple[Stage, Iterator[np.ndarray]]


def draw_movie(path: Path, film: Film, most_frames: int = 300) -> Path:
    """Write movie.mp4 (or a GIF, without ffmpeg): two dimensions as images, one as lines, bodies as points with tails.

    At most `most_frames` frames, evenly taken from the film, so that a movie costs seconds whatever the length of the run:
    what happens between two of them is not seen. Frames are read, drawn and encoded one at a time.
    """
    if film.ts.size == 0:
        raise PdefitError(f"'{film.path}' holds no frame yet; wait for the run, or resume it")
    numbers = film.chosen(most_frames)
    with styled():
        stage, shots = _scene(film)(numbers)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_movie(path, shots, len(numbers))


def has_movie(film: Film) -> bool:
    """Whether there is something that moves in space."""
    return bodies(film) is not None or any(q.axes for q in quantities(film))


def _scene(film: Film) -> Callable[[list[int]], Scene]:
    moving = bodies(film)
    if moving is not None:
        return lambda numbers: bodies_scene(film, moving, numbers)
    shown = [q for q in quantities(film) if q.axes]
    if not shown:
        raise PdefitError(f"'{film.path}' has no field in space, so there is nothing to move")
    scene = maps_scene if len(shown[0].axes) == 2 else lines_scene
    return lambda numbers: scene(film, shown, numbers)
