"""Two hundred damaged files of velocity fields: a recording or one sentence, and nothing half written."""

from pathlib import Path

import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.importers.piv import read_piv
from pdefit.data.importers.recording import write_recording

SAMPLES = Path(__file__).parent / "samples"
NAMES = ("openpiv_frame8.txt", "soap1.vec", "cavity1.vec", "pivpy_classic.nc", "pivlab.txt", "table.csv")
_TABLE = "\n".join(f"{x},{y},{x * y},{x + y},1" for x in (1, 2, 3) for y in (4, 5, 6)) + "\n"
_HEADS = {
    "pivlab.txt": "PIVlab, ASCII chart output\nFRAME: 1\nx [px],y [px],u [px/frame],v [px/frame],Vector type [-]\n",
    "table.csv": "x [mm],y [mm],u [m/s],v [m/s],t [s]\n",
}


def _damaged(raw: bytes, rng: np.random.Generator) -> bytes:
    """Cut, with other bytes, with lines exchanged or repeated, or with other numbers."""
    at, kind = int(rng.integers(len(raw))), int(rng.integers(5))
    lines = raw.split(b"\n")
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + rng.bytes(int(rng.integers(1, 9))) + raw[at + 4 :]
    if kind == 2:
        lines.insert(int(rng.integers(len(lines))), lines[int(rng.integers(len(lines)))])
    elif kind == 3:
        del lines[int(rng.integers(len(lines)))]
    else:
        word = rng.choice([b"nan", b"inf", b"1e400", b"-", b'"', b",,", b"9" * 400, b"\0"])
        return raw.replace(rng.choice([b"1", b"0", b",", b"\t", b"x", b"u"]), bytes(word), int(rng.integers(1, 4)))
    return b"\n".join(lines)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files(name, tmp_path):
    whole = (_HEADS[name] + _TABLE).encode() if name in _HEADS else (SAMPLES / name).read_bytes()
    file, out = tmp_path / name, tmp_path / "out.h5"
    read = 0
    for seed in range(34):
        file.write_bytes(_damaged(whole, np.random.default_rng(seed)))
        try:
            write_recording(out, read_piv([file], {"pixel": "20um", "frame": "2ms"}))
        except PdefitError as error:
            assert "\n" not in str(error).strip() and not out.exists(), f"{name} {seed}: {error}"
        else:
            read += 1
            out.unlink()
        assert list(tmp_path.iterdir()) == [file], f"{name} {seed}"
    assert read < 34
