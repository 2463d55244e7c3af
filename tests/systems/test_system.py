from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import pdefit


class Decay(pdefit.AbstractSystem):
    time_unit: ClassVar[str] = "s"
    rate: jax.Array = pdefit.parameter(unit="1/s", positive=True, doc="rate")
    network: eqx.Module = pdefit.parameter(default=eqx.nn.Identity())
    mask: jax.Array = pdefit.constant(default=1)

    def vector_field(self, t, y, args):
        return -self.rate * y

    def init(self, key):
        return jnp.ones(())


def test_parameters_are_what_is_declared():
    declared = pdefit.parameters(Decay)
    assert list(declared) == ["rate", "network"]
    assert declared["rate"].unit == "1/s" and declared["rate"].positive and declared["rate"].doc == "rate"


def test_numbers_become_arrays_that_can_be_differentiated():
    system = Decay(rate=2)
    assert system.rate.dtype == jnp.float64 and isinstance(system.network, eqx.nn.Identity)
    assert system.mask.dtype == jnp.int64


def test_a_system_must_write_its_equations():
    with pytest.raises(TypeError, match="abstract"):
        pdefit.AbstractSystem()
