"""How many segments run at once, as a configuration says it."""

import json
from pathlib import Path

import numpy as np
import pytest

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.run.build import build_experiment
from pdefit.inverse.objective.compiled import VALUE

FRONT = (
    "experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13", "formulation=segments",
    "formulation.length=2.0",
)  # fmt: skip


def test_every_batch_composes_and_gives_the_same_answer(compose):
    found = {b: build_experiment(compose(*FRONT, *b.split())).functional for b in (
        "batch=vmap", "batch=loop", "batch=chunk batch.size=2")}  # fmt: skip
    assert [type(f.runner.batch) for f in found.values()] == [
        pdefit.batches.Vmap,
        pdefit.batches.Loop,
        pdefit.batches.Chunk,
    ]
    assert {f.layout.segments for f in found.values()} == {3}
    values = [float(VALUE(f, f.theta0)) for f in found.values()]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    with pytest.raises(PdefitError, match="batch"):
        build_experiment(compose(*FRONT, "batch=chunk", "batch.size=0"))


def test_a_fit_with_one_segment_after_the_other(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside("fit", *FRONT, "batch=loop", "max_iterations=2", "render=false")
    assert code == 0 and "Traceback" not in err, err
    (done,) = Path(tmp_path).rglob("DONE")
    summary = json.loads((done.parent / "summary.json").read_text())
    assert summary["loss_final"] < summary["loss_initial"]
