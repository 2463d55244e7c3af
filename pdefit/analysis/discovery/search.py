"""Search for sets of candidate terms that replace learned terms and explain the data."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from pdefit.analysis.discovery.candidates import combinations
from pdefit.analysis.discovery.library import CONSTANT
from pdefit.analysis.discovery.subsets import penalty, subsets
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.linear.schur import without
from pdefit.inverse.members.holding import equations_of, fits_holding
from pdefit.inverse.members.members import Members
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.systems.terms.expression import Expression

# sets that are fitted by the equations themselves in a round; how many rounds; evaluations of a fit
REFITTED, _ROUNDS, _MOST = 8, 4, 40

# by its candidates the point and the criterion of a set that was fitted, infinite if the equations blow up with it
Fitted = dict[tuple[int, ...], tuple[np.ndarray, float]]


def solved(found: Fitted) -> Fitted:
    """Sets with which the equations do not blow up."""
    return {s: one for s, one in found.items() if np.isfinite(one[1])}


class Search:
    """Search for sets of candidates, for many members at once.

    Near a point the model is linear in all candidates, so sets are compared from normal equations alone. The best sets
    are fitted with the full model. The comparison is repeated around the best fit of each member while it improves, in
    at most four rounds.

    **Arguments:**

    - `members`: objectives of one system, as made by `with_candidates`.
    - `stated`: whether the noise is known.
    - `most`: the largest number of candidates in a set.

    The attribute `candidates` lists pairs of a term's name and a formula. `places` lists the indices in theta of their
    coefficients, and `constants` the indices of their constants, -1 for candidates without a constant.
    """

    def __init__(self, members: Members, stated: bool, most: int):
        self.members, self.stated, self.most = members, stated, most
        functional = members.member(0)
        assert isinstance(functional, Functional)
        self.values, terms = functional.observed_values, combinations(functional)
        self.candidates = [(name, e) for name, term in terms.items() for e in term.expressions]
        names = [c.path for c in members.controls.items for _ in range(c.size)]

        def elements(part: str) -> np.ndarray:
            return np.concatenate([[i for i, n in enumerate(names) if n == f"{t}.{part}"] for t in terms]).astype(int)

        self.places, self.weights = elements("coefficients"), elements("weight")
        self.constants = np.full(self.places.size, -1)
        self.constants[[CONSTANT in e.names for _, e in self.candidates]] = elements("constants")
        self.others = np.setdiff1d(np.arange(len(names)), [*self.places, *self.weights, *self.constants])

    def run(self) -> list[Fitted]:
        """All fitted sets of every member."""
        theta, going = np.array(self.members.theta0), np.arange(self.members.count)
        found: list[Fitted] = [{} for _ in theta]
        # around what is learned, as long as the equations blow up with all sets
        for _ in range(2 * _ROUNDS):
            if lacking := [e for e in going.tolist() if not solved(found[e])]:
                more = self._around(lacking, theta[lacking], [found[e] for e in lacking])
                for e, new in zip(lacking, more, strict=True):
                    found[e] |= new
        for _ in range(_ROUNDS):
            best = {e: min(own.values(), key=lambda one: one[1]) for e in going.tolist() if (own := solved(found[e]))}
            going = np.array([*best], int)
            if not going.size:
                break
            more = self._around(going, np.stack([best[e][0] for e in best]), [solved(found[e]) for e in best])
            for e, new in zip(best, more, strict=True):
                found[e] |= new
            better = [new and min(c for _, c in new.values()) < best[e][1] for e, new in zip(best, more, strict=True)]
            going = going[np.array(better, bool)]
        return found

    def _around(self, which: Sequence[int] | np.ndarray, theta: np.ndarray, known: Sequence[Fitted]) -> list[Fitted]:
        """New sets of some members by regression around a point of each, fitted."""
        here = self.members.take(np.asarray(which)).starting_at(jnp.asarray(theta))
        chosen, starts = [], []
        for x, value, gradient, matrix, old in zip(theta, *equations_of(here), known, strict=True):
            sets, begins = self._chosen(x, float(value), gradient, matrix, old)
            chosen.append(sets)
            # as many for all, and for every call, so that nothing is compiled twice
            starts.append(np.concatenate([begins, np.tile(x, (REFITTED - len(sets), 1))]))
        if not any(chosen):
            return [{} for _ in which]
        every = np.concatenate([self.weights, self.places, self.constants[self.constants >= 0]])
        held = np.tile(every, (len(which), REFITTED, 1))
        for e, sets in enumerate(chosen):
            for i, s in enumerate(sets):
                held[e, i, np.isin(every, self.elements(s))] = self.weights[0]
        rows = here.take(np.repeat(np.arange(len(which)), REFITTED)).starting_at(jnp.asarray(np.concatenate(starts)))
        ends, loss = fits_holding(rows, held.reshape(len(rows.theta0), -1), LevenbergMarquardt(), _MOST)
        found: list[Fitted] = []
        for e, sets in enumerate(chosen):
            own = [(s, ends[e * REFITTED + i], 2 * float(loss[e * REFITTED + i])) for i, s in enumerate(sets)]
            found.append({s: (x, self.criterion(c, s) if np.isfinite(c) else np.inf) for s, x, c in own})
        return found

    def elements(self, chosen: tuple[int, ...]) -> Int[np.ndarray, " k"]:
        """Indices in theta of the coefficients and constants of a set."""
        both = np.concatenate([self.places[list(chosen)], self.constants[list(chosen)]])
        return both[both >= 0].astype(int)

    def forms(self, chosen: tuple[int, ...]) -> frozenset[tuple[str, Expression]]:
        """The formulas of a set, each with the name of its term: the same for all copies of a candidate with a constant."""
        return frozenset(self.candidates[k] for k in chosen)

    def blown(self, found: Fitted) -> tuple[str, ...]:
        """Sets with which the equations blow up, in words, without duplicates."""
        good = {self.forms(s) for s in solved(found)}
        sets = [[self.candidates[k] for k in s] for s in found if self.forms(s) not in good]
        return tuple(dict.fromkeys(", ".join(f"{e} in {n}" for n, e in own) or "no term" for own in sets))

    def _chosen(
        self, theta: np.ndarray, value: float, gradient: np.ndarray, matrix: np.ndarray, known: Fitted
    ) -> tuple[list[tuple[int, ...]], np.ndarray]:
        """The new sets that explain the data best around a point, and the starts of their fits."""
        # some tangent may blow up while the data are met
        if not np.all(np.isfinite(matrix)):
            return [], np.zeros((0, theta.size))
        # the change that takes away what is learned, and all coefficients that there are
        away = np.zeros(theta.size)
        away[self.weights], away[self.places] = -theta[self.weights], -theta[self.places]
        square = 2 * value + 2 * gradient @ away + away @ matrix @ away
        gradient = gradient + matrix @ away
        # what all others explain is no matter of the candidates
        o, p = self.others, self.places
        left = without(matrix, -gradient, o, p)
        square -= float(jnp.sum(left.reduced[:, :, -1] ** 2))
        inner, right = np.asarray(left.matrix), np.asarray(left.right)
        score = {
            s: self.criterion(float(square) - fall, s)
            for s, fall in subsets(inner, right, self.most)
            if len(self.forms(s)) == len(s)
        }
        chosen = [s for s in sorted(score, key=lambda s: score[s]) if s not in known][:REFITTED]
        starts = np.tile(theta + away, (len(chosen), 1))
        for row, s in zip(starts, chosen, strict=True):
            k = list(s)
            coefficients = np.zeros(p.size)
            coefficients[k] = np.linalg.lstsq(inner[np.ix_(k, k)], right[k], rcond=1e-12)[0]
            row[p[k]] = coefficients[k]
            row[o] += left.blocks(jnp.asarray(coefficients))[0]
        return chosen, starts

    def criterion(self, chi2: float, chosen: tuple[int, ...]) -> float:
        """The extended Bayesian criterion of a set."""
        # a noise of unknown size is as large as the residuals
        misfit = chi2 if self.stated else self.values * np.log(max(chi2, 1e-300))
        constants = self.elements(chosen).size - len(chosen)
        return float(misfit + penalty(len(chosen), len({*self.candidates}), self.values, constants))

    def deviations(self, found: Sequence[Fitted]) -> list[dict[tuple[int, ...], tuple[float, np.ndarray]]]:
        """chi2 and standard errors of the best sets of every member, by set, the best first."""
        best = []
        for one in found:
            forms: dict[frozenset, tuple[int, ...]] = {}
            for s in sorted(solved(one), key=lambda s, one=one: one[s][1]):
                forms.setdefault(self.forms(s), s)
            best.append([*forms.values()][:REFITTED])
        which = np.repeat(np.arange(len(found)), [len(sets) for sets in best])
        told: list[dict[tuple[int, ...], tuple[float, np.ndarray]]] = [{} for _ in found]
        if not which.size:
            return told
        points = np.stack([found[e][s][0] for e, sets in enumerate(best) for s in sets])
        values, _, matrices = equations_of(self.members.take(which).starting_at(jnp.asarray(points)))
        for e, s, value, matrix in zip(which, [s for sets in best for s in sets], values, matrices, strict=True):
            free = np.sort(np.concatenate([self.others, self.elements(s)]).astype(int))
            inner, deviation = matrix[np.ix_(free, free)], np.full(matrix.shape[0], np.nan)
            if free.size and np.all(np.isfinite(inner)):
                widened = 1.0 if self.stated else 2 * value / max(self.values - free.size, 1)
                deviation[free] = np.sqrt(np.diag(determined_inverse(inner).matrix) * widened)
            told[e][s] = 2 * float(value), deviation
        return told
