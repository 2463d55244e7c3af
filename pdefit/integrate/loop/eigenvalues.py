"""Eigenvalues of equations at a state, and the stable steps of explicit solvers that follow.

They serve systems that do not state a stable step (`AbstractStable`).
"""

from collections.abc import Callable, Sequence

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Complex, Float, PyTree

from pdefit._util.failing_operation import origin
from pdefit._util.program import Program, values_of
from pdefit._util.trees import named_fields
from pdefit.integrate.solvers.etdrk4 import ETDRK4
from pdefit.integrate.solvers.explicit import AbstractExplicit
from pdefit.integrate.solvers.method import method_of
from pdefit.systems.linear_operators import AbstractSplit
from pdefit.systems.system import AbstractSystem

# products with the Jacobian, and the largest state whose products are kept in memory
_PRODUCTS, _LARGEST = 30, 2_000_000
# the product of a chosen step and the largest eigenvalue, and the growth of a step that is allowed beyond the equations'
_RESOLVED, _GROWTH = 0.5, 1.01
# parts of a step that are tried
_PARTS = 2.0 ** -np.arange(0, 12, 0.25)

VectorField = Callable[[Array, PyTree, PyTree], PyTree]


def eigenvalues(field: VectorField, y0: PyTree, args: PyTree = None) -> Complex[np.ndarray, " k"]:
    """Estimates of the outermost eigenvalues of df/dy at a state, by Arnoldi iteration from white noise.

    The result is empty if the state is very large, if the field is not finite, or if it has no derivative.

    **Arguments:**

    - `field`: f(t, y, args).
    - `y0`: the state.
    - `args`: exogenous inputs.
    """
    size = values_of(y0)
    if not 0 < size <= _LARGEST or not jnp.issubdtype(jnp.result_type(*jax.tree.leaves(y0)), np.floating):
        return np.zeros(0, complex)
    if size <= _PRODUCTS:
        matrix = jacobian_of(field, y0, args)
        return np.linalg.eigvals(matrix).astype(complex) if np.all(np.isfinite(matrix)) else np.zeros(0, complex)
    matrix = np.asarray(_HESSENBERG(field, y0, args, _PRODUCTS), float)
    below = np.flatnonzero(np.diag(matrix, -1) < 1e-10 * np.linalg.norm(matrix))
    # the iteration ends where noise has no other part
    k = int(below[0]) + 1 if below.size else matrix.shape[1]
    return np.linalg.eigvals(matrix[:k, :k]).astype(complex) if np.all(np.isfinite(matrix)) else np.zeros(0, complex)


def _arnoldi(field: VectorField, y0: PyTree, args: PyTree, count: int) -> Array:
    flat, back = ravel_pytree(y0)

    def rate(x: Array) -> Array:
        return ravel_pytree(field(jnp.zeros((), x.dtype), back(x), args))[0]

    def turn(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        basis, matrix = carry
        w = jax.jvp(rate, (flat,), (basis[i],))[1]
        # twice, against round-off
        first = basis @ w
        second = basis @ (w - first @ basis)
        w = w - (first + second) @ basis
        norm = jnp.linalg.norm(w)
        basis = basis.at[i + 1].set(w / jnp.maximum(norm, jnp.finfo(w.dtype).tiny))
        return basis, matrix.at[:, i].set((first + second).at[i + 1].set(norm))

    v = jax.random.normal(jax.random.key(0), flat.shape, flat.dtype)
    basis = jnp.zeros((count + 1, flat.size), flat.dtype).at[0].set(v / jnp.linalg.norm(v))
    return jax.lax.fori_loop(0, count, turn, (basis, jnp.zeros((count + 1, count), flat.dtype)))[1]


_HESSENBERG = Program(_arnoldi, lambda field, y0, *_: values_of(y0))


def jacobian_of(field: VectorField, y0: PyTree, args: PyTree = None) -> Float[np.ndarray, "n n"]:
    """Dense Jacobian df/dy at a small state.

    **Arguments:** as in `eigenvalues`.
    """
    return np.asarray(_JACOBIAN(field, y0, args), float)


def _jacobian(field: VectorField, y0: PyTree, args: PyTree) -> Array:
    flat, back = ravel_pytree(y0)
    return jax.jacfwd(lambda x: ravel_pytree(field(jnp.zeros((), x.dtype), back(x), args))[0])(flat)


_JACOBIAN = Program(_jacobian)


def fastest_change(field: VectorField, y0: PyTree, args: PyTree = None) -> float:
    """Largest absolute value of the eigenvalues; 0 if there are none.

    **Arguments:** as in `eigenvalues`.
    """
    return float(np.max(np.abs(eigenvalues(field, y0, args)), initial=0.0))


def not_finite(system: AbstractSystem, y0: PyTree, args: PyTree = None) -> str | None:
    """Sentence on a vector field or its Jacobian that is not finite at the initial state; None if both are finite.

    **Arguments:** `system`, `args`: as in `AbstractSystem.vector_field`; `y0`: the state.
    """
    if not all(eqx.is_inexact_array(x) for x in jax.tree.leaves(y0)):
        return None

    def rates(y: PyTree) -> PyTree:
        return system.vector_field(jnp.zeros((), jax.tree.leaves(y)[0].dtype), y, args)

    def slopes(y: PyTree) -> PyTree:
        return jax.jvp(rates, (y,), (jax.tree.map(jnp.ones_like, y),))[1]

    for what, function in (("vector field", rates), ("Jacobian of the vector field", slopes)):
        found = named_fields(jax.jit(function)(y0)).items()
        field = next((name for name, x in found if not bool(jnp.all(jnp.isfinite(x)))), None)
        if field is not None:
            cause = origin(function, y0)
            line = f": {cause.line}" if cause is not None and cause.line is not None else ""
            return (
                f"The {what} of {type(system).__name__} is not finite at the initial state in the rate of '{field}'{line}; "
                f"start above zero, or guard a power, a root or a quotient there, as in jnp.maximum(y, 1e-6)"
            )
    return None


def resolving_step(
    problems: Sequence[tuple[AbstractSystem, PyTree]], solver: diffrax.AbstractSolver, args: PyTree = None
) -> float | None:
    """A step that resolves the fastest change of equations at their states; None if unknown.

    It is half the reciprocal of the largest eigenvalue, or less if an explicit solver is unstable with it. Exponential
    steps resolve the part that is not linear.

    **Arguments:**

    - `problems`: systems, each with a state.
    - `solver`: the solver. Steps are known for explicit tableaus and ETDRK4 only.
    - `args`: exogenous inputs.
    """
    steps = []
    for system, y0 in problems if isinstance(method_of(solver), AbstractExplicit | ETDRK4) else ():
        field = system.vector_field
        if isinstance(solver, ETDRK4) and isinstance(system, AbstractSplit):
            field = system.explicit
        values = eigenvalues(field, y0, args)
        fastest = float(np.max(np.abs(values), initial=0.0))
        if fastest > 0:
            steps.append(stable_part(values, solver, _RESOLVED / fastest, _GROWTH) * _RESOLVED / fastest)
    return min(steps, default=None) or None


def stable_part(values: Complex[np.ndarray, " k"], solver: diffrax.AbstractSolver, dt: float, growth: float) -> float:
    """Largest fraction of a step that is stable with an explicit solver; 1 for other solvers, and 0 if no step is stable.

    **Arguments:**

    - `values`: the eigenvalues, in one over the system's time unit.
    - `solver`: the solver.
    - `dt`: the step.
    - `growth`: the factor by which a step may grow beyond the growth of the equations.
    """
    method = method_of(solver)
    if not (isinstance(method, AbstractExplicit) and values.size):
        return 1.0
    physical = max(float(np.max(np.real(values))), 0.0) * dt
    for part in _PARTS:
        if np.max(np.log(np.maximum(method.growth(part * dt * values), 1e-300))) <= part * physical + np.log(growth):
            return float(part)
    return 0.0
