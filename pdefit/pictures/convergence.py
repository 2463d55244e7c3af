"""How the fit converged."""

from pathlib import Path
from typing import Any

import numpy as np

from pdefit.errors import PdefitError
from pdefit.files.datasets import opened, refuse_foreign
from pdefit.files.parameters_file import ParameterRow
from pdefit.pictures.style import COLORS, figure


def draw_convergence(path: Path, history: Path, rows: list[ParameterRow]) -> None:
    """Loss against iteration, and beside it the error of every control where its truth is known (else its change)."""
    file: Any
    with opened(history) as file:
        refuse_foreign(file, history)
        n = int(file["n_done"][()])
        loss, stage, accepted = file["loss"][:n], file["stage"][:n], file["accepted"][:n].astype(bool)
        control = file["control"][:n]
        names = [x.decode() for x in file["control_name"][:]]
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
