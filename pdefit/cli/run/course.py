"""course.h5: the evolution of unknown fields over the evaluations of a fit."""

import contextlib
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError
from pdefit.cli.run.experiment import Experiment
from pdefit.data.readers.fields import EVALUATION, open_film
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.problem.axes import file_name
from pdefit.output.store.fields import FieldsFile
from pdefit.systems.coordinates import FieldCoords

# a frame follows when there were so many times as many evaluations as at the one before
_APART = 1.5


class Course:
    """Writer of course.h5. The distance of frames grows, so that a long fit has about a dozen.

    Fields are controls on the points of the grid, or of an initial state. Without such controls no file is written.

    **Arguments:**

    - `path`: the file, rewritten with each frame.
    - `exp`: the experiment.
    - `dtype`, `title`: the number type and title of the file.
    - `keep`: evaluations of an existing file whose frames are kept; 0 for a new file. Unreadable frames are dropped.
    """

    def __init__(self, path: Path, exp: Experiment, dtype: str, title: str, keep: int = 0):
        self._about, self._names = (path, dtype, title), dict[str, str]()
        self._coords, self._truth = dict[str, FieldCoords](), dict[str, np.ndarray]()
        for control in exp.functional.controls.items:
            on_grid = exp.first.problem.axes(control.name, control.shape) is not None
            if control.is_number or control.is_node or not (control.is_state or on_grid):
                continue
            coords, truth, name = exp.axes(control), exp.true_value(control), file_name(control.path)
            # recordings may have grids of their own, and a truth its own
            if coords.shape == control.shape:
                self._names[control.path], self._coords[name] = name, coords
                if truth is not None and truth.shape == control.shape:
                    self._truth[name] = truth
        self._frames = _frames(path, [*self._coords], keep)

    def __call__(self, evaluations: int, controls: Controls, theta: np.ndarray, is_last: bool = False) -> None:
        """Write a frame if one is due, and always the last one.

        **Arguments:**

        - `evaluations`: the number of evaluations.
        - `controls`, `theta`: the controls of the stage, and the best point.
        - `is_last`: whether the fit ends here.
        """
        if not self._coords or not (is_last or evaluations >= _APART * max(self._frames, default=0)):
            return
        parts = zip(controls.items, controls.split(jnp.asarray(theta)), strict=True)
        # a state that a stage does not move is not among its controls
        self._frames[evaluations] = {
            f"{self._names[c.path]}_predicted": np.asarray(c.to_physical(part))
            for c, part in parts
            if c.path in self._names
        }
        (path, dtype, title), ts = self._about, np.asarray([*self._frames], float)
        kinds = {name: ("predicted", "true") if name in self._truth else ("predicted",) for name in self._coords}
        truth = {f"{name}_true": x for name, x in self._truth.items()}
        with beside(path) as neighbour:
            with FieldsFile(neighbour, ts, EVALUATION, self._coords, kinds, dtype, np.zeros(ts.size), title) as film:
                for frame in self._frames.values():
                    film.append(frame | truth)


def _frames(path: Path, names: list[str], keep: int) -> dict[int, dict[str, np.ndarray]]:
    """Frames of an existing file up to an evaluation; empty if it is missing, damaged, or holds other fields."""
    with contextlib.suppress(PdefitError, KeyError), open_film(path) as film:
        numbers = [n for n, evaluation in enumerate(film.ts) if evaluation <= keep]
        return {
            int(film.ts[n]): {f"{name}_predicted": film.frame(name, "predicted", n) for name in names} for n in numbers
        }
    return {}
