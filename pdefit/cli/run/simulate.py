"""pdefit simulate: the equations of an experiment, solved forward in time."""

import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from rich.markup import escape

from pdefit._util.errors import PdefitError, unknown, with_space
from pdefit._util.trees import cast, named_fields
from pdefit.cli.config.settings import Job
from pdefit.cli.config.sources import Reference
from pdefit.cli.run.fields import whole_frame, write_maps
from pdefit.cli.run.initial_state import initial_state
from pdefit.cli.run.open_settings import choose_method
from pdefit.cli.run.pictures import Draw, drawing, report, tell
from pdefit.cli.run.source import frame_times
from pdefit.cli.run.trial import try_step
from pdefit.data.readers.formats import read_table
from pdefit.data.readers.locate import locate
from pdefit.integrate.forward_runs import choose_numerics, frames
from pdefit.inverse.problem.axes import film_axes
from pdefit.inverse.problem.problem import Problem
from pdefit.output.store.fields import FieldsFile
from pdefit.output.store.summary import Summary
from pdefit.systems.capabilities import AbstractConservative, AbstractExact
from pdefit.systems.events import Events
from pdefit.systems.system import AbstractSystem

# entries of summary.json
_ENTRIES = (
    "experiment", "status", "dt", "solver", "time_unit", "frames",
    "invariant_drift", "exact_error", "reference_error", "seconds",
)  # fmt: skip


def run_simulate(job: Job) -> None:
    """Solve the equations and write fields.h5.

    The end state is compared with known quantities: invariants, an exact solution, a reference table.
    """
    with drawing(job.directory, job.settings.render, job.settings.cores) as draw:
        _simulate(job, draw)


def _simulate(job: Job, draw: Draw) -> None:
    begin = time.perf_counter()
    settings, directory, console = job.settings, job.directory, job.console
    if settings.data is not None:
        raise PdefitError("simulate takes its state from the system, but this experiment reads data; use pdefit fit")
    system = cast(settings.system.build(), settings.dtype)
    y0, _, _ = initial_state(settings.initial, settings.seed, system, None, settings.args)
    y0, args = cast(y0, settings.dtype), cast(settings.args, settings.dtype)
    ts = frame_times(settings.times)
    events = Events.along(settings.events, ts)
    problem = Problem(system, y0, settings.observe, args=args, events=events)
    choice = choose_method(settings, problem, float(ts[-1] - ts[0]))
    if choice.reason:
        console.print(choice.reason, highlight=False)
    try_step(system, y0, choice.solver, "solver", args)
    numerics = choose_numerics([(system, y0)], choice.solver, settings.dt, choice.steps, args, events)
    for remark in numerics.passed(system, y0, ts).remarks:
        console.print(f"[yellow]{escape(remark)}[/]", highlight=False)
    axes, store, state = film_axes(problem), settings.store, y0
    kept = np.arange(0, ts.size, store.every)
    kinds = dict.fromkeys((*store.wanted(axes.fields, ts.size, 1), *axes.scalars), ("predicted",))
    with FieldsFile(
        directory / "fields.h5", ts[kept], system.time_unit, axes.all, kinds, store.dtype, np.zeros(kept.size),
        job.name, axes.scalars, axes.derived,
    ) as film:  # fmt: skip
        for i, state in enumerate(frames(system, y0, ts, numerics, t0=float(ts[0]))):
            if not all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(state)):
                raise PdefitError(
                    f"The simulation is not finite at t = {ts[i]:g}{with_space(system.time_unit)}; set dt below "
                    f"{numerics.dt:g}, or smaller tolerances (fields.h5 holds the frames before)"
                )
            if i % store.every == 0:
                values = whole_frame(system, jnp.asarray(ts[i]), state).items()
                film.append({f"{n}_predicted": np.asarray(x) for n, x in values if n in kinds})
    write_maps(system, directory / "fields.h5", store.dtype, job.name)
    summary = Summary(
        experiment=job.name,
        status="done",
        dt=numerics.dt if numerics.steps is None else None,
        solver=type(numerics.solver).__name__,
        time_unit=system.time_unit,
        frames=int(kept.size),
        invariant_drift=_drift(system, y0, state),
        exact_error=_exact_error(system, state, float(ts[-1])),
        reference_error=_reference_error(settings.reference, state, float(ts[-1])),
        seconds={"total": time.perf_counter() - begin},
    )
    summary.write(directory / "summary.json", _ENTRIES)
    tell(draw()(), console)
    if settings.render:
        tell(report(directory), console)
    for label, error in (("exact solution", summary.exact_error), ("reference", summary.reference_error)):
        if error is not None:
            console.print(f"largest difference from the {label} at t = {ts[-1]:g}: {error:.3e}")
    for invariant, value in summary.invariant_drift.items():
        console.print(f"drift of {invariant}: {value:.3e}")
    console.print(f"done in {summary.seconds['total']:.1f} s: {escape(str(directory))}")


def _drift(system: AbstractSystem, y0: PyTree, y1: PyTree) -> dict[str, float]:
    """Change of every invariant, relative to its size (absolute if it is zero)."""
    if not isinstance(system, AbstractConservative):
        return {}
    before, after = system.invariants(y0), system.invariants(y1)
    out = {}
    for name, start in before.items():
        size = float(jnp.max(jnp.abs(start)))
        out[name] = float(jnp.max(jnp.abs(after[name] - start))) / (size if size > 1e-12 else 1.0)
    return out


def _exact_error(system: AbstractSystem, state: PyTree, t: float) -> float | None:
    if not isinstance(system, AbstractExact):
        return None
    wrong = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), state, system.exact(jnp.asarray(t)))
    return float(max(jax.tree.leaves(wrong)))


def _reference_error(reference: Reference | None, state: PyTree, t: float) -> float | None:
    """Largest difference between the end state and the entries of the reference table."""
    if reference is None:
        return None
    if t != reference.time:
        raise PdefitError(f"The reference is for t = {reference.time:g}, but the run ends at {t:g}; set times.stop")
    table, fields = read_table(locate(reference.path)), named_fields(state)
    worst = 0.0
    for field, names in reference.fields.items():
        if field not in fields:
            raise unknown("field (reference.fields)", str(field), fields)
        rows, found = _look_up(names, table, reference.column), np.asarray(fields[field])
        try:
            expected = np.asarray(rows, float)
        except ValueError:
            raise PdefitError(f"reference.fields.{field} expects lists of equal length, but got {names!r}") from None
        if expected.shape != found.shape:
            raise PdefitError(f"reference.fields.{field} has shape {expected.shape}, but the field has {found.shape}")
        worst = max(worst, float(np.max(np.abs(found - expected))))
    return worst


def _look_up(names: Any, table: Mapping[str, Mapping[str, float]], column: str) -> Any:
    if isinstance(names, list):
        return [_look_up(n, table, column) for n in names]
    if not isinstance(names, str) or names not in table:
        raise unknown("row of the reference", str(names), table)
    if column not in table[names]:
        raise unknown("column of the reference", column, table[names])
    return table[names][column]
