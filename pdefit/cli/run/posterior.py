"""Uncertainty of unknown fields: posterior.h5, spread.h5 and the section `posterior` of summary.json."""

import itertools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import Job, PosteriorSettings, Settings
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.fields import whole_frame
from pdefit.cli.runtime.terminal import RunsProgress, say, warn
from pdefit.inverse.fit.drivers import Traced
from pdefit.inverse.fit.predict import states_at
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.problem.axes import file_name, film_axes
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.uncertainty.field_posterior import FieldPosterior, field_posterior
from pdefit.output.store.fields import FieldsFile
from pdefit.output.store.runs import recording_folder
from pdefit.systems.coordinates import FieldCoords

# half the width of a 95 % interval in standard deviations, and the samples that measure those of fluctuations
_HALF, _SAMPLES = 1.959964, 100


def check_posterior(wanted: PosteriorSettings | None, exp: Experiment) -> None:
    """Refuse, before the fit, a posterior without a field that has a prior."""
    if wanted is not None and all(c.parametrization.roughness is None for c in exp.functional.controls.items):
        raise PdefitError(
            "posterior expects an unknown field with a prior; give its smoothing an amplitude, or make it of modes"
        )


def posterior_summary(exp: Experiment, found: Fit, job: Job) -> dict[str, Any] | None:
    """The section `posterior` of summary.json, also printed, with posterior.h5 and spread.h5; None if not wanted.

    **Arguments:**

    - `exp`, `found`, `job`: the experiment, its fit and its run.
    """
    settings, console, wanted = job.settings, job.console, job.settings.posterior
    if wanted is None:
        return None
    one, options = exp.driver.product, dict[str, Any]()
    if not isinstance(exp.driver, Traced):
        options = {"batch": 1, "products": lambda f, theta, rows: jnp.stack([one(f, theta, v) for v in rows])}
    with RunsProgress(console) as bar:

        def stop(done: int) -> bool:
            bar(done, wanted.rank, "products of the posterior")
            return False

        options |= {"rank": wanted.rank, "seed": settings.seed, "sigma_stated": exp.sigma_stated, "stop": stop}
        try:
            posterior = field_posterior(found.functional, found.theta, **options)
        except PdefitError as error:
            warn(console, str(error), "no posterior:")
            return None
    coverage, lines = _write(exp, found, job, posterior, wanted.samples), [str(posterior), posterior.remark]
    for control, parts in coverage.items():
        told = ", ".join(f"{x:.1%} ({part})" for part, x in parts.items())
        lines.append(f"true values of {control} within the 95 % interval: {told}")
    thetas = posterior.draws(DRAWS, jax.random.key(settings.seed))
    each = [f.each_theta(t) for t in thetas] if isinstance(f := found.functional, Recordings) else thetas[:, None]
    for e, ((name, recording), part) in enumerate(zip(exp.each.items(), found.recordings, strict=True)):
        draws = np.stack([np.asarray(thetas[e]) for thetas in each])
        folder = recording_folder(job.directory, name)
        lines.append(write_spread(folder, job.name, recording, settings, draws, part.functional))
    say(console, *lines)
    return posterior.record() | {"coverage_95": coverage}


def _write(
    exp: Experiment, found: Fit, job: Job, posterior: FieldPosterior, wanted: int
) -> dict[str, dict[str, float]]:
    """Write posterior.h5, a film of one frame with estimate, deviations, truth and samples; returns the coverage."""
    frames, coords, coverage = dict[str, dict[str, np.ndarray]](), dict[str, FieldCoords](), dict[str, Any]()
    drawn = posterior.samples(max(wanted, _SAMPLES), jax.random.key(job.settings.seed))
    for control in found.functional.controls.items:
        if control.path not in posterior.prior_standard_deviation:
            continue
        name = file_name(control.path)
        coords[name], truth, samples = exp.axes(control), exp.true_value(control), drawn[control.path]
        estimate, std = np.asarray(control.where(found.problem)), posterior.standard_deviation[control.path]
        frames[name] = {"predicted": estimate, "std": std, "prior": posterior.prior_standard_deviation[control.path]}
        frames[name] |= {f"sample{i + 1}": x for i, x in enumerate(samples[:wanted])}
        if truth is not None:
            frames[name]["true"] = truth
            coverage[control.path] = _coverage(estimate - truth, std, samples, coords[name].dims)
    kinds, unit = {name: tuple(kinds) for name, kinds in frames.items()}, found.problem.system.time_unit
    ts = np.asarray(exp.source.record.ts[:1])
    path, dtype = job.directory / "posterior.h5", job.settings.store.dtype
    with FieldsFile(path, ts, unit, coords, kinds, dtype, np.zeros(1), job.name) as film:
        film.append({f"{name}_{kind}": x for name, kinds in frames.items() for kind, x in kinds.items()})
    return coverage


def _coverage(error: np.ndarray, std: np.ndarray, samples: np.ndarray, dims: tuple[str, ...]) -> dict[str, float]:
    """Fractions of true values inside the 95 % interval, for the field and for its deviation from the mean along an axis."""
    parts = {"field": float(np.mean(np.abs(error) <= _HALF * std))}
    for axis, dim in enumerate(dims if len(dims) > 1 else ()):
        spread = np.std(samples - samples.mean(axis + 1, keepdims=True), axis=0)
        inside = np.abs(error - error.mean(axis, keepdims=True)) <= _HALF * spread
        parts[f"without its mean along {dim}"] = float(np.mean(inside))
    return parts


# a standard deviation of so many draws has a relative standard error of 1 / sqrt(2 (24 - 1)), 15 %
DRAWS = 24


@eqx.filter_jit
def _problem(functional: Functional, theta: Array) -> Problem:
    return functional.at(theta)


def write_spread(
    folder: Path, title: str, exp: Experiment, settings: Settings, thetas: np.ndarray, functional: Functional
) -> str:
    """Write spread.h5: mean and standard deviation of each field over draws of the posterior, at the fitted frames.

    The model is run from every draw, so that only the posterior itself is linearised. If a run is not finite, a warning
    is returned, and the mean and deviation of its values are missing.

    **Arguments:**

    - `folder`, `title`: the folder and title of the file.
    - `exp`, `settings`: the experiment, of one recording.
    - `thetas`: the draws in search space, (n, p).
    - `functional`: the functional of its fit.
    """
    store, path = settings.store, folder / "spread.h5"
    problems = [_problem(functional, jnp.asarray(theta)) for theta in thetas]
    axes, ts = film_axes(problems[0]), exp.source.record.ts[: exp.fitted : store.every]
    kinds = dict.fromkeys(store.wanted(axes.fields, exp.fitted, 2), ("mean", "std"))
    unit, finite, phase = problems[0].system.time_unit, True, np.zeros(ts.size)
    # the runs go on side by side, so that no film is held in memory
    fitted = exp.source.record.ts[: exp.fitted]
    films = [itertools.islice(states_at(functional, p, fitted), 0, None, store.every) for p in problems]
    with FieldsFile(path, ts, unit, axes.fields, kinds, store.dtype, phase, title, derived=axes.derived) as film:
        for t, *states in zip(ts, *films, strict=True):
            rows = [whole_frame(p.system, jnp.asarray(t), y) for p, y in zip(problems, states, strict=True)]
            drawn = {name: np.stack([np.asarray(row[name], float) for row in rows]) for name in kinds}
            finite = finite and all(np.all(np.isfinite(x)) for x in drawn.values())
            film.append(
                {f"{name}_mean": x.mean(0) for name, x in drawn.items()}
                | {f"{name}_std": x.std(0, ddof=1) for name, x in drawn.items()}
            )
    return "" if finite else "spread.h5 has missing values: the model blows up from some draws of the posterior"
