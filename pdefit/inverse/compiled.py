"""What is asked of functionals again and again, compiled once for each kind of functional."""

from collections.abc import Callable

import equinox as eqx

VALUE: Callable = eqx.filter_jit(lambda functional, theta: functional.value(theta))
GRADIENT: Callable = eqx.filter_jit(lambda functional, theta: functional.value_and_grad(theta)[1])
RESIDUALS: Callable = eqx.filter_jit(lambda functional, theta: functional.residuals(theta))
# the weighted residuals of every observation by variable (S, I, ...), padding having residual zero
WEIGHTED: Callable = eqx.filter_jit(lambda functional, theta: functional.trajectories(theta, lambda r: r)[0])
NORMAL: Callable = eqx.filter_jit(lambda functional, theta: functional.normal_equations(theta))
