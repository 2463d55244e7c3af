"""What a fit will take, and what it took."""

import dataclasses
from typing import Any

import jax

from pdefit._util.errors import PdefitError
from pdefit._util.memory import Limit, available, in_words
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.build import Experiment
from pdefit.cli.runs.certificates import fit_cost
from pdefit.inverse.fit.stability import step_choice
from pdefit.inverse.fit.stages import keeps, with_windows
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.offload.cost import Cost
from pdefit.systems.field_coords import field_coords

# fields.h5 holds what was observed, what is predicted, and the truth of a twin
_KINDS = 3


def plan(exp: Experiment, settings: Settings) -> dict[str, Any]:
    """What a fit will take, for plan.json; refused where it cannot fit this machine."""
    problem, frames = exp.functional.problem, exp.record.ts.size
    coords = field_coords(problem.system, problem.y0)
    wanted = settings.store.wanted(coords, frames, _KINDS)
    cost = exp.driver.cost(_last_functional(exp), exp.stages[-1].optimizer.tangents)
    _refuse_too_large(cost)
    most = sum(stage.max_iterations for stage in exp.stages)
    work = sum(stage.max_iterations * _with(stage.optimizer.most_products) for stage in exp.stages)
    if settings.max_iterations is not None:
        most = min(most, settings.max_iterations)
        work = min(work, most * max(_with(stage.optimizer.most_products) for stage in exp.stages))
    products = exp.stages[-1].optimizer.most_products
    steps = exp.functional.steps
    found = {
        "text": f"{cost}{and_products(products)}",
        "steps": dataclasses.asdict(step_choice(exp.functional)) if steps is None else None,
        "evaluation": {**cost.as_dict(), "most_products": products},
        "most_evaluations": most,
        "most_seconds": work * cost.seconds,
        "forward_solves": fit_cost(exp, settings),
        "fields_bytes": settings.store.size(coords, wanted, frames, _KINDS),
        "preparation": None if exp.prepared is None else exp.prepared.as_dict(),
        "device": jax.devices()[0].device_kind,
    }
    return found


def and_products(products: int) -> str:
    """What follows the time of an evaluation that may take so many products."""
    return f", and up to {products} products of about two such" if products else ""


def _with(products: int) -> int:
    """An evaluation with so many products, in evaluations without."""
    return 1 + 2 * products


def _last_functional(exp: Experiment) -> Functional:
    """What the last stage minimises."""
    last = exp.stages[-1].formulation
    if last is None:
        before = next((s.formulation for s in reversed(exp.stages) if s.formulation is not None), None)
        last = before if keeps(exp.functional, before) else None
    return with_windows(exp.functional, last)


def device_memory() -> Limit:
    """How much the device that computes may still take."""
    stats = jax.local_devices()[0].memory_stats()
    return Limit(float(stats["bytes_limit"]), "of this device") if stats else available()


def _refuse_too_large(cost: Cost) -> None:
    """Stop what this machine cannot hold, before it has cost anything."""
    room = device_memory()
    # without an accelerator checkpoints in host memory lie beside those of the device
    wanted = cost.planned_bytes + (0 if jax.local_devices()[0].memory_stats() else cost.host_bytes)
    if wanted > room.left:
        raise PdefitError(
            f"An evaluation would hold {in_words(wanted)}, more than the {in_words(room.left)} {room.name}; keep fewer "
            f"checkpoints (adjoint=checkpointed adjoint.levels=3, or driver=hosted), use a smaller grid, or allow more"
        )


def compared(planned: dict[str, Any], peak_bytes: int | None, seconds: float) -> str:
    """What was planned beside what an evaluation took."""
    cost = planned["evaluation"]
    measured = "" if peak_bytes is None else f", measured {in_words(peak_bytes)}"
    products = cost["most_products"]
    to_most = f" to {_with(products) * cost['seconds']:.2g}" if products else ""
    return (
        f"an evaluation: planned {in_words(cost['planned_bytes'] + cost['host_bytes'])}{measured}; planned "
        f"{cost['seconds']:.2g}{to_most} s, measured {seconds:.2g} s"
    )


def adjoint_summary(planned: dict[str, Any]) -> dict[str, Any]:
    """How the last stage differentiates."""
    cost = planned["evaluation"]
    return {key: cost[key] for key in ("driver", "schedule", "stored_states", "recompute_factor")}


def memory_summary(planned: dict[str, Any], peak_bytes: int | None) -> dict[str, Any]:
    """Bytes planned and measured."""
    cost = planned["evaluation"]
    sizes = {key: cost[key] for key in ("state_bytes", "planned_bytes", "working_bytes", "host_bytes", "file_bytes")}
    return {"peak_bytes": peak_bytes, **sizes}
