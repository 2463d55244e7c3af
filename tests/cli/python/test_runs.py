"""Runs that are loaded in Python."""

import json
import shutil
from pathlib import Path

import h5py
import jax
import numpy as np
import pandas
import pytest
import xarray
from films import LINE, PLANE, write_film, write_run

import pdefit
from pdefit.analysis.goodness.verdict import STOPPED
from pdefit.cli.run.recorded import origin, same_problem
from pdefit.inverse.objective.compiled import VALUE
from pdefit.output.store.fit_checkpoint import load_state, save_state
from pdefit.output.store.summary import Summary


@pytest.fixture
def copied(fitted, tmp_path) -> Path:
    """A run to be damaged."""
    return shutil.copytree(fitted.run, tmp_path / "run")


def test_tables_of_a_run(fitted):
    run = pdefit.load_run(str(fitted.run))
    table = pandas.read_csv(fitted.run / "parameters.csv", index_col="control")
    pandas.testing.assert_frame_equal(
        run.parameters.drop(columns="interval_trusted"), table.drop(columns="interval_trusted")
    )
    assert run.summary == json.loads((fitted.run / "summary.json").read_text())
    same = run.derived.loc[["rate"]].rename(index={"rate": "r"}).assign(part_of="r")
    pandas.testing.assert_frame_equal(same, run.parameters.loc[["r"]], rtol=1e-11)
    assert run.derived.estimate["speed"] == pytest.approx(2 * np.sqrt(run.parameters.estimate.prod()), rel=1e-14)
    assert run.summary["derived"]["speed"]["formula"] == "2 * sqrt(D * r)"
    assert " speed " in fitted.out and "speed" in run._repr_html_()
    assert "Derived: speed = 2 * sqrt(D * r), rate = r." in (fitted.run / "report.html").read_text()
    assert (run.verdict.word, run.state) == (STOPPED, "done")
    assert list(run.history.index) == [1, 2, 3]
    with h5py.File(fitted.run / "history.h5") as file:
        np.testing.assert_array_equal(run.history[["D", "r"]], file["control"][...])
        np.testing.assert_array_equal(run.history.loss, file["loss"][...])
    assert run.figures["fields"] == fitted.run / "figures" / "fields.png"
    assert all(path.is_file() for path in run.figures.values())


def test_fields_are_those_that_xarray_reads(fitted):
    run = pdefit.load_run(fitted.run)
    expected = xarray.load_dataset(fitted.run / "fields.h5", engine="h5netcdf")
    assert {"u_observed", "u_predicted", "u_true"} == set(run.fields.data_vars)
    for name, values in run.fields.items():
        np.testing.assert_array_equal(values, expected[name])
        assert values.dtype == expected[name].dtype and values.attrs == expected[name].attrs
        np.testing.assert_array_equal(values[2:9:3, [5, 1]], expected[name][2:9:3, [5, 1]])
        np.testing.assert_array_equal(
            values.sel(time=6.2, method="nearest"), expected[name].sel(time=6.2, method="nearest")
        )
    np.testing.assert_array_equal(run.fields.phase, expected.phase)
    assert run.fields.x.attrs["units"] == "mm"


def test_a_file_that_xarray_holds_is_read_all_the_same(fitted):
    with xarray.open_dataset(fitted.run / "fields.h5", engine="h5netcdf") as held:
        np.testing.assert_array_equal(pdefit.load_run(fitted.run).fields.u_true, held.u_true)


def test_the_problem_is_that_of_the_estimate(fitted):
    run = pdefit.load_run(fitted.run)
    found = [float(run.problem.system.D), float(run.problem.system.r)]
    np.testing.assert_allclose(found, run.parameters.loc[["D", "r"], "estimate"], rtol=1e-12)


def test_the_problem_needs_the_equations_and_data_of_the_run(copied):
    config = copied / ".hydra" / "config.yaml"
    config.write_text(config.read_text().replace("count: 13", "count: 25"))
    with pytest.raises(pdefit.PdefitError, match="times.count"):
        _ = pdefit.load_run(copied).problem
    # a configuration that was changed together with the checkpoint, on a machine with other flags
    before, now = {"flags": "a", "data": "a", "equations": "b"}, {"flags": "a", "data": "b", "equations": "b"}
    with pytest.raises(pdefit.PdefitError, match="The data are not those of"):
        same_problem(before, now, copied, same_loss=lambda: True)


def test_the_refusal_of_a_run_of_another_state_of_pdefit_says_so(copied):
    before, now = ({"flags": "a", "data": "a", "equations": x, "pdefit": x} for x in "ab")
    told = "another state of pdefit wrote this run: start again in a new folder; its estimate stays readable"
    with pytest.raises(pdefit.PdefitError, match=f"The equations are not those of .*; {told}"):
        same_problem(before, now, copied)
    # where the loss is known it decides
    same_problem(before, now, copied, same_loss=lambda: True)
    # a configuration of another layout
    saved, config = load_state(copied / "state"), copied / ".hydra" / "config.yaml"
    config.write_text(config.read_text() + "forgotten: 3\n")
    hashes = {**saved.origin["hashes"], "pdefit": "a"}
    for state, more in ((saved.origin["hashes"], ""), (hashes, f"; {told}")):
        save_state(copied / "state", saved._replace(origin={**saved.origin, "config": origin(copied), "hashes": state}))
        with pytest.raises(pdefit.PdefitError, match=f"forgotten.*{more}") as refused:
            _ = pdefit.load_run(copied).problem
        assert bool(more) == (told in str(refused.value))
    assert len(pdefit.load_run(copied).parameters) == 2


@pytest.mark.parametrize(("factor", "same"), [(1.0, True), (1.5, False)])
def test_with_other_flags_the_loss_decides(factor, same, fitted):
    run, exp = pdefit.load_run(fitted.run), pdefit.load_experiment("reaction/fisher_front", fitted.arguments[2:])
    loss = float(VALUE(exp.functional, exp.functional.theta0))
    run._files.__dict__["summary"] = Summary(loss_final=factor * loss)
    before, now = {"flags": "a", "data": "a", "equations": "b"}, {"flags": "b", "data": "b", "equations": "b"}
    if same:
        same_problem(before, now, fitted.run, same_loss=lambda: run._has_loss(loss))
    else:
        with pytest.raises(pdefit.PdefitError, match="The data are not those of"):
            same_problem(before, now, fitted.run, same_loss=lambda: run._has_loss(loss))


def test_single_precision_is_refused_with_the_remedy(fitted):
    run = pdefit.load_run(fitted.run)
    jax.config.update("jax_enable_x64", False)
    try:
        assert len(run.parameters) == 2
        with pytest.raises(pdefit.PdefitError, match="jax_enable_x64"):
            _ = run.problem
    finally:
        jax.config.update("jax_enable_x64", True)


def test_a_run_in_a_notebook(fitted):
    run = pdefit.load_run(fitted.run)
    shown = run._repr_html_()
    assert "not converged" in repr(run) and "reaction/fisher_front: not converged" in shown
    row = run.parameters.loc["D"]
    assert f"<td>D</td><td>mm^2/s</td><td>{row.estimate:.6g}</td>" in shown
    assert f"{row.ci95_low:.5g} to {row.ci95_high:.5g}" in shown
    assert shown.count("data:image/png;base64,") == 1


def test_names_in_a_run_from_elsewhere_are_text(copied):
    table = copied / "parameters.csv"
    table.write_text(table.read_text().replace("\nD,", "\n<script>alert(1)</script>,"))
    summary = json.loads((copied / "summary.json").read_text())
    (copied / "summary.json").write_text(json.dumps({**summary, "experiment": "<b>", "verdict_reason": "<i>"}))
    shown = pdefit.load_run(copied)._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "<b>" not in shown and "<i>" not in shown


def test_a_run_that_was_killed(copied):
    for name in ("summary.json", "parameters.csv", "DONE"):
        (copied / name).unlink()
    shutil.rmtree(copied / "figures")
    run = pdefit.load_run(copied)
    assert run.summary == {} and run.figures == {} and len(run.history) == 3
    assert run.parameters.empty and {"estimate", "unit"} <= set(run.parameters.columns)
    assert "killed" in repr(run) and "killed" in run._repr_html_()
    with pytest.raises(pdefit.PdefitError, match="has no verdict .*killed.*pdefit resume"):
        _ = run.verdict
    # the saved state is there
    assert float(run.problem.system.D) > 0
    shutil.rmtree(copied / "state")
    with pytest.raises(pdefit.PdefitError, match="no estimate yet .*; pdefit resume"):
        _ = pdefit.load_run(copied).problem


def test_fields_that_are_still_written(tmp_path):
    run = write_run(tmp_path / "run", {"heat": PLANE}, frames=3, total=9)
    fields = pdefit.load_run(run).fields
    assert fields.heat_true.shape == (3, 24, 17) and np.isfinite(fields.heat_true.values).all()


def test_a_simulation_estimates_nothing(tmp_path):
    run = pdefit.load_run(write_run(tmp_path / "run", {"voltage": LINE}))
    assert run.history.empty and run.parameters.empty
    with pytest.raises(pdefit.PdefitError, match="pdefit simulate, which estimates nothing"):
        _ = run.problem


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("fields.h5", lambda run: run.fields),
        ("history.h5", lambda run: run.history),
        ("parameters.csv", lambda run: run.parameters),
        ("state/state.h5", lambda run: run.problem),
        (".hydra/config.yaml", lambda run: run.problem),
    ],
)
@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n\0\0", b"control,unit\n\xff,\n"])
def test_damaged_files_are_one_sentence(name, use, content, copied):
    (copied / name).write_bytes(content)
    shutil.rmtree(copied / "state", ignore_errors=True) if name == ".hydra/config.yaml" else None
    (copied / "state" / "state_before.h5").unlink(missing_ok=True)
    run = pdefit.load_run(copied)
    # an empty table of parameters is one without rows
    if (name, content) == ("parameters.csv", b""):
        assert use(run).empty
        return
    with pytest.raises(pdefit.PdefitError):
        use(run)
    assert run._repr_html_()


def test_fields_that_are_damaged_later_are_one_sentence(copied):
    fields = pdefit.load_run(copied).fields
    (copied / "fields.h5").write_bytes(b"")
    with pytest.raises(pdefit.PdefitError, match="fields.h5"):
        _ = fields.u_true.values
    write_film(copied / "fields.h5", {"u": LINE}, frames=2)
    with pytest.raises(pdefit.PdefitError, match="'u_true' .* cannot be read"):
        _ = fields.u_true.values


def test_links_out_of_a_run_are_not_followed(copied, tmp_path):
    for name in ("fields.h5", "parameters.csv", "summary.json", "figures/fields.png"):
        shutil.move(copied / name, tmp_path / Path(name).name)
        (copied / name).symlink_to(tmp_path / Path(name).name)
    run = pdefit.load_run(copied)
    assert run.summary == {} and run.parameters.empty and "fields" not in run.figures
    with pytest.raises(pdefit.PdefitError, match="has no fields.h5"):
        _ = run.fields
    with pytest.raises(pdefit.PdefitError, match="links that lead out of it"):
        _ = run.problem


def test_a_folder_of_runs_names_them(tmp_path):
    for i in (0, 1, 10):
        write_run(tmp_path / "sweep" / str(i), {"voltage": LINE})
    with pytest.raises(pdefit.PdefitError, match=r"holds 3 runs; load one of them: 0, 1, 10, e.g. pdefit.load_run\("):
        pdefit.load_run(tmp_path / "sweep")
    assert pdefit.load_run(tmp_path / "sweep" / "10").directory.name == "10"
    with pytest.raises(pdefit.PdefitError, match="is no directory"):
        pdefit.load_run(tmp_path / "nothing")
