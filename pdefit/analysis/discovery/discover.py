"""Formulas of learned terms: which few candidates explain the data, and how surely."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.analysis.discovery.candidates import combinations, with_candidates
from pdefit.analysis.discovery.library import library
from pdefit.analysis.discovery.subsets import penalty, subsets
from pdefit.inverse.members.holding import fits_holding
from pdefit.inverse.objective.compiled import normal_equations
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.uncertainty.intervals import column_norms, determined_inverse
from pdefit.systems.terms.expression import Expression
from pdefit.systems.terms.formula import Formula
from pdefit.systems.terms.unknown import unknown_terms

# sets that are fitted by the equations themselves, in one program; how many rounds of regression; evaluations of a fit
_REFITTED, _ROUNDS, _MOST = 8, 4, 40
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
    candidates = {
        f: library(term.inputs, degree, functions, (formulas or {}).get(f, ())) for f, term in learned.items()
    }
    made, begin = with_candidates(functional, theta, candidates)
    search = _Search(made, candidates, sigma_stated, most)
    found = search.around(begin)
    for _ in range(_ROUNDS):
        best = min(found.values(), key=lambda one: one[1])
        more = search.around(best[0], {*found})
        if not more or min(c for _, c in more.values()) > best[1]:
            found |= more
            break
        found |= more
    kept = sorted(found, key=lambda s: found[s][1])[:_REFITTED]
    return Discovery(tuple(search.term_set(s, *found[s]) for s in kept), candidates, search.values, made)


class _Search:
    """The search for sets of candidates; `places` are the elements of theta that are their coefficients."""

    def __init__(
        self,
        functional: Functional,
        candidates: Mapping[str, tuple[Expression, ...]],
        sigma_stated: bool,
        most: int,
    ):
        self.functional, self.candidates, self.stated, self.most = functional, candidates, sigma_stated, most
        self.count, self.values = sum(map(len, candidates.values())), functional.observed_values
        names = [c.path for c in functional.controls.items for _ in range(c.size)]
        own = [[i for i, n in enumerate(names) if n == f"{term}.coefficients"] for term in candidates]
        self.places = np.concatenate(own).astype(int)
        self.weights = np.array([names.index(f"{term}.weight") for term in candidates])
        self.others = np.setdiff1d(np.arange(len(names)), [*self.places, *self.weights])

    def around(
        self,
        theta: Float[np.ndarray, " p"],
        known: Collection[tuple[int, ...]] = (),
    ) -> dict[tuple[int, ...], tuple[np.ndarray, float]]:
        """New sets by regression around a point, each fitted: its point and its criterion."""
        value, gradient, matrix = (np.asarray(x) for x in normal_equations(self.functional, jnp.asarray(theta)))
        # the change that takes away what is learned, and all coefficients that there are
        away = np.zeros(theta.size)
        away[self.weights], away[self.places] = -theta[self.weights], -theta[self.places]
        square = 2 * value + 2 * gradient @ away + away @ matrix @ away
        gradient = gradient + matrix @ away
        # what all others explain is no matter of the candidates
        o, p = self.others, self.places
        mixed, own = matrix[np.ix_(o, p)], matrix[np.ix_(o, o)]
        inverse = determined_inverse(own, column_norms(own))[0] if o.size else np.zeros((0, 0))
        square -= gradient[o] @ inverse @ gradient[o]
        inner = matrix[np.ix_(p, p)] - mixed.T @ inverse @ mixed
        right = mixed.T @ inverse @ gradient[o] - gradient[p]
        sets = subsets(inner, right, self.most)
        score = {s: self._criterion(float(square) - fall, len(s)) for s, fall in sets}
        chosen = [s for s in sorted(score, key=lambda s: score[s]) if s not in known][:_REFITTED]
        if not chosen:
            return {}
        starts = np.tile(theta + away, (len(chosen), 1))
        for row, s in zip(starts, chosen, strict=True):
            k = list(s)
            coefficients = np.linalg.lstsq(inner[np.ix_(k, k)], right[k], rcond=1e-12)[0]
            row[p[k]] = coefficients
            row[o] -= inverse @ (gradient[o] + mixed[:, k] @ coefficients)
        return self._fitted(chosen, starts)

    def _fitted(
        self, chosen: list[tuple[int, ...]], starts: np.ndarray
    ) -> dict[tuple[int, ...], tuple[np.ndarray, float]]:
        held = [np.setdiff1d(np.concatenate([self.places, self.weights]), self.places[list(s)]) for s in chosen]
        # as many for all, and for every call, so that nothing is compiled twice
        longest = self.count + self.weights.size
        held = [np.concatenate([h, np.repeat(self.weights[0], longest - h.size)]) for h in held]
        pad = _REFITTED - len(chosen)
        rows = np.concatenate([starts, np.tile(starts[:1], (pad, 1))])
        found, loss = fits_holding(self.functional, rows, np.array(held + held[:1] * pad), LevenbergMarquardt(), _MOST)
        ends = zip(chosen, found, (2 * loss).tolist(), strict=False)
        return {s: (x, self._criterion(chi2, len(s))) for s, x, chi2 in ends if np.isfinite(chi2)}

    def _criterion(self, chi2: float, chosen: int) -> float:
        # a noise of unknown size is as large as the residuals
        misfit = chi2 if self.stated else self.values * np.log(max(chi2, 1e-300))
        return float(misfit + penalty(chosen, self.count, self.values))

    def term_set(self, chosen: tuple[int, ...], theta: np.ndarray, criterion: float) -> FoundTerms:
        """A fitted set in words, with standard errors."""
        free = np.sort(np.concatenate([self.others, self.places[list(chosen)]]).astype(int))
        value, _, matrix = normal_equations(self.functional, jnp.asarray(theta))
        inner = np.asarray(matrix)[np.ix_(free, free)]
        chi2 = 2 * float(value)
        deviation = np.full(theta.size, np.nan)
        if free.size:
            covariance = determined_inverse(inner, column_norms(inner))[0]
            widened = 1.0 if self.stated else chi2 / max(self.values - free.size, 1)
            deviation[free] = np.sqrt(np.diag(covariance) * widened)
        scale = {f: term.sizes for f, term in combinations(self.functional).items()}
        terms, errors, first = {}, {}, 0
        for f, known in self.candidates.items():
            own = [k - first for k in chosen if first <= k < first + len(known)]
            places = self.places[first : first + len(known)]
            terms[f] = tuple((known[k], float(theta[places[k]] / scale[f][k])) for k in own)
            errors[f] = tuple(float(deviation[places[k]] / scale[f][k]) for k in own)
            first += len(known)
        return FoundTerms(terms, errors, chi2, criterion, theta)


def _sum(chosen: Sequence[tuple[Expression, float]]) -> str:
    text = " + ".join(f"{value:.4g} {expression}" for expression, value in chosen)
    return text.replace("+ -", "- ") or "0"
