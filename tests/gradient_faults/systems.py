"""Faults of equations: parameters stopped, and derivatives that are not those of the rate."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from zoo import equations
from zoo.equations import lotka_volterra

from gradient_faults.fits import field, flow
from gradient_faults.plant import FAULTS, Fault, Planted, fault


def in_system(name: str, rate: Callable, explained: str = "", **options: Any) -> None:
    """A rate with a derivative that is not its own."""

    def make() -> Planted:
        return Planted(flow(rate, clean=lotka_volterra, **options), flow(**options))

    FAULTS[name] = Fault("system", name, make, explained=explained)


def stopped(p, *which):
    return tuple(lax.stop_gradient(x) if k in which else x for k, x in enumerate(p))


def _half_time(t, u, p, args):
    held = stopped(p, 0)
    return jnp.where(t > 5.0, lotka_volterra(t, u, held, args), lotka_volterra(t, u, p, args))


def _where_high(t, u, p, args):
    return jnp.where(u[0] > 4.0, lotka_volterra(t, u, stopped(p, 0, 1), args), lotka_volterra(t, u, p, args))


def _weak_coupling(t, u, p, args):
    x, y = u
    return jnp.stack([x * (p[0] - p[1] * y), y * (p[1] * (x + 0.01 * (lax.stop_gradient(x) - x)) - p[2])])


def off_by(factor: float) -> Callable:
    @jax.custom_jvp
    def product(a, x):
        return a * x

    @product.defjvp
    def _(primals, tangents):
        return product(*primals), (1 + factor) * (tangents[0] * primals[1] + primals[0] * tangents[1])

    return product


def reverse_off_by(factor: float) -> Callable:
    @jax.custom_vjp
    def product(a, x):
        return a * x

    product.defvjp(lambda a, x: (a * x, (a, x)), lambda kept, c: ((1 + factor) * c * kept[1], c * kept[0]))
    return product


def _with(product):
    def rate(t, u, p, args):
        x, y = u
        return jnp.stack([x * (p[0] - p[1] * y), product(p[1], y * x) - p[2] * y])

    return rate


in_system("parameter_stopped", lambda t, u, p, args: lotka_volterra(t, u, stopped(p, 1), args))
in_system("parameter_stopped_after_half_the_time", _half_time)
in_system("parameters_stopped_where_prey_is_many", _where_high)
in_system("a_hundredth_of_a_coupling_stopped", _weak_coupling)
in_system("jvp_rule_off_by_1e-2", _with(off_by(1e-2)))
in_system("jvp_rule_off_by_1e-4", _with(off_by(1e-4)))
in_system("jvp_rule_off_by_1e-9", _with(off_by(1e-9)), explained="far below what differences resolve, and what matters")
in_system("vjp_rule_off_by_1e-4", _with(reverse_off_by(1e-4)))
in_system("vjp_rule_off_by_1e-2", _with(reverse_off_by(1e-2)))
in_system(
    "single_precision_inside",
    lambda t, u, p, args: lotka_volterra(
        t, u.astype(jnp.float32), tuple(x.astype(jnp.float32) for x in p), args
    ).astype(u.dtype),
    explained="7 digits are right: round-off in the equations, not a wrong derivative",
)


def _rounded(t, u, p, args):
    # a fifth of a percent: 0.002 is a step of the table
    a = jnp.round(p[0] * 500) / 500
    return lotka_volterra(t, u, (p[0] + lax.stop_gradient(a - p[0]), p[1], p[2]), args)


in_system("parameter_from_a_table_whose_steps_are_hidden", _rounded)


@fault("system")
def diffusivity_stopped_in_half_of_the_domain():
    def rate(t, u, p, args):
        D = jnp.where(np.arange(u.size) > u.size // 2, lax.stop_gradient(p[1]), p[1])
        return equations.burgers(t, u, (p[0], D), args)

    return Planted(field(rate=rate), field())
