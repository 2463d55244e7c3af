"""The uncertainty of fields from the command line."""

import json

import numpy as np
import xarray

from pdefit.output.pictures._estimates import draw_posterior

FRONT = (
    "experiment=reaction/fisher_front",
    "twin=self",
    "system.grid.shape=[80]",
    "times.count=13",
    "max_iterations=2",
)
FIELD = (
    "~controls.D", "~controls.r", "+controls.y0={u: {transform: softplus, smoothing: {length: 3.0, amplitude: auto}}}",
    "certificate=end", "render=false", "times.fit_until=null",
)  # fmt: skip


def test_a_fit_leaves_its_posterior(pdefit_inside, tmp_path):
    run = tmp_path / "run"
    words = ("posterior={rank: 24, samples: 2}", f"hydra.run.dir={run}")
    code, out, err = pdefit_inside("fit", *FRONT, *FIELD, *words, "max_iterations=12")
    assert code == 0, err
    summary = json.loads((run / "summary.json").read_text())
    section = summary["posterior"]
    # the amplitude that the fit chose is told where it happens and in the end
    (chosen,) = (e for e in summary["events"] if "amplitude chosen by the data: y0.u from" in e)
    assert " ".join(chosen.split()) in " ".join(out.split())
    assert f"to {section['amplitudes']['y0.u']:.3g} (" in chosen
    assert section["products"] == 24 and len(section["eigenvalues"]) == 24
    assert section["eigenvalues"] == sorted(section["eigenvalues"], reverse=True)
    assert section["above_one"] == sum(x > 1 for x in section["eigenvalues"])
    inside = section["coverage_95"]["y0.u"]["field"]
    assert f"true values of y0.u within the 95 % interval: {inside:.1%} (field)" in " ".join(out.split())
    with xarray.open_dataset(run / "posterior.h5", engine="h5netcdf") as kept:
        found = {name: np.asarray(kept[f"u_{name}"])[0] for name in ("predicted", "true", "std", "prior", "sample2")}
        assert kept["u_std"].dims == ("time", "x")
    error = np.abs(found["predicted"] - found["true"])
    assert inside == np.mean(error <= 1.959964 * found["std"])
    assert np.all(found["std"] > 0) and np.all(found["prior"] > 0) and np.all(found["sample2"] > 0)
    with xarray.open_dataset(run / "spread.h5", engine="h5netcdf") as kept:
        assert kept["u_std"].shape == (13, 80) and np.all(kept["u_std"] > 0)
    draw_posterior(tmp_path / "posterior.png", run / "posterior.h5", section)
    assert (tmp_path / "posterior.png").stat().st_size > 20_000


def test_a_field_without_a_prior_is_refused_before_the_fit(pdefit_inside, tmp_path):
    code, out, err = pdefit_inside("fit", *FRONT, "posterior=10", f"hydra.run.dir={tmp_path / 'run'}")
    assert code == 1 and "posterior expects an unknown field with a prior" in " ".join(err.split())
    assert "stage 1" not in out
