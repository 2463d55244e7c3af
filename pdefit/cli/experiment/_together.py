"""Many recordings as one experiment."""

import dataclasses
from collections.abc import Mapping

import equinox as eqx

from pdefit._util.errors import PdefitError
from pdefit.cli.config.recordings import check_name
from pdefit.cli.config.settings import Settings
from pdefit.cli.experiment.experiment import Experiment
from pdefit.data.readers.locate import locate
from pdefit.data.readers.recordings import split_recordings
from pdefit.inverse.controls.vector import Controls
from pdefit.inverse.fit.stability import stable_step, suits
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.fit.stop import Holdout
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.recordings import Recordings
from pdefit.inverse.objective.variants import stepped


def recordings_of(settings: Settings) -> dict[str, Settings]:
    """The settings of each of many recordings by name; empty for a single one."""
    if not isinstance(settings.recordings, str):
        return dict(settings.recordings)
    if not settings.recordings or settings.data is None:
        return {}
    axis, data = settings.recordings, settings.data
    found = dict[str, Settings]()
    for number, name in enumerate(split_recordings(locate(data.path), axis)):
        check_name(name)
        one = dataclasses.replace(data, select={axis: name})
        found[name] = dataclasses.replace(settings, data=one, recordings="", seed=settings.seed + number)
    return found


def together(settings: Settings, made: Mapping[str, Experiment]) -> Experiment:
    """Many recordings as one experiment.

    Shared controls start from their guesses in the first recording.

    **Arguments:**

    - `settings`: those of the first recording.
    - `made`: every recording by name.
    """
    first = next(iter(made.values()))
    functionals = [_with_shared(one.first, first.first) for one in made.values()]
    functional = Recordings(functionals, batch=settings.batch, gauge=settings.gauge)
    # steps that were left open were chosen at each recording's own guess of what is shared
    if not suits(functional, functional.theta0):
        functional = stepped(functional, stable_step(functional, functional.theta0))
    source = dataclasses.replace(
        first.source,
        noise={n: found for one in made.values() for n, found in one.source.noise.items()},
        unstated=tuple({n for one in made.values() for n in one.source.unstated}),
        noiseless=any(one.source.noiseless for one in made.values()),
    )
    parts = [part for part, _ in functional.parts(functional.theta0)]
    return dataclasses.replace(
        first,
        functional=functional,
        stages=[_judged(stage, made) for stage in first.stages],
        remarks=_named({name: one.remarks for name, one in made.items()}) + _apart(made),
        source=source,
        recordings={n: dataclasses.replace(o, functional=f) for (n, o), f in zip(made.items(), parts, strict=True)},
    )


def _with_shared(functional: Functional, first: Functional) -> Functional:
    """A functional whose shared controls start from their guesses in the first recording."""
    theirs = {c.path: c for c in first.controls.items if not c.own}
    if theirs.keys() != {c.path for c in functional.controls.items if not c.own}:
        raise PdefitError("Recordings expects the same shared controls in all")
    problem = functional.problem
    for control in theirs.values():
        problem = eqx.tree_at(control.where, problem, control.where(first.problem))
    controls = Controls(tuple(theirs.get(c.path, c) for c in functional.controls.items))
    return eqx.tree_at(lambda f: (f.problem, f.controls), functional, (problem, controls))


def _judged(stage: Stage, made: Mapping[str, Experiment]) -> Stage:
    """A stage whose stopping rule knows the data of all recordings."""
    if not isinstance(stage.stop, Holdout):
        return stage
    records = tuple(one.source.record.at(slice(0, one.fitted)) for one in made.values())
    return dataclasses.replace(stage, stop=Holdout(records, stage.stop.patience))


def _apart(made: Mapping[str, Experiment]) -> tuple[str, ...]:
    """A remark about two recordings without a common time."""
    first = max(made, key=lambda name: float(made[name].source.record.ts[0]))
    last = min(made, key=lambda name: float(made[name].source.record.ts[made[name].fitted - 1]))
    if made[first].source.record.ts[0] <= made[last].source.record.ts[made[last].fitted - 1]:
        return ()
    return (
        f"{first} begins when {last} has ended: what they share at a time, such as a force, is seen by one of them only; "
        f"correct their times (times, time_offset in the file) if they were watched together",
    )


def _named(remarks: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Remarks about all recordings. Each stands once, with the name of a recording where not all share it."""
    each = dict.fromkeys(remark for told in remarks.values() for remark in told)
    owners = {remark: [name for name, told in remarks.items() if remark in told] for remark in each}
    return tuple(
        remark if len(names) == len(remarks) else f"{', '.join(names)}: {remark}" for remark, names in owners.items()
    )
