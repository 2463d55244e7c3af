"""The section `stages`, and what it means for the plan of a fit."""

import json

import pytest

from pdefit._util.errors import PdefitError
from pdefit.cli.config.catalogue import shipped
from pdefit.cli.config.stages import read_stages
from pdefit.inverse.optimizers.collocation import Collocation
from pdefit.inverse.optimizers.lbfgs import LBFGS
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.shooting.formulation import Segments, Single

DEFAULT = {"main": {"optimizer": {"name": "auto"}, "max_iterations": None}}
NEAR = {"optimizer": "lbfgs", "max_iterations": 3}


def test_stages_with_names_take_the_place_of_the_default():
    found = read_stages({**DEFAULT, "near": NEAR, "whole": {"optimizer": {"name": "lbfgs"}}})
    assert [s.max_iterations for s in found.stages] == [3, 100] and not found.open
    assert all(isinstance(s.optimizer, LBFGS) for s in found.stages)
    assert read_stages(DEFAULT).open and read_stages({"main": {"optimizer": "auto"}}).open


def test_a_default_that_was_changed_stays():
    found = read_stages({"main": {"optimizer": {"name": "auto"}, "max_iterations": 7}, "near": NEAR})
    assert [s.max_iterations for s in found.stages] == [7, 3]
    with pytest.raises(PdefitError, match="auto, which takes no arguments; remove tolerance"):
        read_stages({"main": {"optimizer": {"name": "auto", "tolerance": 1.0}}})


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({**DEFAULT, "mian": {"window": 1}}, "No stage .* 'mian'; did you mean main.*stages.mian.optimizer="),
        ({"main": "lbfgs"}, "stages.main expects a mapping .* e.g. {optimizer: lbfgs}, but got 'lbfgs'"),
    ],
)
def test_a_stage_without_an_optimizer_is_one_sentence(node, said):
    with pytest.raises(PdefitError, match=said):
        read_stages(node)


def test_the_plan_sees_all_stages(pdefit_inside, tmp_path):
    front = ("experiment=reaction/fisher_front", "twin=self", "times.count=9", "times.stop=2.0", "times.fit_until=null")
    stages = (
        "stages={big: {optimizer: lbfgs, max_iterations: 5}, last: {optimizer: levenberg_marquardt, max_iterations: 2}}"
    )
    words = ("plan", *front, "system.grid.shape=[80]", "adjoint=store_all", stages, f"hydra.run.dir={tmp_path / 'run'}")
    code, out, err = pdefit_inside(*words)
    assert code == 0, err
    found = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert found["most_evaluations"] == 7 and found["evaluation"]["schedule"] == "2 tangents"
    assert found["largest_bytes"] > found["evaluation"]["planned_bytes"]
    assert "memory of the largest stage" in out and found["text"].partition("; stage 1 of 2 takes ")[2]


@pytest.mark.parametrize("optimizer", ["lbfgs", "levenberg_marquardt", "gauss_newton_cg", "adam", "collocation"])
def test_the_whole_record_is_a_word(optimizer):
    near, whole = read_stages(
        {"near": {**NEAR, "window": 2}, "whole": {"optimizer": optimizer, "window": "whole"}}
    ).stages
    assert near.formulation == Segments(2.0) and whole.formulation == Single()
    held = read_stages({"near": {**NEAR, "window": "whole", "held": True}, "whole": NEAR}).stages[0]
    assert held.formulation == Single(held=True)


def test_collocation_is_followed_by_the_whole_record():
    near, whole = read_stages(shipped("stages/collocation.yaml")).stages
    assert near.optimizer.tangents and isinstance(near.optimizer, Collocation)
    assert isinstance(whole.optimizer, LevenbergMarquardt) and near.formulation is whole.formulation is None
    given = {"near": {"optimizer": {"name": "collocation", "pieces": 0}}, "whole": {"optimizer": "lbfgs"}}
    with pytest.raises(PdefitError, match="stages.near.optimizer.*pieces expects a whole number >= 1"):
        read_stages(given)
