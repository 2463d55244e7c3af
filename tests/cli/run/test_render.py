"""render, report, export: of one run, of many, of one that was killed; and what a fit or a simulation leaves."""

import json
import shutil

import films
import imageio.v3
import pytest

FIGURES = {"convergence.png", "fields.png", "forecast.png", "parameters.png", "residuals.png", "traces.png"}


def test_a_fit_ends_with_its_pictures(fitted, pdefit_inside, tmp_path):
    run = shutil.copytree(fitted.run, tmp_path / "run")
    assert {p.name for p in (run / "figures").iterdir()} == FIGURES
    assert imageio.v3.improps(run / "movie.mp4", plugin="pyav").n_images == 13 and (run / "fields.xdmf").exists()
    assert "data:video/mp4" in (run / "report.html").read_text()
    assert json.loads((run / "summary.json").read_text())["seconds"]["pictures"] > 0
    for name in ("movie.mp4", "report.html", "figures", "fields.xdmf", "summary.json", "DONE"):
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # as after a kill at the end: everything else is drawn, and what is missing is told
    code, out, err = pdefit_inside("render", "run", "format=svg", "movie=false")
    assert code == 0 and "not there: summary.json" in out and "Traceback" not in out + err
    assert {p.stem for p in (run / "figures").iterdir()} == {n[:-4] for n in FIGURES}
    assert not (run / "movie.mp4").exists() and (run / "fields.xdmf").exists()
    code, out, _ = pdefit_inside("report", "run")
    assert code == 0 and "Not there: summary.json" in (run / "report.html").read_text()


@pytest.mark.parametrize("render", ["true", "false"])
def test_a_simulation_has_pictures_if_wanted(pdefit_inside, tmp_path, render):
    arguments = ("times.count=5", f"render={render}", "hydra.run.dir=run")
    code, _, err = pdefit_inside("simulate", "experiment=reaction/fisher_front", "times.stop=1.0", *arguments)
    assert code == 0, err
    run = tmp_path / "run"
    assert (run / "fields.xdmf").exists()
    drawn = {"figures", "movie.mp4", "report.html"} & {p.name for p in run.iterdir()}
    assert len(drawn) == (3 if render == "true" else 0)


def test_render_must_be_true_or_false(pdefit_inside):
    code, _, err = pdefit_inside("fit", "experiment=reaction/fisher_front", "render=maybe")
    assert code == 1 and "render expects true or false, but got 'maybe'" in " ".join(err.split())


def test_a_folder_of_runs_goes_on_past_a_bad_one(pdefit_inside, tmp_path):
    for job in (0, 1, 2):
        films.write_run(tmp_path / "sweep" / str(job), {"u": films.LINE})
    (tmp_path / "sweep" / "1" / "fields.h5").write_bytes(b"damaged")
    code, out, err = pdefit_inside("render", "sweep", "movie=false")
    lines = [line for line in out.splitlines() if line.startswith("sweep")]
    assert code == 0 and len(lines) == 3 and "no fields: 'sweep/1/fields.h5' is not an HDF5 file" in out
    assert (tmp_path / "sweep" / "2" / "figures" / "fields.png").exists()
    code, out, err = pdefit_inside("export", "sweep", "format=numpy")
    assert code == 1 and "1 of 3 runs could not be shown" in " ".join(err.split())
    assert (tmp_path / "sweep" / "2" / "export" / "fields.npz").exists()
    assert "Traceback" not in out + err
    code, out, _ = pdefit_inside("report", "sweep")
    assert code == 0 and len(list((tmp_path / "sweep").glob("*/report.html"))) == 3


def test_a_run_that_still_writes_is_shown(pdefit_inside, tmp_path):
    films.write_run(tmp_path / "run", {"u": films.PLANE}, frames=3, total=50, fitted=40)
    (tmp_path / "run" / "summary.json").unlink()
    code, out, err = pdefit_inside("report", "run")
    assert code == 0 and "not there: summary.json" in out and err == ""
    assert imageio.v3.improps(tmp_path / "run" / "movie.mp4", plugin="pyav").n_images == 3
    assert "3 of 50 frames" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("render",), "render expects the directory of a run"),
        (("report", "nowhere"), "'nowhere' is no directory"),
        (("render", "run", "format=gif"), "No format is called 'gif'"),
        (("render", "run", "movie=perhaps"), "movie expects true or false"),
        (("render", "run", "fast"), "'fast' is not of the form key=value"),
        (("render", "run", "size=3"), "No key of render is called 'size'"),
        (("export", "run", "format=matlab"), "No format is called 'matlab'"),
        (("export", "run", "fields=[w]"), "No field is called 'w'"),
    ],
)
def test_mistakes_are_one_sentence(pdefit_inside, tmp_path, arguments, said):
    films.write_run(tmp_path / "run", {"u": films.LINE})
    code, out, err = pdefit_inside(*arguments)
    assert code == 1 and said in " ".join((out + err).split()) and "Traceback" not in out + err
