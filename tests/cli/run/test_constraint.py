import jax.numpy as jnp

import pdefit
from pdefit.cli.run.initial_state import initial_state
from tests.small_systems import Level, State


class Uneven(Level, pdefit.capabilities.AbstractDataState):
    """A level that takes its state from data as it is."""

    def init_from_data(self, observations, index=0):
        return State(observations.values["u"][index])


def test_a_measured_state_that_leaves_the_constraint_is_projected_with_a_remark():
    data = pdefit.Observations.build([0.0, 1.0], {"u": jnp.asarray([[1.0, -1.0, 0.6], [0.0, 0.0, 0.0]])})
    system = Uneven(k=1.0)
    y0, _, remarks = initial_state("data", 0, system, lambda: system.init_from_data(data))
    assert abs(float(jnp.sum(y0.u))) < 1e-12
    assert remarks == (
        "the initial state did not obey the constraint of the equations (divergence) and was projected: u by 22.5%",
    )
    assert initial_state("system", 0, Level(k=1.0), None)[2] == ()
