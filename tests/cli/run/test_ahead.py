"""Programs that are compiled while others run."""

import dataclasses

import pytest

import pdefit
from pdefit.cli.run import ahead
from pdefit.cli.run.build import build_experiment
from pdefit.cli.run.certify import certified
from pdefit.inverse.certify._sketch import SKETCH, push_sketch
from pdefit.inverse.objective.compiled import EQUATIONS, VALUE, WEIGHTED

SMALL = ("experiment=reaction/fisher_front", "twin=self", "twin.noise=0.02", "system.grid.shape=[40]")
PROGRAMS = (EQUATIONS, VALUE, WEIGHTED, SKETCH, push_sketch)


@pytest.fixture
def two_stages(compose):
    settings = compose(*SMALL)
    near = pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), formulation=pdefit.formulations.Segments(1.0))
    whole = pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), formulation=pdefit.formulations.Single())
    return dataclasses.replace(build_experiment(settings), stages=[near, whole]), settings


def test_what_is_compiled_ahead_is_what_a_fit_calls(two_stages, monkeypatch):
    exp, settings = two_stages
    monkeypatch.setattr(ahead, "given_devices", lambda _: (0, 1))
    with ahead.compiling_ahead(exp, settings, None):
        assert all(program._begun for program in PROGRAMS)
        first, *_ = ahead.objectives(exp)
        assert certified(first, first.theta0, exp, settings, exp.stages[0]).passed
        found = exp.fit()
        assert found.residuals
        assert certified(found.functional, found.theta, exp, settings, exp.stages[-1]).passed
        assert not any(program._begun for program in PROGRAMS)


def test_one_core_compiles_nothing_ahead(two_stages):
    with ahead.compiling_ahead(*two_stages, None):
        assert not any(program._begun for program in PROGRAMS)
