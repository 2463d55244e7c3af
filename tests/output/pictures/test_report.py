"""report.html: well-formed, alone, and safe from what names and labels may hold."""

import base64
import dataclasses
import re
import shutil
from html.parser import HTMLParser

import browser
import films
import h5py
import numpy as np
import pytest
from rich.console import Console

import pdefit
from pdefit._util.atomic import write_json
from pdefit._util.errors import PdefitError
from pdefit.cli.run.pictures import run_export
from pdefit.output.pictures.figures import draw_all, draw_run_movie
from pdefit.output.pictures.report import estimate_and_interval, write_report
from pdefit.output.store.tables import ParameterRow, write_parameters
from pdefit.output.store.xdmf import write_xdmf

EVIL = '<script>alert("1")</script>&amp;'
_VOID = {"meta", "link", "img", "br", "source"}


class _Strict(HTMLParser):
    """Every tag that opens closes, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def _parsed(path) -> _Strict:
    parser = _Strict()
    parser.feed(path.read_text(encoding="utf-8"))
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A fit with everything a report shows, drawn once."""
    return _draw(tmp_path_factory.mktemp("drawn"))


@pytest.fixture
def run(drawn, tmp_path):
    """A copy of it."""
    return shutil.copytree(drawn, tmp_path / "run")


def _draw(folder, name="reaction/front", label="D"):
    films.write_film(folder / "fields.h5", {"u": films.LINE}, fitted=4)
    write_json(
        folder / "provenance.json",
        {
            "experiment": name, "command": ["pdefit", "fit", f"experiment={name}", "a b=1"], "started": "2026-01-01T00:00",
            "device": {"kind": "cpu", "count": 1}, "versions": {"python": "3.11", label: "1"}, "git_commit": "abc",
        },
    )  # fmt: skip
    row = ParameterRow(label, "mm^2/s", "log", 2.0, 1.0123456, 1.0, 0.0123456, 0.99, 1.03, 1.2, False)
    write_parameters(folder / "parameters.csv", [row])
    check = {"name": label, "error": 1e-9, "limit": 1e-6, "passed": True, "remedy": "", "note": "", "detail": {}}
    end = {"passed": True, "reason": "", "checks": [check], "scope": {"observations": 3, "of": 9}}
    write_json(folder / "certificate.json", {"start": end, "end": {**end, "passed": False}})
    write_json(
        folder / "plan.json",
        {"text": label, "unknowns": {label: 1, "y0.u": 128}, "evaluation": {"seconds": 1.5, "planned_bytes": 3e6}},
    )
    write_json(
        folder / "summary.json",
        {
            "experiment": name, "status": "done", "time_unit": "s", "verdict": "fitted to the noise", "verdict_reason": label,
            "loss_initial": 5.0, "loss_final": 1.0, "seconds": {"gradient": 1.25, "total": 9.0}, "sigma": {"u": [0.1]},
            "fit": {"values": 77, "chi2_per_value": 1.01, "whiteness": {"u": {"time": {"value": 0.1, "spread": 0.2}}}},
            "forecast": {"horizon": 2.0, "relative_l2_at_end": 0.01, "valid_time": 2.0, "unit": "",
                         "baseline": {"name": label, "relative_l2_at_end": 0.5}},
            "events": [label], "fields": {label: {}}, "intervals": {"method": label, "not_identifiable": [label]},
        },
    )  # fmt: skip
    (folder / "DONE").write_text("now")
    (folder / ".hydra").mkdir(exist_ok=True)
    (folder / ".hydra" / "config.yaml").write_text(f"seed: 0\nlabel: '{label}'\n", encoding="utf-8")
    draw_all(folder)
    draw_run_movie(folder)
    return folder


def test_a_report_is_one_page_that_needs_nothing_else(run):
    path = write_report(run)
    page, parsed = path.read_text(encoding="utf-8"), _parsed(path)
    assert not re.search(r"https?://|src=\"(?!data:)|@import|url\(", page)
    images = [attributes for tag, attributes in parsed.tags if tag == "img"]
    assert len(images) == 3 and all(len(a.get("alt", "")) > 20 for a in images)
    (video,) = [a for tag, a in parsed.tags if tag == "video"]
    assert video["aria-label"] and "controls" in video
    text = " ".join(parsed.text)
    for expected in (
        "fitted to the noise", "reaction/front", "77 observed values of u: D, y0.u (128 unknowns).", "1.012",
        "0.99 to 1.03", "+1.2 %", "passed", "failed", "1.25", "pdefit fit experiment=reaction/front 'a b=1'",
        "6 of 6 frames", "seed: 0", "not there",
    ):  # fmt: skip
        assert (expected in text) == (expected != "not there"), expected
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page


def test_intervals_that_are_not_to_be_trusted_stand_in_brackets(run):
    trusted, doubted = (
        ParameterRow(name, "1", "log", 2.0, 1.0, 1.0, 0.0, 0.99, 1.03, 0.0, False, shift, shift > 0)
        for name, shift in (("D", 0.1), ("r", -3.0))
    )
    write_parameters(run / "parameters.csv", [trusted, doubted])
    text = _parsed(write_report(run)).text
    assert "0.99 to 1.03" in text and "(0.99 to 1.03)" in text and "-3" in text
    assert sum("Intervals in brackets are not to be trusted: the discretisation" in part for part in text) == 1


def test_a_function_of_time_is_one_line(run):
    row = ParameterRow("D", "mm^2/s", "log", 2.0, 1.0, None, None, 0.9, 1.1, None, False)
    many = [dataclasses.replace(row, control=f"q.{i}", estimate=0.5 * i, part_of="q") for i in range(31)]
    write_parameters(run / "parameters.csv", [row, *many])
    text = _parsed(write_report(run)).text
    assert "q (31)" in text and "0 to 15" in text and "in parameters.csv" in text and "q.3" not in text
    assert "0 to 15" in pdefit.load_run(run)._repr_html_()


def test_names_and_labels_are_text(tmp_path):
    parsed = _parsed(write_report(_draw(tmp_path, EVIL, EVIL)))
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert sum(EVIL in text for text in parsed.text) > 8


def test_a_large_movie_lies_beside_the_page(run):
    parsed = _parsed(write_report(run, largest_movie=100))
    assert "video" not in {tag for tag, _ in parsed.tags}
    assert ("a", {"href": "movie.mp4"}) in parsed.tags


@pytest.mark.parametrize("files", [(), ("provenance.json",), ("fields.h5",), ("summary.json",), ("parameters.csv",)])
def test_what_is_missing_is_told(drawn, tmp_path, files):
    for name in files:
        shutil.copy(drawn / name, tmp_path / name)
    draw_all(tmp_path)
    text = " ".join(_parsed(write_report(tmp_path)).text)
    assert "Not there:" in text and ("killed" in text or "done" in text)
    assert all(name not in text.partition("Not there:")[2].partition(".  ")[0][:60] for name in files) or files


def test_damaged_files_do_not_stop_a_report(run):
    for name in ("fields.h5", "summary.json", "parameters.csv", "certificate.json", "history.h5", "plan.json"):
        (run / name).write_bytes(b"\xff\x00 damaged")
    notes = draw_all(run).notes
    assert len(notes) >= 2 and not any("\n" in note for note in notes)
    _parsed(write_report(run))


def test_links_that_lead_out_of_a_run_are_named_and_not_followed(run, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("SECRET,b\nroot:x:0:0\n")
    hidden = base64.b64encode(secret.read_bytes()).decode()
    for name in ("figures/passwd.png", "figures/fields.png", "movie.mp4", "summary.json", "parameters.csv", "FAILED"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(secret)
    (run / ".hydra" / "config.yaml").unlink()
    (run / ".hydra" / "config.yaml").symlink_to("../../secret")
    (run / "movie.gif").symlink_to("movie.gif")
    # a link that stays inside is as good as the file, and `fields` is drawn anew in place of the link
    (run / "figures" / "again.png").symlink_to("traces.png")
    notes = " ".join(draw_all(run).notes)
    text = write_report(run).read_text(encoding="utf-8")
    assert "SECRET" not in text and hidden not in text
    for name in (
        ".hydra/config.yaml",
        "figures/passwd.png",
        "movie.gif",
        "movie.mp4",
        "parameters.csv",
        "summary.json",
    ):
        assert name in text.partition("Links that lead out of the run, or pipes, which are not read:")[2][:400]
        assert f"{name} is a link that leads out of the run" in notes
    assert text.count("<img") == 4 and secret.read_text().startswith("SECRET")


def test_a_run_is_not_written_through_links(run, tmp_path):
    other = tmp_path / "other"
    (other / "fields.png").parent.mkdir()
    (other / "kept").write_text("mine")
    shutil.rmtree(run / "figures")
    (run / "figures").symlink_to(other)
    (run / "export").symlink_to(other)
    (run / ".report.partial.html").symlink_to(other / "kept")
    with pytest.raises(PdefitError, match="figures' is a link that leads out of its run"):
        draw_all(run)
    with pytest.raises(PdefitError, match="export' is a link that leads out of its run"):
        run_export([str(run)], Console(quiet=True))
    write_report(run)
    assert [p.name for p in other.iterdir()] == ["kept"] and (other / "kept").read_text() == "mine"


def _elsewhere(folder):
    with h5py.File(folder / "other.h5", "w") as file:
        file["u_predicted"] = np.full((6, 24), 3.0)
    return folder / "other.h5"


def _by_link(file, other):
    file["u_predicted"] = h5py.ExternalLink(str(other), "u_predicted")


def _by_raw_bytes(file, other):
    file.create_dataset("u_predicted", (6, 24), "f8", external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def _by_virtual_values(file, other):
    layout = h5py.VirtualLayout((6, 24), "f8")
    layout[:] = h5py.VirtualSource(str(other), "u_predicted", (6, 24))
    file.create_virtual_dataset("u_predicted", layout)


@pytest.mark.parametrize("take", [_by_link, _by_raw_bytes, _by_virtual_values, "file"])
def test_fields_from_another_file_are_refused(run, tmp_path, take):
    other = _elsewhere(tmp_path)
    if isinstance(take, str):
        (run / "fields.h5").rename(tmp_path / "fields.h5")
        (run / "fields.h5").symlink_to("../fields.h5")
    else:
        with h5py.File(run / "fields.h5", "r+") as file:
            del file["u_predicted"]
            take(file, other)
    refused = "takes its values from other files|is a link; name the variable|is a link that leads out of its run"
    with pytest.raises(PdefitError, match=refused):
        run_export([str(run)], Console(quiet=True))
    if not isinstance(take, str):
        assert re.search(refused, " ".join(draw_all(run).notes))
        with pytest.raises(PdefitError, match=refused):
            write_xdmf(run / "fields.h5")
    assert re.search(refused, write_report(run).read_text(encoding="utf-8"))
    # the same in a history
    history = run / "history.h5"
    with h5py.File(history, "w") as file:
        file["n_done"] = h5py.ExternalLink(str(other), "u_predicted")
    assert "'n_done' in" in " ".join(draw_all(run).notes)


def test_odd_contents_do_not_stop_a_report(run):
    write_json(run / "summary.json", {"forecast": None, "fit": None, "seconds": None, "sigma": None, "verdict": None})
    write_json(run / "certificate.json", {"start": None, "end": 3})
    write_json(run / "provenance.json", {"command": [], "device": None, "versions": None})
    _parsed(write_report(run))


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_report(tmp_path, width, scheme):
    path = write_report(_draw(tmp_path, name="a-name-without-any-space-" * 6, label=EVIL + "x" * 90))
    with browser.opened() as chromium:
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        page.wait_for_function("document.querySelector('video').readyState >= 1")
        assert said == [] and asked == [path.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (np.mean([int(n) for n in re.findall(r"\d+", paper)[:3]]) < 60) == (scheme == "dark")


@pytest.mark.parametrize(("trusted", "told"), [(None, ""), (True, "not determined")])
def test_an_interval_without_an_upper_end_is_told(trusted, told):
    row = ParameterRow("D", "1", "log", 2.0, 1.0, None, None, 0.0, None, None, False, None, trusted)
    assert estimate_and_interval(row) == ("1", told)
