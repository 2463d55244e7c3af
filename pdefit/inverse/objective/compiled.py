"""Compiled evaluations of functionals, one program for each kind of functional."""

from collections.abc import Callable

import equinox as eqx

VALUE: Callable = eqx.filter_jit(lambda functional, theta: functional.value(theta))
# value, gradient and growth of the adjoint, as optimizers are given them
GRADIENT: Callable = eqx.filter_jit(lambda functional, theta: functional.watched_gradient(theta))
PRODUCT: Callable = eqx.filter_jit(lambda functional, theta, v: functional.gauss_newton_product(theta, v))
RESIDUALS: Callable = eqx.filter_jit(lambda functional, theta: functional.residuals(theta))
# the weighted residuals of every observation by variable (S, I, ...), padding having residual zero
WEIGHTED: Callable = eqx.filter_jit(lambda functional, theta: functional.trajectories(theta, lambda r: r)[0])
NORMAL: Callable = eqx.filter_jit(lambda functional, theta: functional.normal_equations(theta))
