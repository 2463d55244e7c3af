"""Second derivatives: Gauss-Newton and Hessian products without a Jacobian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher_functional, positions_functional

import pdefit

CONTROLS = {
    "D": pdefit.Control(pdefit.transforms.Log(), prior=pdefit.priors.LogNormal(1.0, 0.5)),
    "y0": {"u": pdefit.Control(smoothing=2.0)},
}
MAKERS = {
    "field": lambda: fisher_functional(CONTROLS, noise=0.02, regularizers=(pdefit.regularizers.H1("y0.u", 1e-2),)),
    "three levels": lambda: fisher_functional(CONTROLS, noise=0.02, adjoint=pdefit.adjoints.Checkpointed(3)),
    "nodes": lambda: positions_functional(noise=np.random.default_rng(0)),
}
GRADIENT = eqx.filter_jit(lambda functional, theta: functional.value_and_grad(theta)[1])
SECOND = eqx.filter_jit(lambda functional, theta, v: jax.jvp(jax.grad(functional.value), (theta,), (v,))[1])


@pytest.mark.parametrize("name", MAKERS)
def test_the_hessian_product_is_the_difference_of_gradients(name):
    functional = MAKERS[name]()
    theta = functional.theta0
    v = jax.random.normal(jax.random.key(1), theta.shape)
    product = SECOND(functional, theta, v)

    def difference(eps):
        near, far = (
            GRADIENT(functional, theta + k * eps * v) - GRADIENT(functional, theta - k * eps * v) for k in (1, 2)
        )
        return (8 * near - far) / (12 * eps)

    errors = [
        float(jnp.linalg.norm(difference(eps) - product) / jnp.linalg.norm(product)) for eps in (1e-3, 1e-4, 1e-5)
    ]
    assert min(errors) <= 1e-6


@pytest.mark.parametrize("name", ["field", "nodes"])
def test_the_gauss_newton_product_is_that_of_the_matrix(name):
    functional = MAKERS[name]()
    theta = functional.theta0
    v = jax.random.normal(jax.random.key(2), theta.shape)
    both = eqx.filter_jit(lambda f, theta, v: (f.gauss_newton_product(theta, v), f.jacobian(theta)))
    product, jac = both(functional, theta, v)
    expected = jac.T @ (jac @ v)
    np.testing.assert_allclose(product, expected, rtol=1e-9, atol=1e-11 * float(jnp.max(jnp.abs(expected))))


def test_products_take_no_room_for_residuals():
    """Twice the observations hardly take more memory, where the residuals alone would take twice as much."""
    held = {}
    for count in (41, 161):
        functional = fisher_functional(count=count, dt=0.1, adjoint=pdefit.adjoints.Checkpointed(3))
        arrays, rest = eqx.partition(functional, eqx.is_array)

        def product(arrays, theta, rest=rest):
            return eqx.combine(arrays, rest).gauss_newton_product(theta, theta)

        program = jax.jit(product).lower(arrays, functional.theta0).compile()
        held[count] = program.memory_analysis().temp_size_in_bytes
    assert held[161] - held[41] < (161 - 41) * 64 * 8 / 2
