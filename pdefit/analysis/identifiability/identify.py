"""Identifiability of unknowns: the null space of the scaled Gauss-Newton matrix, and controls that compensate each other."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import PdefitError
from pdefit.analysis.identifiability.verdict import Compensation, ControlIdentifiability, Courses
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.controls.paths import PARTS
from pdefit.inverse.controls.theta import Controls
from pdefit.inverse.controls.transforms import Identity, Scale
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.linear.lanczos import unseen_by_products
from pdefit.inverse.linear.schur import without
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.compiled import PRODUCT, normal_equations
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.objective.variants import with_tangents

# thresholds of the published method: an eigenvalue that counts as zero, and a squared projection that counts as not zero
EPS, DELTA = 1e-5, 0.05
# thresholds for which the projections are known, too
THRESHOLDS = 10.0 ** np.arange(-10.0, 0.5, 0.5)
# half the width of a 95 % interval in standard deviations
HALF = 1.959964
# beyond this many controls a matrix takes minutes
_MANY = 2000
# arrays of more elements are one row
_ROWS = 16


@dataclasses.dataclass(frozen=True)
class Identifiability:
    """Identifiability of all controls.

    **Arguments:**

    - `controls`: the result for every scalar and group.
    - `eigenvalues`: eigenvalues of the scaled Gauss-Newton matrix, the smallest first; None if only products were used.
    - `scale`: the step in each element of theta that changes its control by the control's own magnitude, (p,).
    - `sigma`: for each variable the sigma with which J_r^T J_r is the scaled matrix.
    - `eps`: the eigenvalue up to which a direction counts as unseen.
    - `noise`: the size of the noise in units of the stated sigma.
    - `time_unit`: the time unit of the system.
    - `effects`, `compensated`: effects of changes of scalars by name, and the courses of the scalar whose change is
      compensated best; added by `with_compensations`.
    - `spread`: the range of each scalar over starts as good as the best, relative to its size, by name.
    """

    controls: tuple[ControlIdentifiability, ...]
    eigenvalues: np.ndarray | None
    scale: np.ndarray
    sigma: dict[str, Array]
    eps: float
    noise: float
    time_unit: str
    effects: dict[str, Compensation] = dataclasses.field(default_factory=dict)
    compensated: Courses | None = None
    spread: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def by_products(self) -> bool:
        """True if the result comes from products with the matrix alone."""
        return self.eigenvalues is None

    def rows(self) -> list[dict[str, Any]]:
        """Table rows, one for each control."""
        effects, none = ("moved_alone", "moved_compensated"), (None, None)
        moved = {name: (effect.alone, effect.together) for name, effect in self.effects.items()}
        return [
            one.row()
            | dict(zip(effects, moved.get(one.control, none), strict=True))
            | {"spread_over_starts": self.spread.get(one.control)}
            for one in self.controls
        ]

    def curves(self) -> list[dict[str, float]]:
        """Table rows, one for each threshold, with the projections of all controls."""
        return [
            {"eps": float(eps)} | {one.control: float(one.curve[i]) for one in self.controls}
            for i, eps in enumerate(THRESHOLDS)
        ]

    def record(self) -> dict[str, Any]:
        """The content of identifiability.json."""
        return {
            "by_products": self.by_products,
            "eps": self.eps,
            "delta": self.controls[0].delta,
            "noise": self.noise,
            "thresholds": THRESHOLDS,
            "eigenvalues": self.eigenvalues,
            "time_unit": self.time_unit,
            "controls": [
                row | {"components": one.components, "curve": one.curve, "partners": one.partners}
                for row, one in zip(self.rows(), self.controls, strict=True)
            ],
            "compensated": None if self.compensated is None else self.compensated.record(),
        }

    def __str__(self) -> str:
        """One line for each control: the squared projection, the relative half width of the interval, and the verdict."""
        across = max((len(c.control) for c in self.controls), default=0)
        return "\n".join(
            f"{c.control:<{across}}  {c.projection:.3f}  {c.known:<10}  {c.verdict}" for c in self.controls
        )


def identify(
    objective: AbstractObjective,
    theta: Float[Array, " p"],
    *,
    noise: float = 1.0,
    eps: float = EPS,
    delta: float = DELTA,
    products: int = 240,
    said: Callable[[int, int, str], None] = lambda done, of, what: None,
) -> Identifiability:
    """Identifiability of every unknown at a point, from the data without any prior.

        H_kl = 2 / N sum_i gamma_i^-2 (dy_i/dp_k p_k) (dy_i/dp_l p_l)

    The sum is over all N fitted values y_i; gamma_i is the largest size of its variable in the data, and p_k the size
    of the unknown. The published verdict is the squared projection of a control's unit vector on the eigenvectors of H
    with eigenvalues up to `eps`: above `delta` the control is not identifiable. This ignores the noise and the number
    of data, so for scalars the interval at the given noise decides (`word`).

    For up to 200 tangents H is a matrix. For more, as with unknown fields, the method is matrix-free, with some tens of
    products for each scalar and field. Then the projection is smooth (`unseen_by_products`), the projection of a field
    is measured along one random direction, and the interval assumes a prior of relative size 1 on all unknowns. Both
    have bounds on either side, and a verdict that these leave open is `undecided`. Free node states are marginalised
    over, and have no row.

    The result is local: use it at an estimate, or at a guess when planning a measurement. A profile, or starts from
    many guesses, explore distant values.

    **Arguments:**

    - `objective`: the objective.
    - `theta`: the point, (p,).
    - `noise`: the size of the noise in units of the stated sigma; default 1.
    - `eps`, `delta`: the thresholds; default 1e-5 and 0.05.
    - `products`: the most products for each scalar and field; default 240. After 60 they end as soon as the verdict
      stands.
    - `said`: called with the number of finished rows, the number of all, and the name of the next, if products are used.

    Source: S. Giampiccolo et al., npj Syst. Biol. Appl. 10:139 (2024).
    """
    if not objective.observed_values:
        raise PdefitError("identify expects observations that are fitted, but there are none; give data, or times")
    data, theta = of_data(with_tangents(objective), jnp.asarray(theta))
    sigma = _ranges(data)
    asked = _Question(
        data=data,
        relative=_with_gaps(data, theta, sigma).reweighted(sigma),
        theta=theta,
        scale=relative_sizes(data.controls, theta),
        rows=_rows(data.controls),
        noise=noise,
        eps=eps,
        delta=delta,
    )
    few = objective.tangents <= FEW and theta.size <= _MANY
    values, found = asked.by_matrix() if few else (None, asked.by_products(products, said))
    return Identifiability(tuple(found), values, asked.scale, sigma, eps, noise, objective.at(theta).system.time_unit)


@dataclasses.dataclass(frozen=True)
class _Question:
    """An objective without priors, as stated and in units of the sizes of variables, with the rows of the result."""

    data: AbstractObjective
    relative: AbstractObjective
    theta: Float[Array, " p"]
    scale: Float[np.ndarray, " p"]
    rows: dict[str, np.ndarray]
    noise: float
    eps: float
    delta: float

    def by_matrix(self) -> tuple[np.ndarray, list[ControlIdentifiability]]:
        """The eigenvalues, and the result of every row."""
        both = (np.asarray(normal_equations(f, self.theta)[2]) for f in (self.data, self.relative))
        stated, matrix = (m * np.outer(self.scale, self.scale) for m in both)
        if not (np.all(np.isfinite(stated)) and np.all(np.isfinite(matrix))):
            raise PdefitError("The model is not finite at this point; see pdefit doctor, or choose another guess")
        # node states are the last elements of theta
        nodes = self.data.controls.mask(lambda c: c.is_node)
        left = without(matrix, np.zeros(nodes.size), np.flatnonzero(nodes), np.flatnonzero(~nodes))
        values, vectors = np.linalg.eigh(np.asarray(left.matrix))
        null = vectors[:, values <= self.eps]
        squares, curve = (null @ null.T) ** 2, vectors**2 @ (values[:, None] <= THRESHOLDS)
        # for every unit vector u the part eps (H + eps)^-1 u that is hardly seen
        directions = (vectors * (self.eps / (np.maximum(values, 0.0) + self.eps))) @ vectors.T
        inverse = determined_inverse(stated)
        joint, known = inverse.matrix, self.noise * HALF * inverse.errors
        alone = self.noise * HALF / np.sqrt(np.maximum(np.diag(stated), np.finfo(float).tiny))
        found = []
        for name, i in self.rows.items():
            components = {other: float(np.sum(squares[np.ix_(i, j)])) / i.size for other, j in self.rows.items()}
            direction = np.zeros(self.scale.size)
            direction[~nodes] = np.mean(directions[i], axis=0)
            one = i[0] if i.size == 1 else None
            row = ControlIdentifiability(
                control=name,
                elements=i,
                projection=sum(components.values()),
                curve=np.mean(curve[i], axis=0),
                components=components,
                direction=direction,
                known_to=None if one is None else float(known[one]),
                limit=1.0,
                delta=self.delta,
                lengthened=None if one is None else float(known[one] / alone[one]),
                shared={} if one is None else self._shared(name, joint[one]),
            )
            found.append(row)
        return values, found

    def by_products(self, most: int, said: Callable[[int, int, str], None]) -> list[ControlIdentifiability]:
        """The result of every row, from products alone."""
        # a prior of the others' sizes makes an interval shorter: what is left of its own prior decides
        limit, found = HALF * np.sqrt(self.delta), []
        for done, (name, i) in enumerate(self.rows.items()):
            said(done, len(self.rows), name)
            start = np.zeros(self.scale.size)
            start[i] = np.random.default_rng(0).choice([-1.0, 1.0], i.size) / np.sqrt(i.size)
            unseen = unseen_by_products(self._product(self.relative), start, self.eps, THRESHOLDS, self.delta, most)
            parts, half, lengthened, shared = unseen.part**2 / np.sum(unseen.part**2), (None, None), None, {}
            if i.size == 1:
                # with a prior of size 1 of all unknowns
                left = unseen_by_products(self._product(self.data), start, self.noise**2, np.ones(1), self.delta, most)
                half = HALF * np.sqrt(left.least), HALF * np.sqrt(left.most)
                lengthened, shared = np.sqrt(left.least / left.alone), self._shared(name, left.part)
            row = ControlIdentifiability(
                control=name,
                elements=i,
                projection=unseen.least,
                curve=unseen.curve,
                components={other: unseen.least * float(np.sum(parts[j])) for other, j in self.rows.items()},
                direction=unseen.part,
                known_to=half[0],
                limit=limit,
                delta=self.delta,
                projection_at_most=unseen.most,
                known_to_at_most=half[1],
                lengthened=lengthened,
                shared=shared,
            )
            found.append(row)
        said(len(self.rows), len(self.rows), "")
        return found

    def _shared(self, name: str, direction: Float[np.ndarray, " p"]) -> dict[str, float]:
        """Fractions of the other rows in a joint change with one row."""
        squares = {other: float(np.sum(direction[j] ** 2)) for other, j in self.rows.items() if other != name}
        return {other: x / (sum(squares.values()) or 1.0) for other, x in squares.items()}

    def _product(self, objective: AbstractObjective) -> Callable[[np.ndarray], np.ndarray]:
        return lambda v: self.scale * np.asarray(PRODUCT(objective, self.theta, jnp.asarray(self.scale * v)))


def of_data(objective: AbstractObjective, theta: Float[Array, " p"]) -> tuple[AbstractObjective, Array]:
    """The objective without priors and regularizers, with theta converted to it."""

    def change(part: Functional, own: Array) -> tuple[Functional, Array]:
        items = (c.with_priors(None, None) for c in part.controls.items)
        return eqx.tree_at(lambda f: (f.controls, f.regularizers), part, (Controls(tuple(items)), ())), own

    return objective.each(change, theta)


def _ranges(objective: AbstractObjective) -> dict[str, Array]:
    """The sigma, by variable, with which J_r^T J_r is H before the scaling of unknowns."""
    data, found = objective.observations, {}
    for name, sigma in data.sigma.items():
        size = float(np.max(np.abs(np.where(data.mask[name], data.values[name], 0.0)), initial=0.0)) or 1.0
        found[name] = jnp.full_like(sigma, size * np.sqrt(objective.observed_values / 2))
    return found


def _with_gaps(objective: AbstractObjective, theta: Array, sigma: dict[str, Array]) -> AbstractObjective:
    """The objective with gaps of free node states that keep their stiffness relative to data of another sigma."""
    if not objective.controls.nodes:
        return objective
    stated = objective.observations.sigma
    factor = min(float(jnp.min(sigma[name] / stated[name])) for name in sigma)

    def change(part: Functional, own: Array) -> tuple[Functional, Array]:
        gaps = {name: factor * x for name, x in part.continuity_sigma.items()}
        return eqx.tree_at(lambda f: f.continuity_sigma, part, gaps), own

    return objective.each(change, theta)[0]


def relative_sizes(controls: Controls, theta: Float[Array, " p"]) -> Float[np.ndarray, " p"]:
    """The step in each element of theta that changes its control by the control's own magnitude.

    If the transform is linear, arrays have one size, their root mean square, and a value of zero has the size 1 in its
    unit. With other transforms each element has its own size, since they are for values known up to a factor.
    """
    sizes, parts = np.asarray(controls.sizes(theta)), []
    for (control, span), part in zip(controls.spans, controls.split(theta), strict=True):
        common = sizes[span]
        value, slope = map(np.asarray, jax.jvp(control.to_physical, (part,), (jnp.ones_like(part),)))
        if isinstance(control.transform, Identity | Scale) or control.is_field or not control.is_plain:
            unit = control.is_plain and not np.any(value) and bool(np.all(slope))
            parts.append(1 / np.abs(np.ravel(slope)) if unit else common)
            continue
        usable = (np.ravel(value) != 0) & (np.ravel(slope) != 0)
        own = np.abs(np.ravel(value)) / np.where(usable, np.abs(np.ravel(slope)), 1.0)
        parts.append(np.where(usable, own, common))
    return np.concatenate(parts)


def _rows(controls: Controls) -> dict[str, np.ndarray]:
    """Indices in theta of every scalar and group, by name. All arrays of a module form one group."""
    rows = dict[str, list[int]]()
    for control, span in controls.spans:
        root, inside, _ = control.path.partition(".")
        grouped = root if inside and root not in PARTS else control.path
        alone = grouped == control.path and control.size <= _ROWS and not control.is_field
        for i, label in zip(range(span.start, span.stop), control.labels, strict=False):
            name = f"{control.path}.{label}" if alone and label else grouped
            if not control.is_node:
                rows.setdefault(name, []).append(i)
    return {name: np.asarray(elements) for name, elements in rows.items()}
