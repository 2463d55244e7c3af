"""The subject of a certificate: an objective at a point, as the driver and the optimizers of a fit use it."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit._util.trees import cast
from pdefit.adjoints.base import ROUND_OFF
from pdefit.adjoints.tangent.tangents_together import jvp_many
from pdefit.inverse.certify._record import Check, at_most, over
from pdefit.inverse.certify._residual_checks import Residuals
from pdefit.inverse.certify._sketch import KEPT, SKETCH, Sketch, pull_sketch, push_sketch
from pdefit.inverse.certify.direction import alike, direction
from pdefit.inverse.controls.vector import FEW
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.variants import shortened, with_tangents
from pdefit.inverse.optimizers.base import AbstractOptimizer

# Forward solves that the tests of every control may cost whatever the fit costs; the part of the fit beyond; and the values
# that may be updated where a forward solve is small (about a second).
SOLVES, SHARE, UPDATES = 20.0, 0.05, 2e8
# in forward solves: a product with the adjoint, a tangent, the differences of one direction
_GRADIENT, _TANGENT, _DIFFERENCES = 5.0, 2.0, 18.0
# values below which a step costs no less
_SMALL_STATE = 1000
# residuals that are held at once to test matrices and products exactly
HELD = 20_000_000
# kinds of residuals that change little with theta are shifted more, by at most this factor
_MOST_SHIFT = 1e6


@dataclasses.dataclass(frozen=True)
class Used:
    """The derivatives that the optimizers of a fit use.

    **Arguments:**

    - `gradient`: gradients by the adjoint.
    - `products`: products with the Gauss-Newton matrix.
    - `normal_equations`: gradient and Gauss-Newton matrix by tangents.
    """

    gradient: bool
    products: bool
    normal_equations: bool

    @staticmethod
    def by(optimizers: Sequence[AbstractOptimizer] | None, objective: AbstractObjective) -> "Used":
        """The derivatives that these optimizers use; without any named, all that the objective has."""
        if optimizers is None:
            tangents = objective.runner.adjoint.has_tangents
            return Used(True, tangents, tangents and objective.controls.size <= FEW)
        return Used(
            any(not o.tangents for o in optimizers),
            any(o.most_products > 0 for o in optimizers),
            any(o.tangents for o in optimizers),
        )


class Certified:
    """An objective at a point, and what several checks need of it, each computed when it is first used.

    **Arguments:**

    - `objective`: the objective of the fit.
    - `tested`: the same with smooth residuals where tangents are those of a smooth twin.
    - `theta`: the point, (p,).
    - `key`: of directions and errors.
    - `fit_cost`: the cost of the fit, in forward solves.
    - `used`: the derivatives that the optimizers of the fit use.
    - `driver`: the driver of the fit, whose derivatives are tested.
    """

    def __init__(
        self,
        objective: AbstractObjective,
        tested: AbstractObjective,
        theta: Float[Array, " p"],
        key: PRNGKeyArray,
        fit_cost: float,
        used: Used,
        driver: AbstractDriver,
    ):
        self.objective, self.theta, self.key, self.driver = objective, theta, key, driver
        self.whole = cast(tested, jnp.float64)
        # the same in float32, where the fit runs in it
        self.single = tested if _is_single(tested) else None
        self.has_twin = tested is not objective
        self.scope = scope(self.whole, fit_cost)
        self.residuals = Residuals(self.whole, theta, direction(self.whole.controls, theta, jax.random.fold_in(key, 1)))
        hidden = self.residuals.finite and self.residuals.moved is None
        # a reverse rule leaves gradients alone
        self.used = Used(True, False, False) if hidden else used
        # with the matrix at hand, a record that is too long for all of them is better tested as a whole
        alone = self.used.normal_equations and not (self.used.gradient or self.used.products)
        self.one_by_one = not alone or self.scope["observations"] == self.scope["of"]
        self.scope["together"] = not self.one_by_one

    @functools.cached_property
    def short(self) -> Residuals:
        """The residuals on as much of the record as the checks of every control may take."""
        part, own = shortened(self.whole, self.theta, self.scope["observations"])
        if part is self.whole:
            return self.residuals
        return Residuals(part, own, direction(part.controls, own, jax.random.fold_in(self.key, 1)))

    @functools.cached_property
    def together(self) -> Check:
        """The check of the tangent along a direction over all controls, on the whole record, against differences.

        Where controls are not tested one by one, all weigh alike in it.
        """
        residuals = self.residuals
        if self.one_by_one:
            return residuals.differences("all controls", residuals.v, residuals.moved)
        v = alike(residuals.objective.controls, residuals.v, np.diag(self.equations[2]))
        return residuals.differences("all controls", v, residuals.tangent(v))

    @functools.cached_property
    def shifted(self) -> AbstractObjective:
        """The objective with random errors added to the data, so that gradients do not vanish at a perfect fit."""
        # observations that a driver reads from a file cannot be shifted
        fixed = isinstance(self.driver, Hosted) and self.driver.targets is not None
        return self.whole if fixed else _shifted(self.whole, self.residuals, self.key)

    @functools.cached_property
    def shifted_single(self) -> AbstractObjective:
        """The float32 objective with the data of its shifted twin."""
        values = cast(self.shifted.observations.values, jnp.float32)
        return eqx.tree_at(lambda f: f.observations.values, self.single, values)

    @functools.cached_property
    def probe(self) -> "Probe":
        """J, and its slopes along two random directions by tangents."""
        other = direction(self.whole.controls, self.theta, jax.random.fold_in(self.key, 3))
        exact = self.used.normal_equations or self.used.products
        return Probe(self.shifted, self.theta, (self.residuals.v, other), exact)

    @functools.cached_property
    def gradient(self) -> tuple[Array, Array]:
        """J and its gradient by the driver."""
        return self.driver.watched_gradient(self.shifted, self.theta)[:2]

    @functools.cached_property
    def equations(self) -> tuple[Array, Array, Array]:
        """J, its gradient and the Gauss-Newton matrix by the driver."""
        return self.driver.normal_equations(self.shifted, self.theta)

    @property
    def kind(self) -> str:
        """The word before the names of derivatives that are computed piece by piece."""
        return "hosted " if isinstance(self.driver, Hosted) else ""

    @property
    def accuracy(self) -> float:
        """The largest relative difference of the driver's gradient from tangents that passes."""
        own = ROUND_OFF if isinstance(self.driver, Hosted) else self.whole.runner.adjoint.accuracy
        return self.residuals.limit(own)


class Probe:
    """J at theta, its slopes along some directions, and the derivatives of the residuals along each.

    **Arguments:**

    - `objective`: the objective.
    - `theta`: the point, (p,).
    - `along`: the directions, (p,) each.
    - `exact`: whether products of tangents are wanted. They are `products`, |J v|^2 and so on, where the residuals do
      not fill the memory; elsewhere and otherwise `moved` has the sketches.
    """

    def __init__(self, objective: AbstractObjective, theta: Array, along: tuple[Array, ...], exact: bool):
        self.objective, self.theta, self.along = objective, theta, along
        self.moved: list[Sketch] | None = None
        self.products: Array | None = None
        tangents = with_tangents(objective)
        try:
            if exact and self.count <= HELD:
                value, slopes, self.products = tangent_products(tangents, theta, jnp.stack(along))
                self.value, self.slope = float(value), [float(x) for x in slopes]
                return
            found = [push_sketch(tangents, theta, v) for v in along]
            self.value = float(found[0][0].half_square)
            self.moved = [m for _, m in found]
            self.slope = [float(m.half_square) for m in self.moved]
        except TypeError:
            # equations with a reverse rule of their own
            here = SKETCH(objective, theta)
            self.value = float(here.half_square)
            nothing = jax.tree.map(jnp.zeros_like, here.kinds)
            gradient = pull_sketch(objective, theta, Sketch(nothing, jnp.ones(())))
            self.slope = [float(jnp.vdot(gradient, v)) for v in along]

    @property
    def count(self) -> int:
        """The number of residuals."""
        return jax.eval_shape(self.objective.residuals, self.theta).size

    def slopes(self, name: str, value: Array, gradient: Array, limit: float, remedy: str) -> list[Check]:
        """Checks of a value and a gradient of J against those of the residuals.

        **Arguments:**

        - `name`: what the gradient is called.
        - `value`, `gradient`: J and its gradient, (p,).
        - `limit`, `remedy`: of the check of the gradient.
        """
        size = float(np.linalg.norm(self.slope))
        gaps = [abs(float(jnp.vdot(gradient, v)) - s) for v, s in zip(self.along, self.slope, strict=True)]
        off = over(abs(float(value) - self.value), abs(self.value))
        return [
            at_most(f"{name} against tangents", over(max(gaps), size), limit, remedy),
            at_most(
                f"J beside its {name}, against its residuals", off, ROUND_OFF, "J and its residuals are not the same"
            ),
        ]


@eqx.filter_jit
def tangent_products(
    objective: AbstractObjective, theta: Array, along: Float[Array, "k p"]
) -> tuple[Array, Float[Array, " k"], Float[Array, "k k"]]:
    """J, its slopes along k directions, and the products <J_r v, J_r u> of the residuals' derivatives along them."""
    r, moved = jvp_many(objective.residuals, (theta,), (along,))
    return r @ r / 2, moved @ r, moved @ moved.T


def _is_single(objective: AbstractObjective) -> bool:
    return any(x.dtype == jnp.float32 for x in jax.tree.leaves(objective.problem) if eqx.is_array(x))


def _shifted(objective: AbstractObjective, residuals: Residuals, key: PRNGKeyArray) -> AbstractObjective:
    """The objective with random errors added to the data, as large as its residuals and at least one sigma.

    Variables that change little with theta are shifted more, so that all weigh alike.
    """
    data = objective.observations
    count = max(objective.observed_values, 1)
    size = max(1.0, float(jnp.sqrt(2 * residuals.here.half_square / count)))
    # a sum of more values is larger, so sizes are compared per value
    part = objective.parts(residuals.theta)[0][0]
    answers = [
        s / np.sqrt(max(x.size / KEPT, 1.0)) for s, x in zip(residuals.sizes, part.observed.values(), strict=False)
    ]
    strongest = max(map(float, answers), default=1.0)

    def shift(i: int, name: str) -> Array:
        value = data.values[name]
        draw = jax.random.normal(jax.random.fold_in(key, 100 + i), value.shape)
        factor = min(strongest / float(answers[i]), _MOST_SHIFT)
        return (value + (size * factor * draw * data.sigma[name])).astype(value.dtype)

    values = {name: shift(i, name) for i, name in enumerate(part.observed)}
    return eqx.tree_at(lambda f: f.observations.values, objective, {**data.values, **values})


def scope(objective: AbstractObjective, fit_cost: float) -> dict[str, Any]:
    """The part of the record that the checks of every control may take.

    **Arguments:**

    - `objective`: the objective.
    - `fit_cost`: the cost of the fit, in forward solves.

    **Returns:** the number of observation times, out of how many, and the cost and the budget in forward solves.
    """
    single, total = len(objective.controls.elements), objective.observations.ts.shape[-1]
    budget = max(SOLVES, SHARE * fit_cost, UPDATES / _updates(objective))
    cost = _GRADIENT + single * (_TANGENT + _DIFFERENCES)
    count = total if cost <= budget else max(2, math.ceil(total * budget / cost))
    if objective.controls.nodes:
        # each window's start is a control of its own: none may be left out
        count = total
    return {"observations": count, "of": total, "forward_solves": cost, "budget": budget}


def _updates(objective: AbstractObjective) -> float:
    """About the number of values that one forward solve updates."""
    found = 0.0
    for part, _ in objective.parts(objective.theta0):
        values = sum(x.size for x in jax.tree.leaves(part.problem.y0))
        found += part.layout.time_grid.steps * max(values, _SMALL_STATE)
    return found
