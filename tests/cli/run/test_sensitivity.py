"""pdefit sensitivity."""

import csv
import io
import json
import struct

import pytest
from matplotlib import image
from rich.console import Console

from pdefit._util.atomic import plain
from pdefit.analysis.sensitivity import Effect, Sensitivity
from pdefit.cli.run.studies import show_effects
from pdefit.cli.runtime.terminal import RunsProgress
from pdefit.output.pictures.studies import SENSITIVITY

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[80]", "times.count=13")
EFFECTS = [
    Effect("edge", "1", 1.0, float("inf"), 0.0),
    Effect("D", "cm^2/ms", 1e-3, 0.2, 0.3),
    Effect("slow", "1/ms", 2.0, 1e-4, 1e-5),
    Effect("idle", "mV", 3.0, 0.0, 0.0),
    Effect("drive", "1", 0.0, None, None, "zero"),
]


def test_the_command_ranks_and_draws(pdefit_inside, tmp_path):
    folder = tmp_path / "run"
    # the growth rate is known, the truth is not the guess
    code, out, err = pdefit_inside(
        "sensitivity", *FRONT, "~controls.r", "controls.D.guess=3.0", f"hydra.run.dir={folder}"
    )
    assert code == 0, err
    found = json.loads((folder / "sensitivity.json").read_text())
    assert (found["factor"], found["at"], found["frames"]) == (1.5, "truth", 7)
    first, second = found["parameters"]
    assert [first["parameter"], second["parameter"]] == ["r", "D"]
    assert (first["rank"], first["control"], second["control"], second["value"]) == (1, False, True, 1.0)
    assert first["effect_larger"] > second["effect_larger"] > 0.005 and not first["blows_up"]
    with open(folder / "sensitivity.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(r["effect_smaller"]) for r in table] == [r["effect_smaller"] for r in found["parameters"]]
    words = " ".join(out.split())
    assert "around the truth, over 7 frames from 0 to 6 s" in words and "1.5" in words and "mm^2/s" in words
    picture = folder / "figures" / "sensitivity.png"
    assert struct.unpack(">II", picture.read_bytes()[16:24])[0] == 7 * 160
    assert (folder / "DONE").exists()


def test_a_system_without_scalar_parameters_is_refused(pdefit_inside, tmp_path):
    code, _, err = pdefit_inside(
        "sensitivity", "experiment=particles/solar_system", f"hydra.run.dir={tmp_path / 'run'}"
    )
    assert code == 1 and "no parameter that is one nonzero number (gm: an array of 9 values)" in " ".join(err.split())


@pytest.mark.parametrize("effects", [EFFECTS, EFFECTS[1:2], EFFECTS[3:4], EFFECTS[:1]])
def test_unusual_effects_are_drawn_and_tabulated(tmp_path, effects):
    found = Sensitivity(tuple(effects), 1.5, 7, ("D",))
    SENSITIVITY.write(tmp_path / "sensitivity.png", plain(found.record()))
    assert image.imread(tmp_path / "sensitivity.png")[..., :3].std() > 0.02
    console = Console(file=io.StringIO(), width=80)
    show_effects(found, console)
    assert isinstance(console.file, io.StringIO)
    told = console.file.getvalue()
    assert ("blows up" in told) == (effects[0].parameter == "edge") and "drive" not in told
    assert [r["blows_up"] for r in found.rows()] == [e.parameter == "edge" for e in effects]


def test_progress_on_a_terminal_and_elsewhere(capsys):
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        with RunsProgress(console, every=0.0) as bar:
            for k in range(3):
                bar(k, 3, f"p{k}")
        assert isinstance(console.file, io.StringIO)
        assert ("p2" in console.file.getvalue()) == terminal
    assert "2/3  p2" in capsys.readouterr().err
