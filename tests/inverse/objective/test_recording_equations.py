"""The block-arrow matrix of recordings against the dense one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from pdefit.inverse.objective.recording_equations import ArrowEquations


def equations(shared, own, sums=0, recordings=4, rows=9, seed=0):
    """Random normal equations. The last unknown of the last recording is held."""
    rng = np.random.default_rng(seed)
    jac, r = rng.normal(size=(recordings, rows, shared + own)), rng.normal(size=(recordings, rows))
    p = shared + recordings * own - (own > 0)
    places = np.arange(shared), shared + np.arange(recordings * own).reshape(recordings, own)
    return ArrowEquations(
        jnp.asarray(np.sum(r**2, axis=1) / 2),
        jnp.asarray(np.einsum("eri,er->ei", jac, r)),
        jnp.asarray(np.einsum("eri,erj->eij", jac, jac)),
        *map(jnp.asarray, places),
        jnp.asarray(1e2 * rng.normal(size=(sums, p))),
    )


@pytest.mark.parametrize("sizes", [(3, 2, 0), (3, 2, 2), (0, 3, 0), (3, 0, 0)], ids=str)
def test_the_arrow_is_the_dense_matrix_in_all_it_does(sizes):
    arrow, rng = equations(*sizes), np.random.default_rng(1)
    dense, p = np.asarray(arrow), arrow.sums.shape[1]
    v, scale, shift = jnp.asarray(rng.normal(size=(3, p)))
    np.testing.assert_allclose(arrow.diagonal(), np.diag(dense), rtol=1e-13)
    np.testing.assert_allclose(arrow @ v, dense @ v, rtol=1e-11, atol=1e-11 * np.max(np.abs(dense)))
    np.testing.assert_allclose(np.asarray(arrow.scaled(scale)), scale[:, None] * dense * scale[None], atol=1e-10)
    held = np.arange(p) % 4 == 1
    damped = (dense + np.diag(shift**2))[np.ix_(~held, ~held)]
    found = arrow.solve(v, shift**2, jnp.asarray(held))
    np.testing.assert_allclose(found[~held], np.linalg.solve(damped, v[~held]), rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(found[held], 0.0)


def test_nothing_is_as_large_as_the_dense_matrix():
    arrow = equations(3, 2, 1, recordings=100)
    p = arrow.sums.shape[1]
    program = jax.make_jaxpr(lambda a, v: (a @ v, a.diagonal(), a.solve(v, v**2, v < 0)))(arrow, jnp.ones(p))

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (v.aval.size for v in equation.outvars)
            for inside in jaxprs_in_params(equation.params):
                yield from sizes(inside)

    assert 0 < max(sizes(program.jaxpr)) < p**2 / 10


def test_each_operation_of_the_arrow_is_one_program():
    compiled = list[str]()
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    # of a size of its own, for which nothing was compiled before
    arrow = equations(2, 1, 1, recordings=7)
    v, before = jax.device_put(np.ones(arrow.sums.shape[1])), len(compiled)
    for operation in (arrow.diagonal, arrow.dense, lambda: arrow @ v):
        operation()
    assert len(compiled) - before == 3
