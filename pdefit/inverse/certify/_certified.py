"""The subject of a certificate: an objective at a point, as used by the driver and optimizers of a fit."""

import dataclasses
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from pdefit._util.trees import cast
from pdefit.adjoints.base import ROUND_OFF
from pdefit.inverse.certify._by_jacobian import ByJacobian
from pdefit.inverse.certify._record import Check
from pdefit.inverse.certify._residual_checks import against_differences
from pdefit.inverse.certify._scaled_residuals import MOST_AMPLIFIED, Residuals
from pdefit.inverse.certify._sketch import KEPT, Sketched
from pdefit.inverse.certify.direction import alike, direction
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.recording_equations import ArrowEquations
from pdefit.inverse.objective.variants import shortened

# Forward solves that the tests of every control may cost whatever the fit costs; the part of the fit beyond; and the values
# that may be updated where a forward solve is small (about a second).
SOLVES, SHARE, UPDATES = 20.0, 0.05, 2e8
# in forward solves: a product with the adjoint, a tangent, the differences of one direction
_GRADIENT, _TANGENT, _DIFFERENCES = 5.0, 2.0, 18.0
# values below which a step costs no less
_SMALL_STATE = 1000
# where so many forward solves take no longer, a long series of differences is always computed (about a quarter of this)
_MANY = 100.0
Numbers = Array | np.ndarray
# J, its gradient and the Gauss-Newton matrix
NormalEquations = tuple[Float[Numbers, ""], Float[Numbers, " p"], Float[Numbers, "p p"] | ArrowEquations]
# kinds of residuals that change little with theta are shifted more, by at most this factor
_MOST_SHIFT = 1e6
# errors of independent residuals add up to no more than so many times their typical sum
_UNLUCKY = 10.0


@dataclasses.dataclass(frozen=True)
class Used:
    """Derivatives that the optimizers of a fit use.

    **Arguments:**

    - `gradient`: gradients by the adjoint.
    - `products`: products with the Gauss-Newton matrix.
    - `normal_equations`: gradient and Gauss-Newton matrix by tangents.
    - `driver`: the driver of the fit, which computes the derivatives.
    - `known`: J, its gradient and the Gauss-Newton matrix that the fit has at the point; or None.
    """

    gradient: bool
    products: bool
    normal_equations: bool
    driver: AbstractDriver
    known: NormalEquations | None


class Certified:
    """An objective at a point, with the quantities shared by several checks, each computed on first use.

    **Arguments:**

    - `objective`: the objective of the fit.
    - `tested`: the objective with smooth residuals if tangents are a smooth twin's.
    - `theta`: the point, (p,).
    - `key`: the key of random directions and errors.
    - `used`: the derivatives that the fit uses.
    - `fit_cost`: the cost of the fit, in forward solves.
    """

    def __init__(
        self,
        objective: AbstractObjective,
        tested: AbstractObjective,
        theta: Float[Array, " p"],
        key: PRNGKeyArray,
        used: Used,
        fit_cost: float,
    ):
        self.objective, self.theta, self.key, self.driver = objective, theta, key, used.driver
        self.whole = cast(tested, jnp.float64)
        # the same in float32, where the fit runs in it
        single = any(x.dtype == jnp.float32 for x in jax.tree.leaves(tested.problem) if eqx.is_array(x))
        self.single = tested if single else None
        self.has_twin = tested is not objective
        # those of hard residuals, or in float32, are not those that are tested
        self.handed = None if self.has_twin or self.single is not None else used.known
        self.scope = scope(self.whole, fit_cost)
        self.few = UPDATES / _updates(self.whole) < _MANY
        # with the matrix at hand, a record that is too long for all of them is better tested as a whole
        alone = used.normal_equations and not (used.gradient or used.products)
        self.one_by_one = not alone or self.scope["observations"] == self.scope["of"]
        v = direction(self.whole.controls, theta, key)
        if self.handed and not self.one_by_one:
            v = alike(self.whole.controls, v, np.asarray(self.handed[2].diagonal()))
        # what the fit uses is tested: a Jacobian that is held, or sums along the trajectories
        self.source = ByJacobian() if alone and self.whole.small and not self.kind else Sketched()
        self.residuals = Residuals(self.whole, theta, v, self.few, self.source)
        hidden = self.residuals.finite and self.residuals.moved is None
        # a reverse rule leaves gradients alone
        self.used = dataclasses.replace(used, gradient=True, products=False, normal_equations=False) if hidden else used
        self.one_by_one |= hidden
        self.scope["together"] = not self.one_by_one

    @functools.cached_property
    def short(self) -> Residuals:
        """Residuals on the part of the record that the checks of every control may use."""
        part, own = shortened(self.whole, self.theta, self.scope["observations"])
        if part is self.whole:
            return self.residuals
        v = direction(part.controls, own, self.key)
        return Residuals(part, own, v, self.few, self.source)

    @functools.cached_property
    def together(self) -> Check:
        """Check of the tangent along a direction over all controls against differences, on the whole record.

        If controls are not tested one by one, they have equal weight in it.
        """
        residuals = self.residuals
        if self.one_by_one or self.handed:
            return against_differences(residuals, "all controls", residuals.v, residuals.moved)
        v = alike(residuals.objective.controls, residuals.v, np.asarray(self.equations[2].diagonal()))
        return against_differences(residuals, "all controls", v, residuals.tangent(v))

    @functools.cached_property
    def levels(self) -> dict[str, float]:
        """Size of residuals by variable, in standard deviations: as large as at theta, and at least 1.

        Variables that change little with theta get a larger size, so that all have equal weight.
        """
        whole, found = self.whole, self.residuals
        size = max(1.0, float(np.sqrt(2 * float(found.here.half_square) / max(whole.observed_values, 1))))
        names = whole.parts(self.theta)[0][0].observed
        # a sum of more values is larger, so sizes are compared per value
        answers = [s / np.sqrt(max(x.size / KEPT, 1.0)) for s, x in zip(found.sizes, names.values(), strict=False)]
        return {n: size * min(max(answers) / a, _MOST_SHIFT) for n, a in zip(names, answers, strict=True)}

    @functools.cached_property
    def shifted(self) -> AbstractObjective:
        """Objective with random errors added to the data, so that gradients do not vanish at a perfect fit.

        The errors have the signs of the sketch, which therefore knows their contribution to the slope of J.
        """
        # observations that a driver reads from a file cannot be shifted
        if isinstance(self.driver, Hosted) and self.driver.targets is not None:
            return self.whole
        data, drawn = self.whole.observations, self.source.signs(self.whole)

        def shift(n: str) -> Array:
            moved = np.asarray(data.values[n]) + self.levels[n] * np.asarray(drawn[n]) * np.asarray(data.sigma[n])
            return jax.device_put(moved.astype(data.values[n].dtype))

        values = {**data.values, **{n: shift(n) for n in self.levels}}
        return eqx.tree_at(lambda f: f.observations.values, self.whole, values)

    @functools.cached_property
    def shifted_value(self) -> Array | np.ndarray:
        """J of the shifted objective, by one run of its residuals."""
        return self.source.at(self.shifted, self.theta).half_square

    @functools.cached_property
    def shifted_single(self) -> AbstractObjective:
        """The float32 objective with the data of its shifted twin."""
        values = cast(self.shifted.observations.values, jnp.float32)
        return eqx.tree_at(lambda f: f.observations.values, self.single, values)

    @functools.cached_property
    def gradient(self) -> tuple[Array, Array]:
        """J and its gradient by the driver."""
        return self.driver.watched_gradient(self.shifted, self.theta)[:2]

    @functools.cached_property
    def equations(self) -> NormalEquations:
        """J, its gradient and the Gauss-Newton matrix, from the driver or from the fit."""
        return jax.device_get(self.handed or self.driver.normal_equations(self.shifted, self.theta))

    @property
    def kind(self) -> str:
        """Prefix of the names of derivatives that are computed piece by piece."""
        return "hosted " if isinstance(self.driver, Hosted) else ""

    @property
    def accuracy(self) -> float:
        """Largest accepted relative difference between the driver's gradient and tangents."""
        own = ROUND_OFF if isinstance(self.driver, Hosted) else self.whole.runner.adjoint.accuracy
        return self.residuals.limit(own)

    def remedy(self, otherwise: str) -> str:
        """Remedy of a wrong gradient: `otherwise`, unless a continuous adjoint computes it."""
        if not self.whole.runner.adjoint.other_steps:
            return otherwise
        return (
            "a continuous adjoint errs as the steps do, and more than they explain is wrong: use adjoint=checkpointed, or a "
            "smaller dt (steps.rtol)"
        )

    @functools.cached_property
    def rounded(self) -> float:
        """Largest relative error of a gradient that the round-off of residuals explains.

        It matters if sigma is hardly above the round-off of a prediction, as for planets: however exact the Jacobian,
        its product with such residuals is not.
        """
        steepest = max(s / level for s, level in zip(self.residuals.sizes, self.levels.values(), strict=False))
        typical = self.residuals.noise() * steepest / np.sqrt(max(self.whole.observed_values, 1))
        return min(_UNLUCKY * typical, MOST_AMPLIFIED)


def scope(objective: AbstractObjective, fit_cost: float) -> dict[str, Any]:
    """The part of the record that the checks of every control may use.

    **Arguments:**

    - `objective`: the objective.
    - `fit_cost`: the cost of the fit, in forward solves.

    **Returns:** the number of observation times used, the total number, and the cost and budget in forward solves.
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
    """Approximate number of values that one forward solve updates."""
    updates = 0.0
    for part, _ in objective.parts(objective.theta0):
        values = sum(x.size for x in jax.tree.leaves(part.problem.y0))
        updates += part.layout.time_grid.steps * max(values, _SMALL_STATE)
    return updates
