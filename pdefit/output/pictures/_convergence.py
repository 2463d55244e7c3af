"""Convergence of a fit."""

from pathlib import Path

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.readers.datasets import opened, variable
from pdefit.output.pictures.style import COLORS, figure
from pdefit.output.store.parameters import ParameterRow


def draw_convergence(path: Path, history: Path, rows: list[ParameterRow]) -> None:
    """Draw the loss against the iteration, and beside it the relative error of every control.

    Without a truth the error is the distance from the last value.

    **Arguments:**

    - `path`: of the figure.
    - `history`: path of history.h5.
    - `rows`: the estimates, with the truth where it is known.
    """
    with opened(history) as file:
        columns = ("n_done", "loss", "stage", "accepted", "control", "control_name")
        done, *rows_of, named = (variable(file, column, history) for column in columns)
        n = int(done[()])
        loss, stage, accepted, control = (column[:n] for column in rows_of)
        accepted = accepted.astype(bool)
        names = [x.decode() for x in named[:]]
    if n == 0:
        raise PdefitError(f"'{history.name}' holds no evaluation yet")
    iteration = np.arange(1, n + 1)
    with figure(path) as fig:
        left, right = fig.subplots(1, 2)
        good = accepted & np.isfinite(loss) & (loss > 0)
        for s in np.unique(stage):
            inside = good & (stage == s)
            left.plot(iteration[inside], loss[inside], ".-", ms=4, color=COLORS[(s - 1) % 9], label=f"stage {s}")
        if np.unique(stage).size > 1:
            left.legend()
        left.set(yscale="log", xlabel="iteration", ylabel="loss J", title="Loss")
        truth = {r.control: r.truth for r in rows}
        known = bool(names) and all(truth.get(name) for name in names)
        for k, name in enumerate(names):
            reference = truth[name] if known else control[-1, k]
            error = np.abs(control[:, k] / reference - 1) if reference else np.abs(control[:, k])
            style = {"color": COLORS[k % 9], "label": name, "ls": "-" if k < 9 else "--"}
            right.plot(iteration[accepted], np.where(error > 0, error, np.nan)[accepted], **style)
        if names:
            what = "|estimate / truth - 1|" if known else "|estimate / final - 1|"
            right.set(yscale="log", xlabel="iteration", ylabel=what, title="Controls")
            if len(names) <= 18:
                right.legend(ncols=1 + len(names) // 10, fontsize=7)
        else:
            right.set_axis_off()
