"""pdefit import, from files of an instrument to a data file that check and a fit read."""

import shutil
from pathlib import Path

import h5py
import imageio.v3
import numpy as np
import pytest

from pdefit.data.readers.frames import Frames
from pdefit.data.readers.observations import read_all
from pdefit.data.readers.source import source_of

SAMPLES = Path(__file__).parents[2] / "data" / "importers" / "samples"


@pytest.fixture
def soap(tmp_path):
    """Two files of vectors, in the working directory."""
    return [shutil.copy(SAMPLES / name, tmp_path / name).name for name in ("soap1.vec", "soap2.vec")]


def test_an_import_says_what_it_wrote_and_check_repeats_its_notes(pdefit_inside, soap, tmp_path):
    code, out, err = pdefit_inside("import", "piv", *soap, "--out", "data.h5", "frame=2ms", "outliers=0.5")
    assert code == 0, err
    first, times, note, following = out.strip().splitlines()
    assert first == "data.h5: 2 frames of 6 x 5 points, u (m/s), v (m/s)"
    assert times.startswith("times 0 to 0.002 s; ") and following == "next: pdefit check data.h5"
    assert note.startswith("Of 60 vectors ") and note.endswith(" % were rejected as outliers.")
    assert f"import: {note}" in pdefit_inside("check", "data.h5", "picture=false")[1]
    with Frames(
        *source_of(tmp_path / "data.h5", {"u": "u"}, units={"u": "mm/s"}, time_unit="ms", dims=["x", "y"])
    ) as frames:
        observations, remarks = read_all(frames)
    assert remarks[0] == note and np.asarray(observations.values["u"])[0, 0, 4] == pytest.approx(47.43)
    with h5py.File(tmp_path / "data.h5") as file:
        assert file.attrs["source"] == "soap1.vec\nsoap2.vec"


def test_an_existing_file_is_kept_without_force(pdefit_inside, soap, tmp_path):
    (tmp_path / "data.h5").write_text("mine")
    words = ("import", "piv", *soap, "out=data.h5", "frame=2ms")
    code, _, err = pdefit_inside(*words)
    assert code == 1 and "'data.h5' exists" in err and (tmp_path / "data.h5").read_text() == "mine"
    assert pdefit_inside(*words, "force=true")[0] == 0
    # a file that is read is never replaced
    before = (tmp_path / "data.h5").read_bytes()
    code, _, err = pdefit_inside("import", "piv", "data.h5", "out=data.h5", "force=true")
    assert (
        code == 1
        and "'data.h5' is a file that the import reads" in err
        and (tmp_path / "data.h5").read_bytes() == before
    )


def test_a_mask_and_files_of_a_set_are_not_replaced(pdefit_inside, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 4, 5), "u1"))
    imageio.v3.imwrite(tmp_path / "mask.png", np.full((4, 5), 255, "u1"))
    before = (tmp_path / "mask.png").read_bytes()
    words = ("import", "film", "a.npy", "mask=mask.png", "out=mask.png", "force=true", "scale=unknown")
    code, _, err = pdefit_inside(*words)
    assert (
        code == 1
        and "'mask.png' is a file that the import reads" in err
        and (tmp_path / "mask.png").read_bytes() == before
    )


def test_a_table_with_the_name_of_an_address_is_a_file(pdefit_inside, tmp_path):
    (tmp_path / "http:a.csv").write_text("frame,track,x,y\n0,1,1,1\n1,1,2,2\n")
    code, out, err = pdefit_inside("import", "tracks", "http:a.csv", "out=a.h5", "as=positions", "scale=unknown")
    assert code == 0 and "1 frames of 1 points" in out, err
    (tmp_path / "http:b.csv").write_text("time,u\n0,1\n1,2\n2,4\n")
    assert pdefit_inside("check", "http:b.csv", "picture=false")[0] == 0
    (tmp_path / "http:c.csv").write_text("x,y,u,v\n0,0,1,1\n0,1,1,1\n1,0,1,1\n1,1,1,1\n")
    assert pdefit_inside("import", "piv", "http:c.csv", "out=c.h5", "scale=unknown")[0] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["cavity1.vec", "out=a.h5"], ["pixel=LENGTH", "frame=TIME", "scale=unknown"]),
        (["soap1.vec"], ["out=data.h5"]),
        (["soap1.vec", "out=none/a.h5", "frame=2ms"], ["there is no 'none'; make it"]),
        ([".", "out=a.h5"], ["'.' is a folder, where files are expected"]),
        (["none.vec", "out=a.h5"], ["'none.vec' does not exist"]),
        (["/dev/zero", "out=a.h5"], ["'/dev/zero' is a device or a pipe"]),
        (["soap1.vec", "out=a.csv", "frame=2ms"], ["out='a.csv' expects the name of an HDF5 file; write out=a.h5"]),
        (["soap1.vec", "out=a.h5", "frames=2ms"], ["did you mean frame"]),
        (["soap1.vec", "cavity1.vec", "out=a.h5", "frame=2ms", "pixel=20um"], ["another raster"]),
    ],
)
def test_what_is_refused_writes_nothing(words, told, pdefit_inside, soap, tmp_path):
    shutil.copy(SAMPLES / "cavity1.vec", tmp_path)
    before = sorted(tmp_path.iterdir())
    code, _, err = pdefit_inside("import", "piv", *words)
    assert code == 1 and len(err.strip().splitlines()) == 1 and all(word in err for word in told), err
    assert sorted(tmp_path.iterdir()) == before
