"""The uptake as a term: its special case, and the balance between both species."""

import jax
import jax.numpy as jnp
import numpy as np
from pdefit_reaction import GrayScott, SubstrateUptake

import pdefit
from pdefit.boundaries import Periodic
from pdefit.terms import Formula

NUMBERS = tuple(map(jnp.asarray, (2e-5, 1e-5, 0.04, 0.06)))
GRID = pdefit.CartesianGrid((8, 8), (0.08, 0.08), boundary=Periodic())


def test_it_contains_gray_scott_and_any_uptake_keeps_the_sum():
    one, free = GrayScott(GRID, *NUMBERS), SubstrateUptake(GRID, *NUMBERS)
    y = one.init(jax.random.key(0))
    for a, b in zip(one.vector_field(0.0, y, None), free.vector_field(0.0, y, None), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    other = SubstrateUptake(GRID, *NUMBERS, Formula("0.3 * u * v / (0.1 + v)", ("u", "v")))
    a, b = (sum(np.asarray(x) for x in s.reaction(0.0, y, None)) for s in (one, other))
    # what one loses the other gains
    np.testing.assert_allclose(a, b, rtol=1e-12)
