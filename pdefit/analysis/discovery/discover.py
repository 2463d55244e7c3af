"""Formulas of learned terms: which few candidates explain the data, and how surely."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.analysis.discovery.candidates import combinations, with_candidates
from pdefit.analysis.discovery.found_terms import FoundTerms, Summand
from pdefit.analysis.discovery.library import CONSTANT, TermLibrary
from pdefit.analysis.discovery.search import Search
from pdefit.analysis.goodness.holdout import withhold
from pdefit.data.observations import Observations
from pdefit.inverse.members.bootstrap import Bootstrap
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.compiled import value_of
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.shooting.formulation import Single
from pdefit.systems.terms.expression import Expression
from pdefit.systems.terms.formula import Formula
from pdefit.systems.terms.unknown import unknown_terms

# differences of the criterion below which two sets are not told apart
CLOSE = 6.0


@dataclasses.dataclass(frozen=True)
class Discovery:
    """Formulas for learned terms, and their rivals.

    **Arguments:**

    - `found`: the fitted sets: first the one with the fewest terms among those that the data do not distinguish, then
      by the criterion. Empty in `discover_each` if the equations blow up with every set.
    - `values`: the number of measured values.
    - `functional`: the objective of these fits, with all candidates.
    - `draws`: the best set of each repetition, with new noise about the trajectory of the best set.
    - `dropped`: candidates that are not finite along the learned trajectory, and sets with which the equations blow up.
    """

    found: tuple[FoundTerms, ...]
    values: int
    functional: Functional
    draws: tuple[FoundTerms, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def best(self) -> FoundTerms:
        return self.found[0]

    @property
    def misses(self) -> bool:
        """True if the library lacks the right terms: even the best set leaves a larger misfit than noise can."""
        degrees = max(self.values - sum(map(len, self.best.terms.values())), 1)
        return bool(self.best.chi2 > degrees + 4 * np.sqrt(2 * degrees))

    @property
    def rivals(self) -> tuple[FoundTerms, ...]:
        """Sets that the data do not distinguish from the best."""
        least = min(f.criterion for f in self.found)
        return tuple(f for f in self.found[1:] if f.criterion < least + CLOSE)

    def frequency(self, name: str, expression: Expression) -> float | None:
        """Fraction of the repetitions whose best set contains a formula; None without repetitions.

        **Arguments:** `name`, `expression`: the term, and the formula.
        """
        return float(np.mean([(name, expression) in d.forms for d in self.draws])) if self.draws else None

    def rows(self) -> list[dict[str, Any]]:
        """The rows of discovery.csv: one for each term of each candidate model."""
        return [
            {
                "rank": rank,
                "of": name,
                "term": str(one.expression),
                "coefficient": one.coefficient,
                "standard_error": one.error,
                "constant": one.constant,
                "constant_error": one.constant_error,
                "terms": len(these.forms),
                "chi2": these.chi2,
                "criterion": these.criterion,
                "held_out_chi2_per_value": these.held_out,
                "part_of_draws": self.frequency(name, one.expression),
                "latex": one.expression.latex(),
            }
            for rank, these in enumerate(self.found, 1)
            for name, own in these.terms.items()
            for one in own
        ]

    def record(self) -> dict[str, Any]:
        """The content of discovery.json, with one entry for each set of terms, the best first."""
        sets = [
            {"formula": str(one), "terms": len(one.forms), "chi2": one.chi2, "criterion": one.criterion}
            | {"held_out": one.held_out}
            for one in self.found
        ]
        told = {"values": self.values, "close": CLOSE, "rivals": len(self.rivals), "misses": self.misses}
        return told | {"sets": sets, "dropped": self.dropped}

    def formulas(self, of: FoundTerms | None = None) -> dict[str, Formula]:
        """Terms of a set as `Formula`s whose constants can be controls, by name.

        **Arguments:** `of`: the set; default the best.
        """
        made, terms = {}, unknown_terms(self.functional.problem.system)
        for name, own in (of or self.best).terms.items():
            texts, constants = [], {}
            for i, one in enumerate(own, 1):
                constants[f"c{i}"] = one.coefficient
                if one.constant is not None:
                    constants[f"{CONSTANT}{i}"] = one.constant
                inside = one.expression.with_names({CONSTANT: Expression("name", value=f"{CONSTANT}{i}")})
                texts.append(f"c{i} * ({inside})".removesuffix(" * (1)"))
            made[name] = Formula(" + ".join(texts) or "0", terms[name].inputs, constants)
        return made


def discover(
    functional: Functional,
    theta: Float[Array, " p"],
    library: TermLibrary | None = None,
    *,
    sigma_stated: bool = True,
    draws: int = 0,
    seed: int = 0,
    later: Observations | None = None,
) -> Discovery:
    """Equation discovery: the few candidate formulas that explain the data in place of learned terms.

    Near the learned trajectory the data respond linearly to the replacement of a learned term. Candidates are compared
    there by their effect on the data, weighted with the noise; no derivative of data is taken. The best sets are then
    fitted by the equations, and the comparison is repeated around the best of them until it is stable. A set must lower
    chi2 by the extended Bayesian criterion. Of sets that differ in it by less than 6, the one with the fewest terms is
    taken.

    For equations with a term of which only the inputs are known. If its form is known and its numbers are not,
    declare these as controls. Formulas that the data do not distinguish are all named (`rivals`).

    **Arguments:**

    - `functional`, `theta`: a fit of a system with terms among its controls, and its estimate, (p,).
    - `library`: the candidates; default `TermLibrary()`.
    - `sigma_stated`: whether the noise is known; else the best set estimates it.
    - `draws`: repetitions with new noise about the trajectory of the best set, which show how often it would be found if
      it were the truth; default 0, else 2 or more.
    - `seed`: the seed of that noise.
    - `later`: the record with frames after the fitted ones, which each set then predicts; default none.

    **Errors:** PdefitError for a system without unknown terms, for windows that begin at the data, and if the equations
    blow up with every set.
    """
    library = library or TermLibrary()
    made, begin, lost = _ready(functional, theta, library)
    (found,) = _of_members([made], Members.from_points(made, jnp.asarray(begin)[None]), library, sigma_stated)
    if not found.found:
        raise PdefitError(
            "With every set of terms the equations blow up; offer others (degree, functions, formulas), or fit the learned "
            "terms to a minimum first"
        )
    found = dataclasses.replace(found, dropped=lost + found.dropped)
    if later is not None:
        found = dataclasses.replace(found, found=_predicted(found, later, functional.observations.ts.size))
    if draws:
        best = jnp.asarray(found.best.theta)
        again = Members.from_points(made, jnp.tile(best, (draws, 1)))
        again = again.with_data(Bootstrap(draws).data(made, best, seed))
        each = _of_members([made] * draws, again, library, sigma_stated)
        found = dataclasses.replace(found, draws=tuple(one.best for one in each if one.found))
    return found


def discover_each(
    fits: Sequence[tuple[Functional, Float[Array, " p"]]],
    library: TermLibrary | None = None,
    *,
    sigma_stated: bool = True,
) -> list[Discovery]:
    """Equation discovery for the learned terms of many fits of one system, each by itself, in one program.

    For many draws, animals or devices: how often is a term found? Steps must be constant.

    **Arguments:**

    - `fits`: a functional and its estimate each, of equal structure.
    - `library`, `sigma_stated`: as in `discover`.
    """
    library = library or TermLibrary()
    objectives, begin, lost = zip(*(_ready(functional, theta, library) for functional, theta in fits), strict=True)
    members = Members.of(objectives).starting_at(jnp.asarray(np.stack(begin)))
    each = _of_members(objectives, members, library, sigma_stated)
    return [dataclasses.replace(one, dropped=own + one.dropped) for own, one in zip(lost, each, strict=True)]


def _ready(
    functional: Functional, theta: Float[Array, " p"], library: TermLibrary
) -> tuple[Functional, Float[np.ndarray, " q"], tuple[str, ...]]:
    """The functional with candidates added to its learned terms, its theta, and the excluded candidates."""
    system, controlled = functional.problem.system, {c.path.partition(".")[0] for c in functional.controls.items}
    learned = {n: t for n, t in unknown_terms(system).items() if n in controlled}
    if not learned:
        raise PdefitError(
            "discover expects a system with unknown terms that are controls (system.unknown in an experiment)"
        )
    if functional.layout.segments > 1 and not functional.controls.nodes:
        raise PdefitError(
            "discover expects one trajectory, since windows begin at noisy data; end with a stage without them"
        )
    units = {f: c.unit for f, c in system.coords().items()}
    candidates = {n: library.of(n, term.inputs, units) for n, term in learned.items()}
    made, begin = with_candidates(functional, theta, candidates)
    kept = {n: term.expressions for n, term in combinations(made).items()}
    return made, begin, tuple(f"{e} in {n}" for n, known in candidates.items() for e in known if e not in kept[n])


def _of_members(
    objectives: Sequence[Functional], members: Members, library: TermLibrary, sigma_stated: bool
) -> list[Discovery]:
    """Discoveries of all members; `objectives` are their functionals."""
    search = Search(members, sigma_stated, library.most)
    found = search.run()
    return [
        Discovery(
            _ordered([_term_set(search, s, J, own[s], errors) for s, errors in told.items()]),
            search.values,
            J,
            dropped=search.blown(own),
        )
        for J, own, told in zip(objectives, found, search.deviations(found), strict=True)
    ]


def _ordered(found: Sequence[FoundTerms]) -> tuple[FoundTerms, ...]:
    """The sets in the order of `Discovery.found`."""
    least = min((f.criterion for f in found), default=0.0)
    first = min(
        (f for f in found if f.criterion < least + CLOSE), key=lambda f: (len(f.forms), f.criterion), default=None
    )
    return tuple(sorted(found, key=lambda f: (f is not first, f.criterion)))


def _term_set(
    search: Search,
    chosen: tuple[int, ...],
    functional: Functional,
    fitted: tuple[np.ndarray, float],
    errors: tuple[float, np.ndarray],
) -> FoundTerms:
    """A fitted set as formulas with standard errors."""
    (theta, criterion), (chi2, deviation), known = fitted, errors, combinations(functional)
    sizes = np.concatenate([np.asarray(term.sizes) for term in known.values()])
    terms: dict[str, list[Summand]] = {name: [] for name in known}
    for k in chosen:
        (name, expression), place, constant = search.candidates[k], search.places[k], search.constants[k]
        own = ()
        if constant >= 0:
            # searched as a logarithm
            value = float(np.exp(theta[constant]))
            own = value, value * float(deviation[constant])
        terms[name].append(Summand(expression, *(float(x[place] / sizes[k]) for x in (theta, deviation)), *own))
    return FoundTerms({name: tuple(own) for name, own in terms.items()}, chi2, criterion, theta)


def _predicted(found: Discovery, record: Observations, fitted: int) -> tuple[FoundTerms, ...]:
    """The sets with their misfit at later frames."""
    if record.ts.size <= fitted:
        return found.found
    ahead, J = withhold(record, np.arange(fitted)), found.functional
    whole = eqx.tree_at(lambda f: (f.observations, f.measured_sigma), J, (ahead, ahead.sigma))
    whole = whole.cut_anew(Single(), jnp.asarray(found.best.theta))
    values = max(whole.observed_values, 1)
    return tuple(
        dataclasses.replace(one, held_out=2 * float(value_of(whole, jnp.asarray(one.theta))) / values)
        for one in found.found
    )
