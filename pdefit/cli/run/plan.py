"""Cost of a fit: the estimate before it, also for `pdefit plan`, and the measurement after it."""

import collections
import dataclasses
import math
from typing import Any

import jax
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError, with_space
from pdefit._util.memory import Limit, available, in_words
from pdefit.cli.config.settings import Job, Settings
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.minimise import checkpoints_in
from pdefit.cli.runtime.memory_meter import resident
from pdefit.inverse.fit.stages import evaluation_cost, keeps, with_windows
from pdefit.inverse.fit.unstable_steps import step_choice
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.objective.spread import devices_of, is_cut
from pdefit.inverse.offload.cost import Cost, forward_rate, work
from pdefit.inverse.problem.axes import film_axes

# a command ends with this many times the memory that it holds when it is planned, where stages take tangents and where one
# takes adjoints: programs, residuals and pictures follow (medians of shipped experiments; 1.5 to 2.0, and 2.4 to 2.7)
_GROWTH_OF_TANGENTS, _GROWTH_OF_ADJOINTS = 1.7, 2.6
# kinds of a variable in fields.h5: observed, predicted, and for a twin true
_KINDS = 3


def plan(exp: Experiment, settings: Settings) -> dict[str, Any]:
    """Cost estimate of a fit, the content of plan.json; refused if the fit needs more memory than there is."""
    frames = sum(one.source.record.ts.size for one in exp.each.values())
    axes = film_axes(exp.first.problem, exp.first.observations)
    coords = axes.fields | axes.measured
    wanted = settings.store.wanted(coords, frames, _KINDS)
    costs, devices = _costs(exp), devices_of(exp.functional)
    largest, cost = max(costs, key=lambda c: c.planned_bytes + c.host_bytes), costs[-1]
    _refuse_too_large(largest)
    counts = [stage.max_iterations for stage in exp.stages]
    each = [c.seconds * _with(stage.optimizer.most_products) for c, stage in zip(costs, exp.stages, strict=True)]
    most, seconds = sum(counts), sum(n * s for n, s in zip(counts, each, strict=True))
    if settings.max_iterations is not None:
        most = min(most, settings.max_iterations)
        seconds = min(seconds, most * max(each))
    products = exp.stages[-1].optimizer.most_products
    steps = exp.functional.steps
    unknowns = collections.Counter[str]()
    for control in exp.functional.controls.items:
        # of a path in all recordings together
        unknowns[control.name] += control.size
    number = costs.index(largest) + 1
    tangents = all(stage.optimizer.tangents for stage in exp.stages)
    process = process_bytes(largest.planned_bytes + largest.host_bytes, tangents)
    earlier = "" if largest is cost else f"; stage {number} of {len(costs)} takes {in_words(largest.planned_bytes)}"
    on_each = "" if devices == 1 else f"; on each of {devices} devices"
    found = {
        "text": f"{cost}{and_products(products)}{earlier}{on_each}; the process about {in_words(process)}",
        "unknowns": dict(unknowns),
        "steps": step_choice(exp.functional) if steps is None else None,
        "evaluation": {**cost.as_dict(), "most_products": products},
        "largest_bytes": largest.planned_bytes,
        "process_bytes": process,
        "most_evaluations": most,
        "most_seconds": seconds,
        "forward_solves": fit_cost(exp, settings),
        "fields_bytes": settings.store.size(coords, wanted, frames, _KINDS),
        "preparation": exp.source.prepared,
        "device": jax.local_devices()[0].device_kind,
        "devices": devices,
    }
    return found


def process_bytes(evaluation: int, tangents: bool = True) -> int:
    """Peak memory of the process, from the memory of an evaluation and the memory in use now.

    **Arguments:**

    - `evaluation`: the bytes of an evaluation.
    - `tangents`: whether the fit uses tangents instead of adjoints.
    """
    return evaluation + round((_GROWTH_OF_TANGENTS if tangents else _GROWTH_OF_ADJOINTS) * resident())


def fit_cost(exp: Experiment, settings: Settings) -> float:
    """Cost of a fit in forward runs, if it uses all its iterations."""
    each = [stage.max_iterations * evaluation_cost(exp.functional, stage) for stage in exp.stages]
    most = sum(stage.max_iterations for stage in exp.stages)
    bound = most if settings.max_iterations is None else min(most, settings.max_iterations)
    return sum(each) * bound / most


def and_products(products: int) -> str:
    """Clause on the time of an evaluation that may take this many products with the Gauss-Newton matrix."""
    return f", and up to {products} products that take about twice as long" if products else ""


def _with(products: int) -> int:
    """Cost of an evaluation with this many products, in evaluations without products."""
    return 1 + 2 * products


def _costs(exp: Experiment) -> list[Cost]:
    """Cost of an evaluation in every stage; one is measured for each kind of derivatives, the rest are derived."""
    stages, windows = list[tuple[AbstractObjective, bool]](), None
    for stage in exp.stages:
        if stage.formulation is not None or not keeps(exp.functional, windows):
            windows = stage.formulation
        stages.append((with_windows(exp.functional, windows), stage.optimizer.tangents))
    costs = dict[int, Cost]()
    for tangents in {kind for _, kind in stages}:
        numbers = [i for i, (_, kind) in enumerate(stages) if kind == tangents]
        # normal equations are evaluated first in the first windows; residuals of a forward run are those of the last
        numbers = numbers if tangents else numbers[::-1]
        rate = None
        for i in numbers:
            costs[i], rate = _cost(exp, *stages[i], rate)
    return [costs[i] for i in range(len(stages))]


def _cost(exp: Experiment, functional: AbstractObjective, tangents: bool, rate: float | None) -> tuple[Cost, float]:
    """Cost of an evaluation (for many recordings, from the longest one), and its seconds per unit of work."""
    parts = [part for part, _ in functional.parts(functional.theta0)]
    longest = max(parts, key=lambda part: part.layout.time_grid.steps)
    devices = devices_of(functional)
    if rate is None and isinstance(functional, Recordings):
        # its normal equations by themselves are no program of the fit
        rate = forward_rate(longest)
    cost = exp.driver.cost(longest, tangents, rate)
    if rate is None:
        rate = (
            cost.seconds / work(longest, 1 + longest.tangents) if tangents else cost.seconds_forward / work(longest, 1)
        )
    if not isinstance(functional, Recordings):
        return cost.divided(devices) if is_cut(functional) else cost, rate
    count, together = len(parts) / devices, functional.batch.at_once(len(parts))
    cost = dataclasses.replace(
        cost,
        state_bytes=cost.state_bytes * together,
        working_bytes=cost.working_bytes * together,
        seconds=cost.seconds * count,
        seconds_forward=cost.seconds_forward * count,
    )
    return cost, rate


def device_memory() -> Limit:
    """Free memory of the computing device."""
    stats = jax.local_devices()[0].memory_stats()
    return Limit(float(stats["bytes_limit"]), "of this device") if stats else available()


def _refuse_too_large(cost: Cost) -> None:
    """Refuse an evaluation that needs more memory than there is."""
    room = device_memory()
    # without an accelerator, device and host are the same memory
    wanted = cost.planned_bytes + (0 if jax.local_devices()[0].memory_stats() else cost.host_bytes)
    if wanted > room.left:
        raise PdefitError(
            f"An evaluation would hold {in_words(wanted)}, more than the {in_words(room.left)} {room.name}; keep fewer "
            f"checkpoints (adjoint=checkpointed adjoint.levels=3, or driver=hosted), use a smaller grid, or allow more"
        )


def compared(planned: dict[str, Any], peak_bytes: int, seconds: float) -> str:
    """Predicted and measured memory of the process and time of an evaluation, on one line.

    **Arguments:**

    - `planned`: the content of plan.json.
    - `peak_bytes`, `seconds`: the measured values; NaN without an evaluation.
    """
    cost = planned["evaluation"]
    # a finished run that is resumed evaluates nothing
    taken = "" if math.isnan(seconds) else f", measured {seconds:.2g} s"
    products = cost["most_products"]
    to_most = f" to {_with(products) * cost['seconds']:.2g}" if products else ""
    memory = compared_memory(planned["process_bytes"], peak_bytes)
    return f"{memory}; an evaluation: planned {cost['seconds']:.2g}{to_most} s{taken}"


def compared_memory(planned: int, measured: int) -> str:
    """Predicted and measured bytes of the process, in words."""
    return f"memory of the process: planned {in_words(planned)}, measured {in_words(measured)}"


def adjoint_summary(planned: dict[str, Any]) -> dict[str, Any]:
    """Entries of summary.json on the adjoint of the last stage."""
    cost = planned["evaluation"]
    return {key: cost[key] for key in ("driver", "schedule", "stored_states", "recompute_factor")}


def memory_summary(planned: dict[str, Any], peak_bytes: int) -> dict[str, Any]:
    """Entries of summary.json on planned and measured bytes."""
    cost = planned["evaluation"]
    sizes = {key: cost[key] for key in ("state_bytes", "planned_bytes", "working_bytes", "host_bytes", "file_bytes")}
    return {"peak_bytes": peak_bytes, "process_bytes": planned["process_bytes"], **sizes}


def run_plan(job: Job) -> None:
    """Print the cost estimate of an experiment, and write it to plan.json."""
    exp, console, path = build_experiment(job.settings), job.console, job.directory / "plan.json"
    for line in (*exp.choices, *exp.remarks):
        console.print(line, highlight=False)
    with checkpoints_in(job.directory, exp.driver):
        found = plan(exp, job.settings)
    write_json(path, found)
    cost = found["evaluation"]
    table = Table(box=None, show_header=False)
    functional = exp.functional
    unit = with_space(functional.problem.system.time_unit)
    rows = {
        "trajectories": f"{functional.groups}, of {cost['steps']} steps of {functional.dt:.4g}{unit}",
        "time step": str(step_choice(functional)) if functional.steps is None else "adaptive",
        "one state": in_words(cost["state_bytes"]),
        "driver": cost["driver"],
        "schedule": cost["schedule"],
        "stored at the peak": f"{cost['stored_states']} states = {in_words(cost['stored_states'] * cost['state_bytes'])}",
        "working memory": in_words(cost["working_bytes"]),
        "memory of an evaluation": in_words(cost["planned_bytes"]),
        **(
            {"memory of the largest stage": in_words(most)}
            if (most := found["largest_bytes"]) > cost["planned_bytes"]
            else {}
        ),
        "memory of the process": in_words(found["process_bytes"]),
        "checkpoints in host memory": in_words(cost["host_bytes"]) if cost["host_bytes"] else "none",
        "checkpoints in files": in_words(cost["file_bytes"]) if cost["file_bytes"] else "none",
        "steps run, relative to the trajectory": f"{cost['recompute_factor']:.3g} x",
        "forward": f"{cost['seconds_forward']:.2g} s",
        "one evaluation": f"{cost['seconds']:.2g} s{and_products(cost['most_products'])}",
        "whole fit, at most": f"{found['most_evaluations']} evaluations, {found['most_seconds']:.2g} s",
        "fields.h5": in_words(found["fields_bytes"]),
    }
    if (made := exp.source.prepared) is not None:
        took = "from the cache" if made.cached else f"{made.seconds:.2g} s"
        rows["initial state"] = f"prepared over {made.duration:g}{unit}, {took}"
    for key, value in rows.items():
        table.add_row(key, escape(value))
    console.print(table)
    console.print(f"written to {escape(str(path))}")
