"""Planted faults are refused and smooth systems pass: a sample from `scripts/attack_certificates.py`."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gradient_faults import FAULTS, certificate
from zoo.cases import CASES

import pdefit
from pdefit.inverse.certify._residual_checks import against_differences
from pdefit.inverse.certify._scaled_residuals import Residuals
from pdefit.inverse.certify._sketch import Sketched

# what is planted, and the check that must find it
CAUGHT = {
    "host_checkpoint_off_by_one_from_slot_4": "hosted gradient against tangents",
    "cotangent_lost_between_late_pieces": "hosted gradient against tangents",
    "one_frame_of_101_lost": "all controls: gradient against differences",
    "imex_solve_without_parameters": "a: tangent against differences",
    "prior_stopped": "a: tangent against differences",
    "smooth_twin_sign": "smooth tangents",
    "parameter_stopped_in_single_precision": "gradient in float32 against float64",
    # it clears all compiled programs
    "implicit_solve_off_by_1e-3": "a: tangent against differences",
}

# of the derivatives that fits use, those alone that a check looks at
LBFGS = {"optimizers": [pdefit.optimizers.LBFGS()]}
TANGENTS = {"optimizers": [pdefit.optimizers.LevenbergMarquardt()]}


def test_a_right_hosted_fit_passes():
    assert certificate(FAULTS["host_checkpoint_off_by_one_from_slot_4"].make(), **LBFGS).passed


@pytest.mark.parametrize("name", [n if "implicit" in n else pytest.param(n, marks=pytest.mark.quick) for n in CAUGHT])
def test_a_planted_fault_is_refused(name):
    with FAULTS[name].planted() as planted:
        found = certificate(planted, **(LBFGS if "gradient" in CAUGHT[name] else TANGENTS))
    assert CAUGHT[name] in "; ".join(check.name for check in found.checks if not check.passed)


@pytest.mark.parametrize("name", ["kuramoto_sivashinsky", "van_der_pol_stiff"])
def test_a_smooth_system_passes(name):
    for seed, off in enumerate((1.0, 0.03)):
        functional = CASES[name].draw(seed, off)
        found = pdefit.certify(functional, functional.theta0, key=jax.random.key(seed))
        assert found.passed, found.reason


class Root(pdefit.AbstractSystem):
    time_unit: ClassVar[str] = "1"
    rate: jax.Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return {"mass": 0.1 + self.rate * jnp.sqrt(y["mass"])}

    def init(self, key):
        return {"mass": jnp.zeros(())}


def test_a_tangent_that_is_not_finite_names_the_infinite_jacobian():
    system = Root(jnp.asarray(1.0))
    seen = pdefit.Observations.build(np.linspace(0.1, 0.2, 2), {"mass": np.ones(2)}, sigma=0.1)
    functional = pdefit.Functional(
        pdefit.Problem(system, system.init(None)), seen, {"rate": pdefit.transforms.Log()}, dt=0.1
    )
    residuals = Residuals(functional, functional.theta0, jnp.ones(1), few=True, source=Sketched())
    found = against_differences(residuals, "rate", residuals.v, residuals.moved)
    assert not found.passed and "Jacobian of the vector field of Root is not finite" in found.remedy
    assert "jnp.sqrt(y" in found.remedy
