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


class Spread(Decay):
    D: jax.Array = pdefit.parameter(unit="um^2/s", default=1.0)
    drag: jax.Array = pdefit.parameter(unit="length/time^2", default=1.0)
    source: jax.Array = pdefit.parameter(unit="mol/m^3", default=1.0)
    grid: pdefit.CartesianGrid = pdefit.CartesianGrid((4,), (1.0,), length_unit="um")


def test_units_of_parameters_are_those_of_the_declaration_and_the_grid():
    found = {name: info.unit for name, info in pdefit.parameters(Spread(rate=1)).items()}
    assert found["D"] == "um^2/s" and found["drag"] == "um/s^2"
    assert found["rate"] == "1/s" and found["source"] == "mol/m^3"


@pytest.mark.parametrize("length", ["mm", "rad"])
def test_a_parameter_in_another_length_than_the_grid_is_refused(length):
    grid = pdefit.CartesianGrid((4,), (1.0,), length_unit=length)
    with pytest.raises(pdefit.PdefitError, match=r"^D is declared in um\^2/s, but the system has lengths"):
        pdefit.parameters(Spread(rate=1, grid=grid))


def test_the_unit_of_a_constant_is_checked_as_that_of_a_parameter():
    class Scanned(Spread):
        spacing: jax.Array = pdefit.constant(unit="um", default=1.0)
        area: jax.Array = pdefit.constant(unit="length^2", default=1.0)

    assert "spacing" not in pdefit.parameters(Scanned(rate=1))
    grid = pdefit.CartesianGrid((4,), (1.0,), length_unit="mm")
    with pytest.raises(pdefit.PdefitError, match=r"^spacing is declared in um, but the system has lengths in mm"):
        pdefit.parameters(Scanned(rate=1, grid=grid))


def test_numbers_become_arrays_that_can_be_differentiated():
    system = Decay(rate=2)
    assert system.rate.dtype == jnp.float64 and isinstance(system.network, eqx.nn.Identity)
    assert system.mask.dtype == jnp.int64


def test_a_system_must_write_its_equations():
    with pytest.raises(TypeError, match="abstract"):
        pdefit.AbstractSystem()


def test_a_system_without_a_unit_of_time_is_one_sentence():
    class Timeless(pdefit.AbstractSystem):
        vector_field, init = Decay.vector_field, Decay.init

    with pytest.raises(pdefit.PdefitError, match=r"^Timeless states no unit of time; write time_unit"):
        Timeless()
