"""Formulas of learned terms: which few candidates explain the data, and how surely."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.analysis.discovery.candidates import combinations, with_candidates
from pdefit.analysis.discovery.library import library
from pdefit.analysis.discovery.search import Search
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.functional import Functional
from pdefit.systems.terms.expression import Expression
from pdefit.systems.terms.formula import Formula
from pdefit.systems.terms.unknown import unknown_terms

# differences of the criterion below which two sets are not told apart
CLOSE = 6.0


@dataclasses.dataclass(frozen=True)
class FoundTerms:
    """A set of terms that was fitted in the place of what was learned.

    **Arguments:**

    - `terms`: by the name of the term the formulas, each with its coefficient.
    - `errors`: the standard error of each coefficient.
    - `chi2`: the misfit, in units of the noise.
    - `criterion`: chi2 and the penalty of so many terms.
    - `theta`: the point of the refit, with coefficients of all candidates, (p,).
    """

    terms: Mapping[str, tuple[tuple[Expression, float], ...]]
    errors: Mapping[str, tuple[float, ...]]
    chi2: float
    criterion: float
    theta: Float[np.ndarray, " p"]

    def __str__(self) -> str:
        """All of them in a line."""
        return "; ".join(f"{name}: {_sum(chosen)}" for name, chosen in self.terms.items())


@dataclasses.dataclass(frozen=True)
class Discovery:
    """Formulas in the place of learned terms, with their rivals.

    **Arguments:**

    - `found`: the sets that were fitted, the best criterion first.
    - `candidates`: the library of every term.
    - `values`: the number of measured values.
    - `functional`: the objective of these fits, with all candidates.
    """

    found: tuple[FoundTerms, ...]
    candidates: Mapping[str, tuple[Expression, ...]]
    values: int
    functional: Functional

    @property
    def best(self) -> FoundTerms:
        return self.found[0]

    @property
    def misses(self) -> bool:
        """A test for a library without the right terms: even the best set leaves more than noise can."""
        degrees = max(self.values - sum(map(len, self.best.terms.values())), 1)
        return bool(self.best.chi2 > degrees + 4 * np.sqrt(2 * degrees))

    @property
    def rivals(self) -> tuple[FoundTerms, ...]:
        """Other sets that the data do not tell from the best."""
        return tuple(f for f in self.found[1:] if f.criterion < self.best.criterion + CLOSE)

    def formulas(self, of: FoundTerms | None = None) -> dict[str, Formula]:
        """The terms of a set as `Formula`s whose constants can be controls, by name.

        **Arguments:** `of`: the set; default the best.
        """
        made, terms = {}, unknown_terms(self.functional.problem.system)
        for name, chosen in (of or self.best).terms.items():
            text = " + ".join(f"c{i + 1} * ({e})".removesuffix(" * (1)") for i, (e, _) in enumerate(chosen)) or "0"
            constants = {f"c{i + 1}": value for i, (_, value) in enumerate(chosen)}
            made[name] = Formula(text, terms[name].inputs, constants)
        return made


def discover(
    functional: Functional,
    theta: Float[Array, " p"],
    *,
    degree: int = 3,
    functions: Sequence[str] = (),
    formulas: Mapping[str, Sequence[str]] | None = None,
    most: int = 6,
    sigma_stated: bool = True,
) -> Discovery:
    """The few candidate formulas that explain the data in the place of learned terms.

    The learned trajectory is near that of the truth, so the data move linearly with what is put in the place of a learned
    term. Candidates are chosen there by what they do to the data, with the noise of the data, and no derivative of data is
    taken. The best sets are then fitted by the equations themselves, and the choice is made anew around the best of them,
    until it stands. A set of terms must lower chi2 by the extended Bayesian criterion.

    For equations with a term of which nothing is known but its inputs. Not where its form is known and its numbers are not:
    declare these as controls. Formulas that the data do not tell apart are all named (`rivals`).

    **Arguments:**

    - `functional`, `theta`: a fit of a system with terms among its controls, and its estimate, (p,).
    - `degree`, `functions`, `formulas`: of the library of every term, as of `library`; `formulas` by term.
    - `most`: the most terms of all fields together; default 6.
    - `sigma_stated`: whether the noise is known; else it is estimated along by the best set.

    **Errors:** PdefitError for a system without unknown terms, and for windows that begin at the data.
    """
    options = (degree, functions, formulas or {}, most, sigma_stated)
    return _of_members([_ready(functional, theta, *options[:3])], *options[3:])[0]


def discover_each(
    fits: Sequence[tuple[Functional, Float[Array, " p"]]],
    *,
    degree: int = 3,
    functions: Sequence[str] = (),
    formulas: Mapping[str, Sequence[str]] | None = None,
    most: int = 6,
    sigma_stated: bool = True,
) -> list[Discovery]:
    """Formulas for the learned terms of many fits of one system, each by itself, in one program.

    For many draws, animals or devices: how often is a term found? Steps must be constant.

    **Arguments:**

    - `fits`: a functional and its estimate each, of equal structure.
    - `degree`, `functions`, `formulas`, `most`, `sigma_stated`: as of `discover`.
    """
    ready = [_ready(functional, theta, degree, functions, formulas or {}) for functional, theta in fits]
    return _of_members(ready, most, sigma_stated)


Ready = tuple[Functional, np.ndarray, dict[str, tuple[Expression, ...]]]


def _ready(
    functional: Functional,
    theta: Float[Array, " p"],
    degree: int,
    functions: Sequence[str],
    formulas: Mapping[str, Sequence[str]],
) -> Ready:
    """The functional with candidates beside its learned terms, its point there, and the candidates."""
    controlled = {c.path.partition(".")[0] for c in functional.controls.items}
    learned = {n: t for n, t in unknown_terms(functional.problem.system).items() if n in controlled}
    if not learned:
        raise PdefitError(
            "discover expects a system with unknown terms that are controls (system.unknown in an experiment)"
        )
    if functional.layout.segments > 1 and not functional.controls.nodes:
        raise PdefitError(
            "discover expects one trajectory, since windows begin at noisy data; end with a stage without them"
        )
    candidates = {n: library(term.inputs, degree, functions, formulas.get(n, ())) for n, term in learned.items()}
    return *with_candidates(functional, theta, candidates), candidates


def _of_members(ready: Sequence[Ready], most: int, sigma_stated: bool) -> list[Discovery]:
    made, candidates = [J for J, _, _ in ready], ready[0][2]
    begin = jnp.asarray(np.stack([x for _, x, _ in ready]))
    members = Members.of(made).starting_at(begin) if len(made) > 1 else Members.from_points(made[0], begin)
    search = Search(members, candidates, sigma_stated, most)
    found = search.run()
    told = search.deviations(found)
    return [
        Discovery(
            tuple(_term_set(search, s, J, *found[e][s], *errors) for s, errors in told[e].items()),
            candidates,
            search.values,
            J,
        )
        for e, J in enumerate(made)
    ]


def _term_set(
    search: Search,
    chosen: tuple[int, ...],
    functional: Functional,
    theta: np.ndarray,
    criterion: float,
    chi2: float,
    deviation: np.ndarray,
) -> FoundTerms:
    """A fitted set in words, with standard errors."""
    scale = {name: np.asarray(term.sizes) for name, term in combinations(functional).items()}
    terms, errors, first = {}, {}, 0
    for name, known in search.candidates.items():
        own = [k - first for k in chosen if first <= k < first + len(known)]
        places = search.places[first : first + len(known)]
        terms[name] = tuple((known[k], float(theta[places[k]] / scale[name][k])) for k in own)
        errors[name] = tuple(float(deviation[places[k]] / scale[name][k]) for k in own)
        first += len(known)
    return FoundTerms(terms, errors, chi2, criterion, theta)


def _sum(chosen: Sequence[tuple[Expression, float]]) -> str:
    text = " + ".join(f"{value:.4g} {expression}" for expression, value in chosen)
    return text.replace("+ -", "- ") or "0"
