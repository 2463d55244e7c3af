"""Faults of objective, products, normal equations, nodes and batches."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from zoo.cases import FREE_3

import pdefit
import pdefit.inverse.objective.normal_equations as normal_equations
from gradient_faults.fits import field, flow, priors, recordings, segments
from gradient_faults.plant import FAULTS, Fault, Planted, as_class, fault, wrong_transpose


def altered(objective: Any, method: str, change: Callable) -> Any:
    """The objective with something else returned by a method: `change(found, objective, *arguments)`."""
    cls = type(objective)
    right = getattr(cls, method)

    def wrong(self, *arguments):
        return change(right(self, *arguments), self, *arguments)

    return as_class(objective, type(cls)(f"Wrong{cls.__name__}", (cls,), {method: wrong}))


def in_method(room: str, name: str, method: str, change: Callable, base: Callable = None, explained: str = "") -> None:
    """A fault in what a method returns."""
    base = base or flow
    wrong = {"watched_gradient": "gradient", "gauss_newton_product": "product", "held_equations": "normal"}.get(
        method, ""
    )
    FAULTS[name] = Fault(
        room, name, lambda: Planted(altered(base(), method, change), base()), wrong, explained=explained
    )


def in_gradient(room: str, name: str, change: Callable, base: Callable = None) -> None:
    """A fault in the gradient that optimizers are given: `change(gradient, objective, theta)`."""
    in_method(room, name, "watched_gradient", lambda out, f, theta: (out[0], change(out[1], f, theta), out[2]), base)


def _long(functional: Any, frames: int = 20) -> bool:
    return functional.observations.ts.shape[-1] > frames


def _of_extras(f: Any, theta: jax.Array) -> jax.Array:
    """The gradient of priors and regularizers."""
    return jax.grad(lambda x: sum(jnp.sum(r**2) / 2 for r in f.extra_residuals(x)))(theta)


def _extras_along(f: Any, theta: jax.Array, v: jax.Array) -> jax.Array:
    """The product with the Gauss-Newton matrix of priors and regularizers."""

    def extra(x):
        return jnp.concatenate(f.extra_residuals(x))

    return jax.vjp(extra, theta)[1](jax.jvp(extra, (theta,), (v,))[1])[0]


def _part(f: Any, method: Callable, k: int, theta: jax.Array, *others: jax.Array) -> jax.Array:
    """What one recording adds to a gradient or product."""
    found = f.each_stacked(method, theta, *others)
    found = found[1] if isinstance(found, tuple) else found
    return jnp.zeros_like(theta).at[f.columns[k]].add(found[k])


in_gradient("objective", "sign_beyond_six_frames", lambda g, f, _: g.at[0].multiply(-1.0) if _long(f, 6) else g)
in_gradient("objective", "sign_in_the_watched_gradient", lambda g, *_: g.at[0].multiply(-1.0))
in_gradient("objective", "gradient_off_by_a_thousandth", lambda g, *_: 1.001 * g)
in_gradient("objective", "priors_lost", lambda g, f, theta: g - _of_extras(f, theta), lambda: priors())
in_gradient("objective", "regularizer_lost", lambda g, f, theta: g - _of_extras(f, theta), lambda: field())
in_gradient(
    "objective", "shared_controls_divided", lambda g, f, _: g.at[:3].multiply(1 / f.layout.segments), lambda: segments()
)
in_gradient("recordings", "recordings_in_wrong_columns", lambda g, *_: jnp.roll(g, 1), lambda: recordings())
in_gradient(
    "recordings",
    "last_recording_lost",
    lambda g, f, theta: g - _part(f, pdefit.Functional.watched_gradient, -1, theta),
    lambda: recordings(),
)
in_gradient(
    "recordings",
    "prior_for_every_recording",
    lambda g, f, theta: g + 2 * jax.grad(f._shared_value)(theta),
    lambda: recordings(),
)

for _room, _name, _change, _base in (
    ("products", "sign_in_the_product", lambda p, *_: p.at[1].multiply(-1.0), lambda: flow()),
    ("products", "product_off_by_a_thousandth", lambda p, *_: 1.001 * p, lambda: flow()),
    ("products", "product_of_an_unsymmetric_matrix", lambda p, *_: p.at[0].add(p[2]).at[2].add(-p[0]), lambda: flow()),
    ("products", "product_without_priors", lambda p, f, *at: p - _extras_along(f, *at), lambda: priors()),
    (
        "products",
        "product_wrong_beyond_twenty_frames",
        lambda p, f, *_: p.at[0].multiply(0.5) if _long(f) else p,
        lambda: flow(),
    ),
    ("products", "product_weak_in_the_initial_state", lambda p, *_: p.at[2:].multiply(0.9), lambda: field()),
    ("products", "product_without_jumps", lambda p, *_: p.at[3:].multiply(0.999), lambda: segments()),
    (
        "recordings",
        "product_without_the_first_recording",
        lambda p, f, *at: p - _part(f, pdefit.Functional.gauss_newton_product, 0, *at),
        lambda: recordings(),
    ),
):
    in_method(_room, _name, "gauss_newton_product", _change, _base)


def _scaled(g: Any, factor: Any) -> Any:
    """SegmentNormalEquations of residuals weighed otherwise."""
    return g._replace(gradient=factor[:, None] * g.gradient, matrix=factor[:, None, None] * g.matrix)


def _without(g: Any, k: int) -> Any:
    return _scaled(g, jnp.ones(len(g.gradient)).at[k].set(0.0))


for _name, _change, _base in (
    ("segment_dropped", lambda g, *_: _without(g, 3), lambda: segments()),
    ("last_segment_dropped", lambda g, *_: _without(g, -1), lambda: segments(FREE_3)),
    (
        "sign_in_gauss_newton_gradient",
        lambda g, *_: g._replace(gradient=g.gradient.at[:, 2].multiply(-1.0)),
        lambda: flow(),
    ),
    (
        "sign_in_the_matrix",
        lambda g, *_: g._replace(matrix=g.matrix.at[:, 0, 1].multiply(-1.0).at[:, 1, 0].multiply(-1.0)),
        lambda: flow(),
    ),
    ("matrix_off_by_a_hundredth", lambda g, *_: g._replace(matrix=g.matrix.at[:, 1, 1].multiply(1.01)), lambda: flow()),
    (
        "priors_lost_in_normal_equations",
        lambda g, *_: g._replace(extra=0 * g.extra, extra_jac=0 * g.extra_jac),
        lambda: priors(),
    ),
    (
        "normal_equations_wrong_beyond_twenty_frames",
        lambda g, f, _: g._replace(gradient=g.gradient.at[:, 0].multiply(0.5)) if _long(f) else g,
        lambda: flow(),
    ),
    (
        "wrong_column",
        lambda g, *_: g._replace(columns=jnp.asarray(g.columns).at[2].set(jnp.asarray(g.columns)[1])),
        lambda: segments(),
    ),
    (
        "recordings_in_wrong_rows",
        lambda g, *_: g._replace(columns=jnp.roll(g.columns, 1, axis=0)),
        lambda: recordings(),
    ),
):
    # the equations of a small fit, which holds its Jacobian
    in_method("normal equations", _name, "held_equations", _change, _base)

in_method(
    "objective",
    "value_counts_a_frame_twice",
    "value",
    lambda j, f, theta, *_: j + jnp.sum(f.trajectories(theta, lambda r: r)[0]["u"][:, -1] ** 2) / 2,
)
in_method(
    "objective",
    "sign_in_jvp",
    "jvp",
    lambda out, *_: (out[0], -out[1]),
    explained="no optimizer asks for it: studies of adjoints alone do",
)


_RIGHT_JUMPS = normal_equations.continuity_blocks


@fault(
    "normal equations",
    wrong="normal",
    patches=lambda: [(normal_equations, "continuity_blocks", lambda d_ends, d_starts: _RIGHT_JUMPS(d_ends, -d_starts))],
)
def sign_in_the_jumps():
    return Planted(segments(), segments())


def in_starts(name: str, change: Callable) -> None:
    """A fault in the node states that trajectories start from."""

    class Wrong(pdefit.formulations.Segments):
        def starts(self, y0, nodes):
            return change(nodes)

    def make() -> Planted:
        return Planted(eqx.tree_at(lambda f: f.formulation, segments(), Wrong(2.0, 1e-2)), segments())

    FAULTS[name] = Fault("nodes", name, make)


def in_reverse(change: Callable) -> Callable:
    """The identity with every cotangent changed."""
    return wrong_transpose(lambda ct: jax.tree.map(lambda c: None if c is None else change(c), ct))


in_starts("sign_of_one_node", in_reverse(lambda c: c.at[2:3].multiply(-1.0)))
in_starts("last_node_lost", in_reverse(lambda c: c.at[-1].set(0.0)))
in_starts(
    "nodes_stopped", lambda nodes: jax.tree.map(lambda x: jnp.concatenate([x[:3], lax.stop_gradient(x[3:])]), nodes)
)


class Forgetful(pdefit.batches.Vmap):
    """The cotangent of one slice is lost."""

    def __call__(self, function, *arguments):
        found = super().__call__(function, *arguments)
        return wrong_transpose(lambda ct: jax.tree.map(lambda c: c if c is None else c.at[-1].set(0.0), ct))(found)


@fault("batch")
def last_segment_lost_in_reverse():
    return Planted(segments(FREE_3, batch=Forgetful()), segments(FREE_3))
