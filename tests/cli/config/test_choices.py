"""Groups and named objects of a configuration: another choice takes nothing from the former one."""

import pytest
from omegaconf import OmegaConf

from pdefit.cli.config.catalogue import shipped
from pdefit.cli.config.compose import apart, composed, register_experiment
from pdefit.cli.config.read import read_settings
from pdefit.optimizers import GaussNewtonCG
from pdefit.solvers import RKC

OWN = """
defaults:
  - /system: reaction/fisher_kpp
  - override /solver: rkc
  - override /twin: independent
  - override /starts: sobol
solver: {stages: 5}
adjoint: {name: checkpointed, levels: 3}
driver: {name: hosted, device: 2 GB}
formulation: {name: segments, length: 1.0, continuity: 0.1}
twin: {refine: 1, solver: {name: dopri8}, dt: 0.1, system: {D: 2.0}}
starts: {count: 40}
batch: loop
uncertainty: null
stages:
  near: {optimizer: {name: lbfgs, memory: 5}, max_iterations: 3}
  fit: {optimizer: {name: lbfgs, memory: 5}}
"""
CHILD = """
defaults:
  - /experiment/own
  - override /solver: rk4
  - override /twin: null
twin: null
stages:
  fit: {optimizer: {name: gauss_newton_cg, products: 9}}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The configuration that words compose of the experiments `own` and `child`."""
    with apart():
        for name, text in (("own", OWN), ("child", CHILD)):
            file = tmp_path_factory.mktemp("own") / f"{name}.yaml"
            file.write_text(text)
            register_experiment(file)
        yield lambda *words: OmegaConf.to_container(composed(words), resolve=False)


def test_what_nothing_takes_the_place_of_stays(own):
    found = own("experiment=own")
    assert found["solver"] == {"name": "rkc", "stages": 5} and found["starts"]["count"] == 40
    assert found["adjoint"] == {"name": "checkpointed", "levels": 3} and found["twin"]["dt"] == 0.1
    assert [*found["stages"]] == ["main", "near", "fit"]
    same = own("experiment=own", "solver=rkc", "adjoint=checkpointed", "twin=independent", "starts=sobol")
    assert same == found


def test_keys_of_a_group_go_with_its_choice(own):
    words = {
        "solver": "etdrk4", "adjoint": "interpolating", "driver": "traced", "formulation": "single", "twin": "self",
        "starts": "latin_hypercube", "stages": "levenberg_marquardt", "batch": "chunk", "uncertainty": "bootstrap",
    }  # fmt: skip
    found = own("experiment=own", *(f"{g}={c}" for g, c in words.items()), "starts.count=7", "twin.refine=3")
    expected = {group: shipped(f"{group}/{choice}.yaml") for group, choice in words.items()}
    expected["starts"]["count"], expected["twin"]["refine"] = 7, 3
    # the truth is the experiment's, whoever makes the twin
    expected["twin"]["system"] = {"D": 2.0}
    assert {group: found[group] for group in words} == expected


def test_keys_of_an_object_go_with_its_name(own):
    found = own(
        "experiment=own", "solver={order: null}", "stages.fit.optimizer.products=7",
        "stages.fit.optimizer={name: gauss_newton_cg}",
        "stages.near.optimizer.name=gradient_descent", "formulation.name=single", "twin.solver.name=euler", "twin=self",
        "adjoint.levels=4", "system.name=reaction/bistable", "system.D=3.0",
    )  # fmt: skip
    assert found["stages"]["fit"]["optimizer"] == {"name": "gauss_newton_cg", "products": 7}
    assert found["stages"]["near"] == {"optimizer": {"name": "gradient_descent"}, "max_iterations": 3}
    assert found["formulation"] == {"name": "single"} and found["twin"]["solver"] == {"name": "euler"}
    assert found["solver"] == {"name": "rkc", "stages": 5, "order": None} and found["adjoint"]["levels"] == 4
    assert found["system"] == {**own("experiment=own")["system"], "name": "reaction/bistable", "D": 3.0}


def test_an_experiment_replaces_what_the_one_before_chose(own):
    found = own("experiment=child")
    assert found["solver"] == {"name": "rk4"} and found["starts"]["count"] == 40 and found["twin"] is None
    assert found["stages"]["fit"]["optimizer"] == {"name": "gauss_newton_cg", "products": 9}


def test_settings_are_read_of_what_was_chosen(own):
    words = (
        "experiment=pathways/glycolysis",
        "twin=self",
        "solver=rkc",
        "stages.near.optimizer={name: gauss_newton_cg}",
    )
    settings = read_settings(composed(words))
    assert settings.twin is not None and isinstance(settings.twin.solver, RKC) and isinstance(settings.solver, RKC)
    assert isinstance(settings.stages.stages[0].optimizer, GaussNewtonCG)
