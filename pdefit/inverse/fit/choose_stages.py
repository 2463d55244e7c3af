"""Choice of the stages of a fit for its unknowns, if none are named."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from pdefit._util.errors import with_space
from pdefit._util.trees import named_fields
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.objective.compiled import sum_of_squares, weighted
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.arrow_gauss_newton import ArrowGaussNewton
from pdefit.inverse.optimizers.cell_equations import has_points
from pdefit.inverse.optimizers.gauss_newton_cg import GaussNewtonCG
from pdefit.inverse.optimizers.lbfgs import LBFGS
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.shooting.formulation import Segments, Single

# frames below which a record is short, and the share of the data's spread that a guess may miss
_FRAMES, _FAR = 8, 0.5
# the same share where the initial state is free, which makes the fit harder
_FAR_WITH_STATE = 0.2
# the mean squared residual of the first frame, as a part of that of all, at which the numbers are what is wrong
_NUMBERS_WRONG = 0.1

# gradients that L-BFGS keeps for a field: on an unseen temperature of 1,600 points it took 0.7 to 0.8 of the time of
# 10, and 0.1 to 0.8 of that of Gauss-Newton-CG (tests/benchmarks/fields.py)
_MEMORY = 20

# products of an evaluation of numbers beside a field
_PRODUCTS = 40
# where smoothness connects all cells, and where priors of all fields leave valleys in which numbers trade with them
_SMOOTH_PRODUCTS, _VALLEY_PRODUCTS = 100, 200
# parts of the way to the data that observed fields go beside hidden ones, with most evaluations: of each cell by itself,
# then of all together, which a smaller part needs
_CELLS_NUDGES, _NUDGES = {0.5: 42, 0.2: 12}, {0.2: 15, 0.05: 10, 0.01: 10}

# stages that prepare stop when the decrease that is promised no longer matters
_PREPARING = LevenbergMarquardt(tolerance=1e-3)


@dataclasses.dataclass(frozen=True)
class StagesChoice:
    """The stages chosen for a fit.

    **Arguments:**

    - `stages`: the stages in their order.
    - `reason`: the reason in words.
    """

    stages: Sequence[Stage]
    reason: str


def choose_stages(functional: Functional) -> StagesChoice:
    """Choice of the stages for the unknowns of a functional, with the reason.

    Many unknowns (a field), or an adjoint without tangents, use L-BFGS. If all fields have priors, it is followed by
    Gauss-Newton with conjugate gradients, which converges. Few unknowns use Levenberg-Marquardt. If the guess is far
    from the data, stages on windows or on the beginning of the record come first. In a short record the initial state
    may be held at first. Scalars with an unknown initial field are fitted first, from the guess of the field. If
    fields are hidden and the guess is far, the trajectory is nudged towards the data, less in each stage.

    **Arguments:**

    - `functional`: the functional, which is evaluated at its guess at most once.
    """
    size = functional.controls.shared.size
    if size > FEW and (found := _with_field(functional)) is not None:
        return found
    has_tangents = functional.runner.adjoint.has_tangents
    fields = [c for c in functional.controls.items if c.size > 1]
    known = all(c.has_prior for c in fields)
    if size > FEW and fields and known and has_tangents:
        together = GaussNewtonCG(products=_VALLEY_PRODUCTS, tolerance=1e-6)
        reason = "fields with priors: L-BFGS, then Gauss-Newton with conjugate gradients"
        return StagesChoice([Stage(LBFGS(memory=_MEMORY), 60), Stage(together, 20)], f"{size} unknowns are {reason}")
    if size > FEW or not has_tangents:
        what = f"{size} unknowns are a field" if size > FEW else "a continuous adjoint has gradients only"
        return StagesChoice([Stage(LBFGS(memory=_MEMORY), 500)], f"L-BFGS: {what}")
    few = f"Gauss-Newton (Levenberg-Marquardt): {size} unknowns are few"
    if functional.formulation == Single() and functional.controls.states.items:
        return _with_state(functional, few)
    windows = _windows(functional)
    if not windows:
        return StagesChoice([Stage(LevenbergMarquardt())], few)
    # a stage without a formulation would keep the windows before it
    last = Stage(LevenbergMarquardt(), formulation=functional.formulation)
    growing = [Stage(LevenbergMarquardt(), 20, Segments(length)) for length in windows]
    unit = with_space(functional.problem.system.time_unit)
    lengths = ", ".join(f"{x:.3g}" for x in windows)
    return StagesChoice(
        [*growing, last], f"{few}; the guess is far from the data, so windows of {lengths}{unit} come first"
    )


def _with_field(functional: Functional) -> StagesChoice | None:
    """Stages for scalars with a large unknown initial field; None for other unknowns, or for recordings."""
    if not isinstance(functional, Functional):
        return None
    numbers, states = functional.controls.without_states, functional.controls.states.items
    few = 0 < numbers.size <= FEW and functional.runner.adjoint.has_tangents
    if not few or not states or functional.formulation != Single() or any(c.is_node for c in states):
        return None
    what, last = f"{numbers.size} numbers and a field", Stage(GaussNewtonCG(products=_PRODUCTS), 60)
    ts, unit = functional.observations.ts, with_space(functional.problem.system.time_unit)
    far = ts.size >= _FRAMES and _far(functional, _FAR_WITH_STATE)
    hidden = set(named_fields(functional.problem.y0)) - set(functional.observed)
    if far and hidden and has_points(functional):
        together = GaussNewtonCG(products=_PRODUCTS, damping=0.01, tolerance=1e-4)
        # smoothness connects cells, which are then never taken one by one
        rough = any(r.control in {c.path for c in states} for r in functional.regularizers)
        cells = [Stage(ArrowGaussNewton(), n, Single(nudge=g)) for g, n in _CELLS_NUDGES.items()]
        drawn = [dataclasses.replace(cells[0], optimizer=together)] if rough else cells
        drawn += [Stage(together, n, Single(nudge=g)) for g, n in _NUDGES.items()]
        return StagesChoice(
            [*drawn, Stage(GaussNewtonCG(_SMOOTH_PRODUCTS if rough else _PRODUCTS, damping=0.01), 60, Single())],
            f"{what} of which {', '.join(sorted(hidden))} {'is' if len(hidden) == 1 else 'are'} hidden, and the guess is far: "
            f"the trajectory is drawn to the data, less and less, then Gauss-Newton with conjugate gradients",
        )
    growing = [float(ts[round((ts.size - 1) * part)]) for part in (1 / 4, 1 / 2)] if far else []
    lengths = ", ".join(f"{t - ts[0]:.3g}" for t in growing)
    return StagesChoice(
        [
            Stage(_PREPARING, 20, Single(held=True)),
            *(Stage(GaussNewtonCG(products=_PRODUCTS // 2, tolerance=1e-3), 10, Single(until=t)) for t in growing),
            last,
        ],
        f"{what}: the numbers first, from the guess of the field; then Gauss-Newton with conjugate gradients"
        + (f" on the first {lengths}{unit} of the record and on all of it" if growing else ""),
    )


def _with_state(functional: Functional, few: str) -> StagesChoice:
    """Stages for scalars and a free initial state.

    From a state taken from noisy data, the trajectory can blow up, or move far from the data, before the record ends.
    Over a short part of the record it cannot. In a record of few frames the scalars are fitted before the state is
    freed, if the scalars cause the misfit.
    """
    ts, unit = functional.observations.ts, with_space(functional.problem.system.time_unit)
    whole = Stage(LevenbergMarquardt())
    if ts.size >= _FRAMES:
        counts = dict.fromkeys(max(1, round((ts.size - 1) * part)) for part in (1 / 4, 1 / 2))
        times = [float(ts[n]) for n in counts]
        if not _far(functional, _FAR_WITH_STATE):
            return StagesChoice([whole], few)
        lengths = ", ".join(f"{t - ts[0]:.3g}" for t in times)
        return StagesChoice(
            [*(Stage(_PREPARING, 20, Single(until=t)) for t in times), whole],
            f"{few}; the guess is far from the data and the initial state is free, so the first {lengths}{unit} of the "
            f"record come before all of it",
        )
    if not functional.controls.without_states.items or not _begins_right(functional):
        return StagesChoice([whole], few)
    return StagesChoice(
        [Stage(_PREPARING, 20, Single(held=True)), whole],
        f"{few}; the guess of the initial state fits the first frame, so the other unknowns are fitted before it is free",
    )


def _begins_right(functional: Functional) -> bool:
    """True if a guess fits the first frame far better than the whole record."""
    residuals, k = weighted(functional, functional.theta0), functional.observations.first_frame
    masks = [np.asarray(functional.observations.mask[name]) for name in residuals]
    begin = {n: x[0, k : k + 1] for n, x in residuals.items()}
    first = sum_of_squares(begin) / max(sum(np.sum(m[k]) for m in masks), 1.0)
    overall = sum_of_squares(residuals) / max(sum(np.sum(m) for m in masks), 1.0)
    return bool(first <= _NUMBERS_WRONG * overall)


def _windows(functional: Functional) -> list[float]:
    """Lengths of windows that grow to the whole record; empty if windows cannot help.

    They help if the whole state was observed and the guess is far from the data.
    """
    ts, data = functional.observations.ts, functional.observations
    fields, shown = named_fields(functional.problem.y0), functional.observed
    # through an unknown instrument, or one that hides states, no state is observed
    complete = not any(c.path.startswith("observe.") for c in functional.controls.items) and all(
        name in shown and shown[name].shape == x.shape and name not in data.positions and bool(np.all(data.mask[name]))
        for name, x in fields.items()
    )
    whole, shows = isinstance(functional.formulation, Single), functional.problem.observe.shows_states
    if not (complete and shows and whole and ts.size >= _FRAMES) or not _far(functional, _FAR):
        return []
    frame = float(np.median(np.diff(ts)))
    counts = dict.fromkeys([1, round((ts.size - 1) / 10), round((ts.size - 1) / 3)])
    return [frame * n for n in counts if 1 <= n < ts.size - 1]


def _far(functional: Functional, share: float) -> bool:
    """True if a guess leaves more than a fraction of the data's variation unexplained, or blows up."""
    missed = sum_of_squares(weighted(functional, functional.theta0))
    data = functional.observations
    values = {n: np.asarray(x) for n, x in data.values.items()}
    spread = sum(np.sum(((x - x.mean(axis=0)) / np.asarray(data.sigma[n])) ** 2) for n, x in values.items())
    return not bool(missed <= share**2 * spread)
