"""How many segments run at once, as a configuration says it."""

import json
from pathlib import Path

import numpy as np
import pytest

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.experiment.build import build_experiment

PLANETS = "experiment=particles/solar_system"


def test_every_batch_composes_and_gives_the_same_answer(compose):
    found = {b: build_experiment(compose(PLANETS, "times.fit_until=1200", *b.split())).functional for b in (
        "batch=vmap", "batch=loop", "batch=chunk batch.size=3")}  # fmt: skip
    assert [type(f.runner.batch) for f in found.values()] == [
        pdefit.batches.Vmap,
        pdefit.batches.Loop,
        pdefit.batches.Chunk,
    ]
    values = [float(f.value(f.theta0)) for f in found.values()]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    with pytest.raises(PdefitError, match="batch"):
        build_experiment(compose(PLANETS, "batch=chunk", "batch.size=0"))


def test_a_fit_with_one_segment_after_the_other(pdefit_command, tmp_path):
    code, _, err = pdefit_command(
        "fit", PLANETS, "batch=loop", "times.fit_until=1200", "times.stop=1400", "max_iterations=4"
    )
    assert code == 0 and "Traceback" not in err, err
    (done,) = Path(tmp_path).rglob("DONE")
    summary = json.loads((done.parent / "summary.json").read_text())
    assert summary["loss_final"] < summary["loss_initial"]
