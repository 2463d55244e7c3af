"""Planted faults and small switches are refused, smooth systems and kinks pass: from `scripts/attack_certificates.py`."""

import jax
import pytest
from gradient_faults import FAULTS, certificate
from switches import KINKS, SWITCHES
from zoo import CASES

import pdefit

# what is planted, and the check that must find it
CAUGHT = {
    "parameter_stopped_after_half_the_time": "whole record: tangent against differences",
    "one_frame_of_101_lost": "gradient against the tangents",
    "sign_in_the_product": "Gauss-Newton products",
    "segment_dropped": "Gauss-Newton gradient",
    "last_recording_lost": "gradient against the tangents",
    "host_checkpoint_off_by_one_from_slot_4": "gradient against the tangents",
    "implicit_solve_off_by_1e-3": "tangent against differences",
    "smooth_twin_sign": "smooth tangents",
}


@pytest.mark.parametrize("name", CAUGHT)
def test_a_planted_fault_is_refused(name):
    with FAULTS[name].planted() as planted:
        found = certificate(planted)
    assert CAUGHT[name] in "; ".join(check.name for check in found.checks if not check.passed)


@pytest.mark.parametrize("name", ["kdv", "kuramoto_sivashinsky", "van_der_pol_stiff"])
def test_a_smooth_system_passes(name):
    for seed, off in enumerate((1.0, 0.03, 0.0)):
        functional = CASES[name].draw(seed, off)
        found = pdefit.certify(functional, functional.theta0, key=jax.random.key(seed))
        assert found.passed, found.reason


def test_a_small_switch_is_refused_and_a_kink_is_not():
    for kind, passes in ((SWITCHES["relay"], False), (KINKS["relu"], True)):
        functional = kind.draw(0.1, 0)
        found = pdefit.certify(functional, functional.theta0)
        assert found.passed is passes, found.reason
