"""The figure of docs/cases/windows.md: gaps in a wake, the flow that fills them, and what was measured there.

    ./run python scripts/wake_picture.py [RUN]

Without a run the experiment flow/wake_gaps is fitted first, which takes some minutes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.colors import Normalize

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "cases" / "wake_gaps.png"
PANELS = ("vectors of the fit", "fitted flow", "vectors as measured")
# the second of three fields
FRAME = 1


def fitted(folder: str) -> Path:
    """Run directory of a fit of flow/wake_gaps, made in a folder."""
    command = ["pdefit", "fit", "experiment=flow/wake_gaps", f"hydra.run.dir={folder}/run", "render=false"]
    subprocess.run(command, cwd=folder, check=True)
    return Path(folder) / "run"


def corners(run: Path) -> xr.DataArray:
    """Speed of the fitted flow at the corners of cells inside the rim."""
    with xr.open_dataset(run / "fields.h5", engine="h5netcdf") as film:
        one = film.isel(time=FRAME).load()
    # a component on faces stands at a corner as the mean of two neighbours
    u, v = one["u_predicted"].rolling(y=2).mean()[:, 1:], one["v_predicted"].rolling(x=2).mean()[1:]
    x, y = np.asarray(one["x_face"]), np.asarray(one["y_face"])
    return xr.DataArray(np.hypot(u.values, v.values), dims=("x", "y"), coords={"x": x, "y": y})


def measured(name: str, like: xr.DataArray) -> xr.DataArray:
    """Speed of the vectors of a file at the points of `like`."""
    with xr.open_dataset(ROOT / "data" / "piv" / name, engine="h5netcdf") as file:
        one = file.isel(time=FRAME).load()
    return np.hypot(one["u"], one["v"]).sel(x=like.x, y=like.y, method="nearest", tolerance=1e-5)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        flow = corners(Path(sys.argv[1]) if len(sys.argv) > 1 else fitted(folder))
    given, whole = measured("wake_gaps.h5", flow), measured("wake.h5", flow)
    gaps = (np.isnan(given.values) & ~np.isnan(whole.values)).astype(float)
    # two vectors beside the wake are outliers
    scale = Normalize(0.0, float(np.nanpercentile(whole, 99.9)))
    figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.2), sharey=True, layout="constrained")
    for axis, title, one in zip(axes, PANELS, (given, flow, whole), strict=True):
        x, y = 100 * flow.x.values, 100 * flow.y.values
        shown = axis.pcolormesh(x, y, one.values.T, norm=scale, shading="nearest", rasterized=True)
        axis.contour(x, y, gaps.T, levels=[0.5], colors="white", linewidths=1.0)
        axis.set(title=title, xlabel="x (cm)", aspect="equal", facecolor="0.8")
    axes[0].set_ylabel("y (cm)")
    figure.colorbar(shown, ax=axes, label="speed (m/s)", shrink=0.8)
    figure.savefig(PICTURE, dpi=100)
    print(f"written to {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
