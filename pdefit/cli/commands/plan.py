"""pdefit plan: the cost of a fit, before it is started."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.atomic import write_json
from pdefit._util.errors import with_space
from pdefit._util.memory import in_words
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.build import build_experiment
from pdefit.cli.runs.adjoint_scratch import checkpoints_in
from pdefit.cli.runs.planning import and_products, plan
from pdefit.inverse.fit.stability import step_choice


def run_plan(settings: Settings, directory: Path, name: str, console: Console) -> None:
    """Print the cost estimate of an experiment, and write it to plan.json.

    **Arguments:**

    - `settings`, `name`: the experiment, and its name for tables and files.
    - `directory`: of the run.
    """
    exp = build_experiment(settings)
    for line in (*exp.choices, *exp.remarks):
        console.print(line, highlight=False)
    with checkpoints_in(directory, exp.driver):
        found = plan(exp, settings)
    write_json(directory / "plan.json", found)
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
        "memory": in_words(cost["planned_bytes"]),
        **(
            {"memory of the largest stage": in_words(most)}
            if (most := found["largest_bytes"]) > cost["planned_bytes"]
            else {}
        ),
        "checkpoints in host memory": in_words(cost["host_bytes"]) if cost["host_bytes"] else "none",
        "checkpoints in files": in_words(cost["file_bytes"]) if cost["file_bytes"] else "none",
        "steps run, relative to the trajectory": f"{cost['recompute_factor']:.3g} x",
        "forward": f"{cost['seconds_forward']:.2g} s",
        "one evaluation": f"{cost['seconds']:.2g} s{and_products(cost['most_products'])}",
        "whole fit, at most": f"{found['most_evaluations']} evaluations, {found['most_seconds']:.2g} s",
        "fields.h5": in_words(found["fields_bytes"]),
    }
    if (made := found["preparation"]) is not None:
        took = "from the cache" if made["cached"] else f"{made['seconds']:.2g} s"
        rows["initial state"] = f"prepared over {made['duration']:g}{unit}, {took}"
    for key, value in rows.items():
        table.add_row(key, escape(value))
    console.print(table)
    console.print(f"written to {escape(str(directory / 'plan.json'))}")
