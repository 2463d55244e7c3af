"""The uncertainty of unknown fields: posterior.h5 and the section `posterior` of summary.json."""

import logging
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError
from pdefit.cli.config.settings import PosteriorSettings, Settings
from pdefit.cli.experiment.build import Experiment
from pdefit.cli.results.fit_quality import sigma_stated
from pdefit.cli.runtime.progress import RunsProgress
from pdefit.inverse.controls.vector import BoundControl
from pdefit.inverse.fit.drivers import Traced
from pdefit.inverse.fit.result import Fit
from pdefit.inverse.uncertainty.field_posterior import FieldPosterior, field_posterior
from pdefit.output.store.fields import FieldsFile
from pdefit.systems.capabilities import FieldCoords
from pdefit.systems.field_coords import field_coords

log = logging.getLogger("pdefit")

# half the width of a 95 % interval in standard deviations, and the samples that measure those of fluctuations
_HALF, _SAMPLES = 1.959964, 100


def check_posterior(wanted: PosteriorSettings | None, exp: Experiment) -> None:
    """Refuse a posterior without a field that has a prior, before the fit."""
    if wanted is not None and all(c.roughness is None for c in exp.functional.controls.items):
        raise PdefitError(
            "posterior expects an unknown field with a prior; give its smoothing an amplitude, or make it of modes"
        )


def posterior_summary(
    exp: Experiment, found: Fit, settings: Settings, path: Path, title: str, console: Console
) -> dict[str, Any] | None:
    """The section `posterior` of summary.json, also printed in a line, and posterior.h5; None where there is none.

    **Arguments:**

    - `exp`, `found`, `settings`: the experiment, its fit and what is wanted.
    - `path`, `title`: of the file.
    """
    if settings.posterior is None:
        return None
    rank, laps, options = settings.posterior.rank, list[tuple[int, float]](), dict[str, Any]()
    if not isinstance(exp.driver, Traced):
        one = exp.driver.product
        options = {"batch": 1, "products": lambda f, theta, rows: jnp.stack([one(f, theta, v) for v in rows])}
    with RunsProgress(console) as bar:

        def stop(done: int) -> bool:
            laps.append((done, time.perf_counter()))
            bar(done, rank, "products of the posterior")
            return bool(interrupts.received())

        try:
            posterior = field_posterior(
                found.functional, found.theta, rank=rank, seed=settings.seed, sigma_stated=sigma_stated(exp), stop=stop,
                **options,
            )  # fmt: skip
        except PdefitError as error:
            log.warning("%s", error)
            console.print(f"[yellow]no posterior:[/] {escape(str(error))}", highlight=False)
            return None
    fields = [c for c in found.functional.controls.items if c.path in posterior.prior_standard_deviation]
    known = {c.path: x for c in fields if (x := exp.true_value(c)) is not None}
    key = jax.random.key(settings.seed)
    drawn = posterior.samples(max(settings.posterior.samples, _SAMPLES if known else 0), key)
    places = {c.path: _coords(exp, c) for c in fields}
    coverage = {p: _coverage(posterior, drawn[p], p, found, known[p], places[p]) for p in known}
    kept = {p: x[: settings.posterior.samples] for p, x in drawn.items() if p in places}
    _write(path, title, exp, settings, posterior, found, places, kept, known)
    for line in (str(posterior), *([posterior.remark] if posterior.remark else []), *_told(coverage)):
        log.info(line)
        console.print(line, highlight=False)
    # the first batch compiles
    each = [(t - s) / (j - i) for (i, s), (j, t) in zip(laps[1:], laps[2:], strict=False)]
    return {
        "eigenvalues": posterior.eigenvalues,
        "above_one": int(np.sum(posterior.eigenvalues > 1)),
        "degrees_of_freedom": posterior.degrees_of_freedom,
        "missing": posterior.missing,
        "noise": posterior.noise,
        "products": posterior.products,
        "seconds_of_a_product": float(np.median(each)) if each else None,
        "coverage_95": coverage,
        "remark": posterior.remark,
    }


def _told(coverage: dict[str, dict[str, float]]) -> list[str]:
    """The coverage of each field in words."""
    return [
        f"{path}: true values within the 95 % interval: {', '.join(f'{x:.1%} ({part})' for part, x in parts.items())}"
        for path, parts in coverage.items()
    ]


def _coverage(
    posterior: FieldPosterior, drawn: np.ndarray, path: str, found: Fit, truth: np.ndarray, where: FieldCoords
) -> dict[str, float]:
    """The fractions of true values in their 95 % interval: of the field, and of what differs from its mean along an axis."""
    control = next(c for c in found.functional.controls.items if c.path == path)
    error = np.asarray(control.where(found.problem)) - truth
    parts = {"field": np.mean(np.abs(error) <= _HALF * posterior.standard_deviation[path])}
    for axis, dim in enumerate(where.dims if error.ndim > 1 else ()):
        spread = np.std(drawn - drawn.mean(axis + 1, keepdims=True), axis=0)
        parts[f"fluctuation along {dim}"] = np.mean(np.abs(error - error.mean(axis, keepdims=True)) <= _HALF * spread)
    return {name: float(x) for name, x in parts.items()}


def _coords(exp: Experiment, control: BoundControl) -> FieldCoords:
    """The axes of a control: those of its field of the state, those of the grid, or running numbers."""
    problem = exp.functional.problem
    root, _, name = control.path.partition(".")
    if root == "y0":
        return field_coords(problem.system, problem.y0)[name or "y"]
    grid = getattr(problem.system, "grid", None)
    if grid is not None and getattr(grid, "shape", None) == control.shape:
        return grid.coords(control.unit, control.path)
    dims = tuple(f"{control.path}_{i}" for i in range(len(control.shape)))
    return FieldCoords(dims, {d: np.arange(n) for d, n in zip(dims, control.shape, strict=True)}, control.unit)


def _write(
    path: Path,
    title: str,
    exp: Experiment,
    settings: Settings,
    posterior: FieldPosterior,
    found: Fit,
    places: dict[str, FieldCoords],
    drawn: dict[str, np.ndarray],
    known: dict[str, np.ndarray],
) -> None:
    """Write posterior.h5, a film of one frame: estimates, standard deviations, those of the prior, truth and samples."""
    names = {p: p.removeprefix("y0.").replace(".", "_") for p in places}
    frame: dict[str, np.ndarray] = {}
    for p, name in names.items():
        control = next(c for c in found.functional.controls.items if c.path == p)
        frame[f"{name}_predicted"] = np.asarray(control.where(found.problem))
        frame[f"{name}_std"] = posterior.standard_deviation[p]
        frame[f"{name}_prior"] = posterior.prior_standard_deviation[p]
        frame |= {f"{name}_true": known[p]} if p in known else {}
        frame |= {f"{name}_sample{i + 1}": x for i, x in enumerate(drawn[p])}
    kinds = {n: tuple(k.removeprefix(f"{n}_") for k in frame if k.rpartition("_")[0] == n) for n in names.values()}
    coords, unit = {names[p]: where for p, where in places.items()}, found.problem.system.time_unit
    start = exp.record.ts[:1]
    with FieldsFile(path, start, unit, coords, kinds, settings.store.dtype, np.zeros(1), title) as film:
        film.append(frame)
