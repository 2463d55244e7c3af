"""Lists of points from a table of text, observed where they were measured."""

import h5py
import jax
import numpy as np
import pytest

import pdefit
from pdefit.cli.config.settings import Store
from pdefit.cli.run.fields import write_film
from pdefit.output.pictures.figures import draw_all

EXPERIMENT = """
# A front from scattered values.
system: {{name: reaction/fisher_kpp, D: 1.0, r: 1.0, front: -4.0,
  grid: {{shape: [160], extent: [{extent}], origin: [-{half}], length_unit: mm}}}}
data: {{path: {path}, variables: {{u: density}}, time: t, coordinates: {{x: place}}, sigma: {{u: 0.01}}}}
observe: {{name: at}}
controls: {{D: log, r: log}}
"""


def experiment(folder, extent=40.0):
    rng = np.random.default_rng(0)
    t, x = rng.choice([0.0, 0.5, 1.0], 30), rng.uniform(-12.0, 12.0, 30)
    # the exact front of the equation
    u = (1 + np.exp((x + 4.0 - 5 / np.sqrt(6) * t) / np.sqrt(6.0))) ** -2
    rows = "\n".join(f"{a},{b:.12g},{c:.12g}" for a, b, c in zip(t, x, u, strict=True))
    (folder / "points.csv").write_text(f"t,place,density\n{rows}\n")
    (folder / "front.yaml").write_text(EXPERIMENT.format(path=folder / "points.csv", extent=extent, half=extent / 2))
    return pdefit.load_experiment(folder / "front.yaml")


def test_points_of_a_table_are_seen_where_they_were_measured(tmp_path):
    """The exact front at 30 places and three times leaves residuals of the discretisation alone."""
    J = experiment(tmp_path).functional
    assert J.observed_values == 30 and J.observations.positions["u"].shape[0] == 3
    assert float(jax.jit(lambda theta: J.value(theta))(J.theta0)) < 1e-3


def test_components_on_faces_are_seen_at_points_that_move(tmp_path):
    """The coordinates of the file are those of both components, though each lies on faces of its own."""
    where = dict(zip("xy", np.random.default_rng(0).uniform(0.0, 8.0, (2, 3, 5)), strict=True))
    with h5py.File(tmp_path / "points.h5", "w") as file:
        for name, values in {"time": np.arange(3.0), "u": np.ones((3, 5)), "v": np.zeros((3, 5)), **where}.items():
            file[name] = values
    (tmp_path / "flow.yaml").write_text(
        f"""
# A flow from vectors at points.
system: {{name: flow/navier_stokes, grid: {{shape: [8, 8], extent: [8.0, 8.0], boundary: {{name: periodic}}}}, viscosity: 0.1}}
data: {{path: {tmp_path / "points.h5"}, variables: {{u: u, v: v}}, sigma: {{u: 0.1, v: 0.1}}}}
observe: {{name: at, fields: [u, v]}}
controls: {{viscosity: log}}
"""
    )
    positions = pdefit.load_experiment(tmp_path / "flow.yaml").source.record.positions
    for name in "uv":
        np.testing.assert_allclose(positions[name], np.stack([where["x"], where["y"]], axis=-1))


def test_points_outside_of_the_grid_are_refused(tmp_path):
    with pytest.raises(pdefit.PdefitError, match="in the box from -10 to 10, but a coordinate 0 is"):
        experiment(tmp_path, extent=20.0)


def test_a_film_and_its_figures_hold_points_as_they_were_measured(tmp_path):
    """Frames with fewer points than others have no value there, neither measured nor predicted."""
    exp = experiment(tmp_path)
    found = pdefit.Fit(exp.functional, exp.functional.theta0, 0.0, 0.0, [], 0, "done", True, {}, [])
    run = tmp_path / "run"
    run.mkdir()
    write_film(exp, found, Store(None, 1, "float64", 10**9), run / "fields.h5", "front")
    with h5py.File(run / "fields.h5") as film:
        data, there = (film[f"u_{kind}"][()] for kind in ("observed", "predicted"))
        assert film["u_state_predicted"].shape == (3, 160) and film["u_sigma"][0, 0] == 0.01
    mask = np.asarray(exp.source.record.mask["u"])
    np.testing.assert_array_equal(np.isfinite(there), mask)
    np.testing.assert_array_equal(data[mask], np.asarray(exp.source.record.values["u"])[mask])
    np.testing.assert_allclose(there[mask], data[mask], atol=1e-3)
    assert not [note for note in draw_all(run).notes if note.startswith("no ")]
