"""spread.h5: mean and standard deviation of the state, and of what is derived from it, over draws of the posterior."""

import itertools
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.trees import named_fields
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.experiment import Experiment
from pdefit.cli.results.fields import derived, predicted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.problem.problem import Problem
from pdefit.output.store.fields import FieldsFile
from pdefit.systems.fields import derived_coords, field_coords

# a standard deviation of so many draws has a relative standard error of 1 / sqrt(2 (24 - 1)), 15 %
DRAWS = 24


@eqx.filter_jit
def _problem(functional: Functional, theta: Array) -> Problem:
    return functional.at(theta)


def write_spread(
    folder: Path, title: str, exp: Experiment, settings: Settings, thetas: np.ndarray, functional: Functional
) -> str:
    """Write spread.h5: for each field its mean and standard deviation over draws of the posterior, at the fitted frames.

    The model is run from every draw, so that nothing but the posterior itself is linearised. A warning is returned where
    a run is not finite: its values, and so their mean and deviation, are then missing.

    **Arguments:**

    - `folder`, `title`: of the file.
    - `exp`, `settings`: the experiment, of one recording.
    - `thetas`: the draws in search space, (n, p).
    - `functional`: of its fit.
    """
    store, path = settings.store, folder / "spread.h5"
    problems = [_problem(functional, jnp.asarray(theta)) for theta in thetas]
    system, y0 = problems[0].system, problems[0].y0
    more, ts = derived_coords(system), exp.source.record.ts[: exp.fitted : store.every]
    coords = field_coords(system, y0) | more
    kinds = dict.fromkeys(store.wanted(coords, exp.fitted, 2), ("mean", "std"))
    unit, finite = system.time_unit, True
    # the runs go on side by side, so that no film is held in memory
    films = [itertools.islice(predicted(exp, functional, p), 0, exp.fitted, store.every) for p in problems]
    with FieldsFile(path, ts, unit, coords, kinds, store.dtype, np.zeros(ts.size), title, derived=more) as film:
        for t, *states in zip(ts, *films, strict=True):
            rows = [
                named_fields(y) | derived(p.system, jnp.asarray(t), y) for p, y in zip(problems, states, strict=True)
            ]
            drawn = {name: np.stack([np.asarray(row[name], float) for row in rows]) for name in kinds}
            finite = finite and all(np.all(np.isfinite(x)) for x in drawn.values())
            film.append(
                {f"{name}_mean": x.mean(0) for name, x in drawn.items()}
                | {f"{name}_std": x.std(0, ddof=1) for name, x in drawn.items()}
            )
    return "" if finite else "spread.h5 has missing values: the model blows up from some draws of the posterior"
