"""Tracks of cells on a sphere."""

import h5py
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.importers.recording import write_recording
from pdefit.data.importers.tracks import tracks

# in um and rad/min; frames are half a minute apart
CENTRE, RADIUS, TURN, NOISE, STEP = np.array([300.0, -120.0, 450.0]), 210.0, np.array([0.006, -0.004, 0.01]), 0.4, 0.5


def _turned(n: np.ndarray, t: float) -> np.ndarray:
    rate = np.linalg.norm(TURN)
    k, a = TURN / rate, rate * t
    return n * np.cos(a) + np.cross(k, n) * np.sin(a) + np.outer(n @ k, k) * (1 - np.cos(a))


def _csv(path, frames=5, cells=4000, outliers=0.01):
    """Tracks of a rigid rotation on a cap around x with 40 % of the sphere."""
    rng = np.random.default_rng(0)
    x, a = rng.uniform(0.2, 1, cells), rng.uniform(0, 2 * np.pi, cells)
    n = np.stack([x, np.sqrt(1 - x**2) * np.cos(a), np.sqrt(1 - x**2) * np.sin(a)], axis=1)
    lines = ["frame,track,x,y,z"]
    for frame in range(frames):
        p = CENTRE + RADIUS * _turned(n, STEP * frame) + rng.normal(0, NOISE, n.shape)
        # wrong positions, above and below the sphere
        p[rng.uniform(size=cells) < outliers, 0] += 60
        lines += [f"{frame},{i},{q[0]:.5f},{q[1]:.5f},{q[2]:.5f}" for i, q in enumerate(p)]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return _csv(tmp_path_factory.mktemp("tracks") / "tracks.csv")


SCALE = {"pixel": "1um", "frame": "30s"}


@pytest.mark.parametrize("pole", [None, "[1,2,0]"])
def test_a_rigid_rotation_on_a_displaced_sphere(table, tmp_path, pole):
    options = {"as": "sphere", "bins": "[18,36]", "least": "8"} | SCALE | ({} if pole is None else {"pole": pole})
    recording = tracks([table], options)
    write_recording(tmp_path / "a.h5", recording)
    with h5py.File(tmp_path / "a.h5") as file:
        found = {name: stored[()] for name, stored in file.items()}
        units = {name: stored.attrs["units"] for name, stored in file.items()}
        notes = file.attrs["import_notes"]
    assert units["theta"] == "rad" and units["time"] == "min" and units["radius"] == "um" and units["u_phi"] == "um/min"
    # 20,000 positions with an error of 0.4 um
    np.testing.assert_allclose(found["centre"], CENTRE, atol=0.05)
    np.testing.assert_allclose(found["radius"], RADIUS, atol=0.05)
    assert "positions are 0.39" in notes and "are left out, since they are too far" in notes
    np.testing.assert_allclose(found["time"], [0.25, 0.75, 1.25, 1.75])

    # the exact velocity in the frame of the file
    north = np.array([0, 0, 1.0]) if pole is None else np.array([1, 2, 0]) / np.sqrt(5)
    start = np.array([1.0, 0, 0]) - north * north[0]
    start /= np.linalg.norm(start)
    frame = np.stack([start, np.cross(north, start), north])
    theta, phi = np.meshgrid(found["theta"], found["phi"], indexing="ij")
    s, c = np.sin(theta), np.cos(theta)
    n = np.stack([s * np.cos(phi), s * np.sin(phi), c], -1)
    along = np.stack([c * np.cos(phi), c * np.sin(phi), -s], -1)
    v = RADIUS * np.cross(frame @ TURN, n)
    exact = {"u_theta": (v * along).sum(-1), "u_phi": (v * np.cross(n, along)).sum(-1)}
    seen = np.isfinite(found["u_phi"])
    assert 0.1 < seen.mean() < 0.4 and found["count"][seen].min() >= 8
    for name, wanted in exact.items():
        score = ((found[name] - wanted) / found[f"{name}_sigma"])[seen]
        assert 0.6 < np.sqrt(np.mean(score**2)) < 1.3 and np.abs(score).max() < 5, name
        # the mean error is no bias
        assert abs(score.mean()) < 0.2, name


def test_refused(table, tmp_path):
    with pytest.raises(PdefitError, match=r"bins=\[18,36\]"):
        tracks([table], {"as": "sphere", **SCALE})
    with pytest.raises(PdefitError, match="'pole'"):
        tracks([table], {"pole": "[0,0,1]", "bins": "[2,2]", **SCALE})
    rng, flat = np.random.default_rng(1), tmp_path / "flat.csv"
    rows = [f"{f},{i},{x},{y},{z}" for f in range(2) for i, (x, y, z) in enumerate(rng.uniform(0, 1, (300, 3)))]
    flat.write_text("\n".join(["frame,track,x,y,z", *rows]))
    with pytest.raises(PdefitError, match="lie on no sphere"):
        tracks([flat], {"as": "sphere", "bins": "[4,8]", **SCALE})
    flat.write_text("frame,track,x,y\n0,1,2,3\n1,1,2,3")
    with pytest.raises(PdefitError, match="no column z"):
        tracks([flat], {"as": "sphere", "bins": "[4,8]", **SCALE})
