"""Members built from settings: one experiment as a template, and each member's data, guesses and truth."""

import dataclasses
from collections.abc import Iterable

import equinox as eqx
import jax
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit._util.memory import in_words, too_large
from pdefit._util.trees import cast
from pdefit.analysis.goodness.judge import judge
from pdefit.analysis.goodness.verdict import FITTED
from pdefit.cli.config.settings import Settings
from pdefit.cli.run.build import build_single, one_file, refuse_unseen, settings_of_each, source_of
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.run.source import fitted_window, true_theta, true_value
from pdefit.cli.run.unstated import with_estimated_sigma
from pdefit.integrate.loop.stable_step import MARGIN, choose_steps
from pdefit.inverse.controls.bind import at_guesses, bind
from pdefit.inverse.controls.declare import declared_leaves
from pdefit.inverse.members.fit_members import fit_members, fit_members_again
from pdefit.inverse.members.members import Members
from pdefit.inverse.members.result import MemberFits
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_dt
from pdefit.inverse.shooting.trajectories import cut, laid_out

# columns of members.csv beside numbers
COLUMNS = ("member", "verdict", "loss", "chi2_per_value", "log_likelihood", "evaluations", "start")
# members at whose guesses the common step is chosen, at most
_TRIED = 64
# of each member in memory: as it is built, beside the others, and among those that run together
_COPIES = 3


@dataclasses.dataclass(frozen=True)
class MemberExperiment:
    """Many independent fits of one kind.

    **Arguments:**

    - `first`: the experiment of the first member, with the common stages.
    - `members`: the objectives and starts, in the order of `names`.
    - `names`: the names of the members.
    - `truth`: true values in search space, (E, p); NaN if unknown.
    """

    first: Experiment
    members: Members
    names: tuple[str, ...]
    truth: np.ndarray

    def fit(self) -> MemberFits:
        """Fit every member by the stages and starts, like `pdefit fit`, but without a run directory."""
        found, starts = self.with_known(fit_members(self.members, self.first.stages)), self.first.starts
        if starts is None:
            return found
        again = self.other_starts(one.verdict.word for one in judge(found))
        return fit_members_again(self.members, found, again, starts.points, self.first.stages, seed=self.first.seed)

    def with_known(self, found: MemberFits) -> MemberFits:
        """The fits with the known facts about the members' data attached."""
        return dataclasses.replace(found, known=self.first.known)

    def other_starts(self, words: Iterable[str]) -> list[int]:
        """Indices of members to be fitted from other starts: those with unexplained residuals, or all.

        **Arguments:** `words`: the word of the verdict on each member.
        """
        always = self.first.starts is not None and self.first.starts.when == "always"
        return [e for e, word in enumerate(words) if always or word != FITTED]


def build_members(settings: Settings) -> MemberExperiment:
    """The members described by settings. Raises `PdefitError` if they are incompatible."""
    each = settings_of_each(settings, settings.members)
    names = tuple(each)
    first = with_estimated_sigma(build_single(each[names[0]], source_of(each[names[0]])), "members share one program")
    first = dataclasses.replace(first, derive=settings.derive)
    if taken := {*COLUMNS} & {*first.derive}:
        raise PdefitError(f"derive names {', '.join(taken)}, which members.csv has already; choose another name")
    pattern = first.first
    if not all(c.is_plain for c in pattern.controls.items):
        raise PdefitError(
            "members expect numbers and states cell by cell; fit smooth fields one by one, e.g. in a sweep"
        )
    one = sum(x.nbytes for x in jax.tree.leaves(pattern) if isinstance(x, jax.Array | np.ndarray))
    if size := too_large((len(names), one, _COPIES), 1):
        raise PdefitError(
            f"{len(names)} members of {in_words(one)} each take {size} of memory; fit them in several runs"
        )
    functionals, truths = [pattern], [true_theta(pattern.controls, first.true_value)]
    with one_file(settings, settings.members):
        for name in names[1:]:
            try:
                functional, truth = _another(pattern, each[name])
            except PdefitError as error:
                raise PdefitError(f"Member {name}: {error}") from None
            functionals.append(functional)
            truths.append(truth)
    refuse_unseen([f.observations.mask for f in functionals])
    functionals = _with_common_step(functionals)
    return MemberExperiment(first, Members.of(functionals), names, np.stack(truths))


def _another(pattern: Functional, settings: Settings) -> tuple[Functional, np.ndarray]:
    """Functional of another member, like the first one except for data and guesses, and its true theta."""
    source = source_of(settings)
    problem, record = cast(source.problem, settings.dtype), source.record
    window = cast(problem.observe.located(fitted_window(settings, record)[2]), settings.dtype)
    problem, layout = cut(problem, window, pattern.formulation)
    key, controls = jax.random.key(settings.seed), pattern.controls
    declared = declared_leaves(problem, settings.controls)
    if any(control.within is not None for _, control in declared):
        # bounds about each member's own guess
        controls, problem = bind(problem, settings.controls, key, window)
    else:
        problem = at_guesses(problem, declared, key, window)
    functional = eqx.tree_at(
        lambda f: (f.problem, f.observations, f.measured_sigma, f.layout, f.controls),
        pattern,
        (problem, window, window.sigma, layout, controls),
        is_leaf=lambda x: x is None,
    )
    if pattern.steps is None:
        grid = laid_out(functional.formulation, functional.at, functional.theta0, window.ts, pattern.dt).time_grid
        functional = functional.with_time_grid(grid)
    else:
        functional = functional.renewed(functional.theta0)
    truth = source.problem if source.truth is None else source.truth
    truth = cast(truth, settings.dtype) if source.true_paths else None
    return functional, true_theta(functional.controls, lambda c: true_value(c, truth, source.true_paths))


def _with_common_step(functionals: list[Functional]) -> list[Functional]:
    """The functionals with one common step, the smallest that their guesses need, if the step was left open."""
    first = functionals[0]
    if first.asked_dt is not None or first.steps is not None:
        return functionals
    some = functionals[:: -(-len(functionals) // _TRIED)]
    problems = [(f.problem.system, f.problem.y0) for f in some]
    _, dt = choose_steps(problems, None, first.asked_solver, MARGIN, first.problem.args)
    if dt >= first.dt:
        return functionals
    return [with_dt(f, dt) for f in functionals]
