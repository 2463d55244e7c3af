from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from pdefit.cli.config._reader import build
from pdefit.cli.config._types import classes_in, fits


class _Layer(eqx.Module):
    f: Any = eqx.field(converter=lambda x: x)


@pytest.mark.parametrize("value", [jnp.tanh, eqx.nn.Identity(), 3, "text", None, jax.numpy.zeros(2)])
def test_any_value_fits_what_a_hint_leaves_open(value):
    assert fits(Any, value) and build(_Layer, {"f": value}, "layer").f is value


def test_what_a_hint_leaves_open_may_be_a_module():
    assert classes_in(Any) == classes_in(jax.Array | Any) == (eqx.Module,)
