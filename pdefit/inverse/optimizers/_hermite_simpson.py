"""Residuals of collocation: data, and defects of the equations between states at successive times."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from pdefit.integrate.loop.time_loop import precision
from pdefit.inverse.linear.schur import chained, complement

if TYPE_CHECKING:
    from pdefit.inverse.objective.functional import Functional


class Bordered(NamedTuple):
    """Normal equations of states, each coupled to the next, and of shared scalars.

    **Arguments:**

    - `diagonal`: the blocks of M states of n elements, (M, n, n).
    - `below`: the blocks that couple each state but the first to the previous one, (M - 1, n, n).
    - `border`: the blocks that couple each state to the k shared scalars, (M, n, k).
    - `corner`: the block of the shared scalars, (k, k).
    - `gradient`: the gradient in the states, (M, n).
    - `shared`: the gradient in the shared scalars, (k,).
    """

    diagonal: Float[Array, "M n n"]
    below: Float[Array, "M-1 n n"]
    border: Float[Array, "M n k"]
    corner: Float[Array, "k k"]
    gradient: Float[Array, "M n"]
    shared: Float[Array, " k"]

    def step(
        self, states: Float[Array, " n"], shared: Float[Array, " k"]
    ) -> tuple[Float[Array, " k"], Float[Array, "M n"]]:
        """Newton step, minus the solution for the gradient, (k,) and (M, n), in time linear in M.

        **Arguments:** `states`, `shared`: additions to the diagonal for each element of a state and each scalar.
        """
        root = chained(self.diagonal + jnp.diag(states)[None], self.below)
        left = complement(root, self.border, -self.gradient, self.corner + jnp.diag(shared), -self.shared)
        x = jnp.linalg.solve(left.matrix, left.right)
        return x, left.blocks(x)


class CollocationResiduals(eqx.Module):
    """Residuals of a record in its unknowns theta, (k,), and in the states x at M times, (M, n).

        data, (x_0 - y0(theta)) / sigma, d_i / sigma, regularizers, priors

    The Hermite-Simpson defect of the equations y' = f between two states is

        d = x_0 - x_1 + h/6 (f_0 + 4 f_c + f_1),  x_c = (x_0 + x_1)/2 + h/8 (f_0 - f_1)

    **Arguments:**

    - `functional`: the objective of the record as one trajectory.
    - `times`: the times of the states, (M,).
    - `frames`: for each time the index of an observation, (M,).
    - `is_frame`: whether that observation is at this time, (M,).
    """

    functional: "Functional"
    times: np.ndarray
    frames: np.ndarray
    is_frame: np.ndarray

    def start(self, theta: Float[Array, " k"]) -> Float[Array, " n"]:
        """The initial state at theta."""
        return ravel_pytree(self.functional.at(theta).y0)[0].astype(jnp.float64)

    def rate(self, theta: Float[Array, " k"], x: Float[Array, " n"], t: Array) -> Float[Array, " n"]:
        """The vector field f at theta, a state and a time."""
        problem = self.functional.at(theta)
        y = self._state(x)
        return ravel_pytree(problem.system.vector_field(t.astype(precision(y)), y, problem.args))[0].astype(jnp.float64)

    def _state(self, x: Float[Array, " n"]) -> PyTree:
        flat, unravel = ravel_pytree(self.functional.problem.y0)
        return unravel(x.astype(flat.dtype))

    def _data(self, theta: Array, x: Array, frame: Array, counts: dict[str, Array]) -> Array:
        """The weighted residuals of one observation; zero for missing values."""
        problem, schedule = self.functional.at(theta), self.functional.schedule
        found = schedule.residuals(problem.instrument, self._state(x), problem.args, (frame, counts))
        return ravel_pytree(found)[0].astype(jnp.float64)

    def _rows(self) -> tuple[Array, dict[str, Array]]:
        counts = {n: c[0, self.frames] & self.is_frame for n, c in self.functional.schedule.counts.items()}
        return jnp.asarray(self.functional.layout.index)[0, self.frames], counts

    def _extra(self, theta: Array) -> Array:
        return jnp.concatenate([jnp.zeros(0), *map(jnp.ravel, self.functional.extra_residuals(theta))])

    def parts(self, theta: Float[Array, " k"], x: Float[Array, "M n"], sigma: Float[Array, " n"]) -> tuple[Array, ...]:
        """Residuals of data, start, defects, and of the controls alone; sigma is the standard deviation of defects."""
        h, ts = jnp.diff(self.times)[:, None], jnp.asarray(self.times)
        rates = jax.vmap(partial(self.rate, theta))
        f = rates(x, ts)
        centre = rates((x[:-1] + x[1:]) / 2 + h / 8 * (f[:-1] - f[1:]), (ts[:-1] + ts[1:]) / 2)
        defects = x[:-1] - x[1:] + h / 6 * (f[:-1] + 4 * centre + f[1:])
        data = jax.vmap(partial(self._data, theta))(x, *self._rows())
        return data, (x[0] - self.start(theta)) / sigma, defects / sigma[None], self._extra(theta)

    def value(self, theta: Float[Array, " k"], x: Float[Array, "M n"], sigma: Float[Array, " n"]) -> Float[Array, ""]:
        """Half the sum of squares."""
        return sum((jnp.sum(p**2) for p in self.parts(theta, x, sigma)), start=jnp.zeros(())) / 2

    def equations(self, theta: Float[Array, " k"], x: Float[Array, "M n"], sigma: Float[Array, " n"]) -> Bordered:
        """Normal equations of Gauss-Newton."""
        h, ts, eye = jnp.diff(self.times)[:, None], jnp.asarray(self.times), jnp.eye(x.shape[1])[None]
        # f with its derivatives in theta and in x
        f, p, a = _derivatives(self.rate)(theta, x, ts)
        middle = (x[:-1] + x[1:]) / 2 + h / 8 * (f[:-1] - f[1:])
        fc, pc, ac = _derivatives(self.rate)(theta, middle, (ts[:-1] + ts[1:]) / 2)
        sixth, eighth = h[:, :, None] / 6, h[:, :, None] / 8
        # the defects, and their derivatives in theta and in the states before and after
        d = (x[:-1] - x[1:] + h / 6 * (f[:-1] + 4 * fc + f[1:])) / sigma[None]
        weight = 1 / sigma[None, :, None]
        shared = weight * sixth * (p[:-1] + p[1:] + 4 * (pc + ac @ (eighth * (p[:-1] - p[1:]))))
        before = weight * (eye + sixth * (a[:-1] + 4 * ac @ (eye / 2 + eighth * a[:-1])))
        after = weight * (-eye + sixth * (a[1:] + 4 * ac @ (eye / 2 - eighth * a[1:])))
        r, r_theta, r_x = _derivatives(self._data)(theta, x, *self._rows())
        extra, d_extra = self._extra(theta), jax.jacfwd(self._extra)(theta)
        s, s_theta = (x[0] - self.start(theta)) / sigma, -weight[0] * jax.jacfwd(self.start)(theta)

        def summed(at: Array, ahead: Array, behind: Array, first: Array) -> Array:
            """Sum for every node over its data, the defects after and before it, and the initial state."""
            return at.at[:-1].add(ahead).at[1:].add(behind).at[0].add(first)

        return Bordered(
            diagonal=summed(_t(r_x) @ r_x, _t(before) @ before, _t(after) @ after, jnp.diag(1 / sigma**2)),
            below=_t(after) @ before,
            border=summed(_t(r_x) @ r_theta, _t(before) @ shared, _t(after) @ shared, weight[0] * s_theta),
            corner=_squares(r_theta) + _squares(shared) + _squares(s_theta) + _squares(d_extra),
            gradient=summed(_times(r_x, r), _times(before, d), _times(after, d), s / sigma),
            shared=_times(r_theta, r).sum(0) + _times(shared, d).sum(0) + s_theta.T @ s + d_extra.T @ extra,
        )

    def information(self, theta: Float[Array, " k"], x: Float[Array, "M n"]) -> Float[Array, " n"]:
        """Mean information on each element of a state over frames: 1 / sigma^2 for each observed value."""
        r_x = _derivatives(self._data)(theta, x, *self._rows())[2]
        squares = jnp.sum(r_x**2, axis=1)
        return jnp.sum(squares, axis=0) / jnp.maximum(jnp.sum(squares > 0, axis=0), 1)


def _derivatives(function: Callable[..., Array]) -> Callable[..., tuple[Array, Array, Array]]:
    """Function that returns value and derivatives in theta and x, at many x, of a function of theta, x and more arguments."""

    def one(theta: Array, *rest: PyTree) -> tuple[Array, Array, Array]:
        return function(theta, *rest), *jax.jacfwd(function, argnums=(0, 1))(theta, *rest)

    return lambda theta, *rest: jax.vmap(partial(one, theta))(*rest)


def _t(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


def _times(jac: Float[Array, "M m c"], r: Float[Array, "M m"]) -> Float[Array, "M c"]:
    return jnp.einsum("imc,im->ic", jac, r)


def _squares(jac: Array) -> Array:
    rows = jac.reshape(-1, jac.shape[-1])
    return rows.T @ rows
