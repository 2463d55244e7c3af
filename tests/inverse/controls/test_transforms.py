import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit

CASES = [
    (pdefit.transforms.Identity(), -2.0),
    (pdefit.transforms.Log(), 0.03),
    (pdefit.transforms.Log10(), 250.0),
    (pdefit.transforms.Logit(-1.0, 3.0), 2.5),
    (pdefit.transforms.Softplus(), 0.7),
    (pdefit.transforms.Softplus(), 60.0),
    (pdefit.transforms.Scale(1e-6), -3e-6),
]


@pytest.mark.parametrize(("transform", "x"), CASES)
def test_round_trip_and_increasing(transform, x):
    x = jnp.asarray(x)
    theta = transform.to_search(x)
    np.testing.assert_allclose(transform.to_physical(theta), x, rtol=1e-13)
    assert jax.grad(transform.to_physical)(theta) > 0


def test_search_variables_have_the_stated_values():
    assert pdefit.transforms.Log10().to_search(jnp.asarray(100.0)) == 2.0
    assert pdefit.transforms.Logit(0.0, 4.0).to_search(jnp.asarray(2.0)) == 0.0
    assert pdefit.transforms.Scale(5.0).to_search(jnp.asarray(10.0)) == 2.0


@pytest.mark.parametrize("make", [lambda: pdefit.transforms.Logit(1.0, 1.0), lambda: pdefit.transforms.Scale(0.0)])
def test_impossible_transforms_are_refused(make):
    with pytest.raises(ValueError, match="expects"):
        make()
