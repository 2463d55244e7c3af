"""The choices of every axis: the words of a configuration that make each, and the types that it stands for.

This is what the table of pairs is made of: its tests, and its page in the documentation.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import diffrax

import pdefit
from pdefit.inverse.fit.refused_combinations import Choices, refusal
from pdefit.inverse.fit.reweight import ByPrediction

# the choice of each axis by its name
Chosen = Mapping[str, str]
ROD = Path(__file__).with_name("rod.py"), Path(__file__).with_name("rod.yaml")
# s; second-order solvers err in the rates by less than 1e-4 with it
DT = 0.0125


class Choice(NamedTuple):
    """One choice of an axis.

    **Arguments:**

    - `words`: what a configuration says.
    - `types`: the entries of `Choices` that it fills.
    """

    words: tuple[str, ...] = ()
    types: Mapping[str, Any] = {}


class Elsewhere(pdefit.instruments.AbstractObservationOperator):
    """An instrument of its own, as that of the rod."""

    def __call__(self, t, y, args):
        return {"u": y.u}


class Rod(pdefit.ReactionDiffusion):
    """Equations like those of the rod."""


def _kinds(*kinds: str, **more: Any) -> Choice:
    return Choice((), {"kinds": frozenset(kinds), **more})


_LM, _CG = pdefit.optimizers.LevenbergMarquardt(), pdefit.optimizers.GaussNewtonCG()
_BY_PREDICTION = pdefit.Stage(pdefit.optimizers.LBFGS(), reweight=ByPrediction({}))
_WINDOWS = "formulation=segments", "formulation.length=1.0"
_SEGMENTS = pdefit.formulations.Segments(1.0)
# at a frame, which windows begin at, and between frames
_DOSES = "{time: 1, state: u, amount: 2000}, {time: 0.47, state: u, amount: 1500, duration: 0.85}"
_HEAT = "times: [0, 0.3, 0.31, 0.81, 0.82, 2], values: [0, 0, 4000, 4000, 0, 0]"
_CONTINUOUS = pdefit.adjoints.Backsolve, pdefit.adjoints.Interpolating
_DISCRETE = (
    pdefit.adjoints.Checkpointed, pdefit.adjoints.StoreAll, pdefit.adjoints.Tangent, pdefit.adjoints.FiniteDifference,
)  # fmt: skip
_SOLVERS = {
    "auto": None, "rk4": pdefit.solvers.RK4(), "tsit5": diffrax.Tsit5(), "rkc": pdefit.solvers.RKC(),
    "imex": pdefit.solvers.IMEX(), "etdrk4": pdefit.solvers.ETDRK4(), "kvaerno3": diffrax.Kvaerno3(),
}  # fmt: skip


def _adjoints() -> dict[str, Choice]:
    each = {"_".join(_parts(a.__name__)): a() for a in (*_DISCRETE, *_CONTINUOUS)}
    return {name: Choice((f"adjoint={name}",), {"adjoint": a}) for name, a in each.items()}


def _parts(name: str) -> list[str]:
    """The words of the name of a class, in small letters."""
    starts = [i for i, letter in enumerate(name) if letter.isupper()]
    return [name[a:b].lower() for a, b in zip(starts, [*starts[1:], len(name)], strict=True)]


# the first of each axis is the plain one
AXES: dict[str, dict[str, Choice]] = {
    "steps": {
        "given": Choice((f"dt={DT}",)),
        "open": Choice((), {"open_steps": True}),
        "adaptive": Choice(("steps=adaptive", "steps.rtol=1e-7", "steps.atol=1e-3"), {"adaptive": True}),
        "jumps": Choice((f"dt={DT}", f"args={{name: inputs, heat: {{name: time_series, method: linear, {_HEAT}}}}}")),
    },
    "solver": {name: Choice((f"solver={name}",), {"solver": solver}) for name, solver in _SOLVERS.items()},
    "run": {
        "fit": _kinds(),
        "recordings": _kinds("recordings"),
        "members": _kinds("members"),
        "starts": _kinds("starts"),
        "starts of recordings": _kinds("starts", "recordings"),
        "bootstrap": _kinds("bootstrap", resampled="parametric"),
        "profile": _kinds("profile"),
        "profile of recordings": _kinds("profile", "recordings"),
        "two cores": _kinds(),
        "resume": _kinds(),
    },
    "adjoint": _adjoints(),
    "formulation": {
        "single": Choice(),
        "windows": Choice(_WINDOWS, {"formulation": _SEGMENTS}),
        "nodes": Choice(
            (*_WINDOWS, "formulation.continuity=1e-4", "+controls.nodes.u={guess: data, scale: 1e4}"),
            {"formulation": _SEGMENTS, "states": frozenset({"node"})},
        ),
        "nudge": Choice(
            (
                "stages={drawn: {optimizer: {name: gauss_newton_cg}, nudge: 0.2, max_iterations: 4}, "
                "free: {optimizer: {name: levenberg_marquardt}}}",
            ),
            {"stages": (pdefit.Stage(_CG, 4, pdefit.formulations.Single(nudge=0.2)), pdefit.Stage(_LM))},
        ),
    },
    "precision": {"float64": Choice(), "float32": Choice(("dtype=float32",))},
    "instrument": {
        "state": Choice(),
        "points": Choice(
            ("observe={name: at, points: [[0.1], [0.35], [0.52], [0.71], [0.93]], method: linear}",),
            {"observe": pdefit.instruments.At()},
        ),
        "camera": Choice(
            ("observe={name: camera, gain: 2.0, offset: 500.0, blur: 0.08}",),
            {"observe": pdefit.instruments.Camera(blur=0.08)},
        ),
        "own": Choice(("observe={name: neighbours, share: 0.25}",), {"observe": Elsewhere()}),
    },
    "noise": {
        "stated": Choice(("+data.sigma={u: 100}",)),
        "estimated": Choice(),
        "prediction": Choice(("+data.sigma={u: {constant: 50, relative: 0.01}}",), {"predicted": True}),
        "counts": Choice(("+data.sigma={u: poisson}",), {"predicted": True}),
    },
    "start": {
        "known": Choice(),
        "unknown": Choice(("+controls.y0={u: {guess: data, scale: 1e4}}",), {"states": frozenset({"initial"})}),
        "before": Choice(("times.start=0.0",), {"begins_before": True}),
    },
    "events": {"none": Choice(), "doses": Choice((f"events=[{_DOSES}]",), {"events": True})},
}
PLAIN: Chosen = {axis: next(iter(names)) for axis, names in AXES.items()}

_MANY = "recordings", "members", "starts", "bootstrap", "profile", "profile of recordings"
# what fails yet, by the choices that meet in it: a run of each is expected to fail
FAILS: dict[frozenset[tuple[str, str]], str] = {}

# where each name of the registry stands in the table: under a choice, or why under none
PLACES: dict[str, dict[str, str]] = {
    "solver": {
        **dict.fromkeys(("rk4", "euler"), "rk4"),
        **dict.fromkeys(("tsit5", "dopri5", "dopri8", "bosh3", "heun", "midpoint", "ralston"), "tsit5"),
        **{name: name for name in ("rkc", "imex", "etdrk4")},
        **dict.fromkeys(("kvaerno3", "kvaerno4", "kvaerno5"), "kvaerno3"),
        "implicit_euler": "not here: of first order, without an estimate of its error",
        **dict.fromkeys(("velocity_verlet", "yoshida4"), "not here: for positions and velocities"),
    },
    "steps": {"adaptive": "adaptive"},
    "adjoint": {name: name for name in AXES["adjoint"]},
    "formulation": {"single": "single", "segments": "windows"},
    "observation operator": {
        **dict.fromkeys(("all", "select", "subsample", "logarithm"), "state"),
        **dict.fromkeys(("at", "average", "corners"), "points"),
        **dict.fromkeys(("camera", "compose"), "camera"),
    },
}
# kinds of the registry that are no axis of the table
NO_AXIS = {
    "system", "driver", "batch", "term", "optimizer", "initial state", "regularizer", "transform", "guess", "prior", "grid",
    "boundary", "gradient transformation", "root finder", "input",
}  # fmt: skip


def types_of(chosen: Chosen) -> Choices:
    """The types of some choices, with the plain ones for axes that are not named."""
    given: dict[str, Any] = {"system": Rod}
    for axis, names in AXES.items():
        types = names[chosen.get(axis, PLAIN[axis])].types
        given |= {k: given[k] | x if isinstance(x, frozenset) and k in given else x for k, x in types.items()}
    # a single variable needs a sigma where gaps are weighed against it, so residuals tell it
    tied = (chosen.get("formulation"), chosen.get("noise")) == ("nodes", "estimated")
    if given.pop("predicted", False) or tied:
        given["stages"] = (*given.get("stages", ())[:-1], _BY_PREDICTION)
    return Choices(**given)


def refused(chosen: Chosen) -> str:
    """The reason for a refusal, with plain choices for axes that are not named; empty if they go together."""
    return refusal(types_of(chosen))


def pairs() -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Every two choices of different axes."""
    for a, b in itertools.combinations(AXES, 2):
        yield from (((a, x), (b, y)) for x in AXES[a] for y in AXES[b])


def fails(chosen: Chosen) -> str:
    """The reason for a known failure of a run of these choices; empty if none is known."""
    return next((why for some, why in FAILS.items() if some <= {*chosen.items()}), "")


def _stands(chosen: Chosen) -> bool:
    return not (refused(chosen) or fails(chosen))


def covering() -> list[dict[str, str]]:
    """A few combinations of one choice of each axis, among which every two choices meet that go together.

    Greedy: each combination begins with the first pair that none has, and takes for every other axis the choice that
    meets the most new ones.
    """
    left = dict.fromkeys(pair for pair in pairs() if _stands(dict(pair)))
    rows: list[dict[str, str]] = []
    while left:
        row = dict(next(iter(left)))
        for axis in (a for a in AXES if a not in row):
            new = {
                name: sum((p, q) in left or (q, p) in left for p, q in (((axis, name), item) for item in row.items()))
                for name in AXES[axis]
                if _stands({**row, axis: name})
            }
            # of equals the one that most pairs still wait for
            row[axis] = max(new, key=lambda name: (new[name], sum((axis, name) in pair for pair in left)))
        rows.append({axis: row[axis] for axis in AXES})
        for pair in itertools.combinations(rows[-1].items(), 2):
            left.pop(pair, None)
    return rows


def failing() -> list[dict[str, str]]:
    """A combination for each that is known to fail, plain but for what fails."""
    return [{**PLAIN, **dict(some)} for some in FAILS]
