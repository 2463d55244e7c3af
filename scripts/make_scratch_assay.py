"""The scratch assay of PC-3 cells as one file, from the published tables of counts.

    ./run python scripts/make_scratch_assay.py FOLDER

FOLDER has CellDensity_10.csv to CellDensity_20.csv: VandenHeuvel2022_PaperCode/data of
github.com/DanielVandH/EquationLearning.jl, commit 0a9cf0d6. Writes data/cells/scratch_assay.h5.
"""

import csv
import sys
from pathlib import Path

import h5py
import numpy as np

OUT = Path(__file__).parent.parent / "data" / "cells" / "scratch_assay.h5"
SEEDINGS, REPLICATES = (10, 12, 14, 16, 18, 20), (1, 2, 3)
# columns beside each other whose mean count tells the counting error of the middle one
_NEAR = 5


def main(folder: Path) -> None:
    wells, counts, densities = list[str](), list[np.ndarray](), list[np.ndarray]()
    times, x = np.zeros(0), np.zeros(0)
    for seeding in SEEDINGS:
        with open(folder / f"CellDensity_{seeding}.csv", newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        times, x = (np.unique([float(row[key]) for row in rows]) for key in ("Time", "Position"))
        assert [(float(r["Time"]), float(r["Position"])) for r in rows] == [(t, p) for t in times for p in x]
        for replicate in REPLICATES:
            wells.append(f"{seeding}k_{replicate}")
            columns = [[float(row[f"{key}{replicate}"]) for row in rows] for key in ("Num_Cells", "Dens")]
            counts.append(np.reshape(columns[0], (times.size, x.size)))
            # cells/um^2 to cells/mm^2
            densities.append(1e6 * np.reshape(columns[1], (times.size, x.size)))
    count, density = np.stack(counts), np.stack(densities)
    area = float(np.sum(count) / np.sum(density))
    # a count of Poisson's law varies by the root of its expectation, of which neighbours tell; an empty place may hold one cell
    padded = np.pad(count, [(0, 0), (0, 0), (_NEAR // 2, _NEAR // 2)], mode="edge")
    expected = np.mean(np.lib.stride_tricks.sliding_window_view(padded, _NEAR, axis=-1), axis=-1)
    sigma = np.sqrt(np.maximum(expected, 1.0)) / area
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(OUT, "w") as file:
        file.attrs.update(
            title="density of PC-3 prostate cancer cells across a scratch, six initial seedings, three wells of each",
            source="Jin et al., J. Theor. Biol. 390:136 (2016), doi:10.1016/j.jtbi.2015.10.040; tables of "
            "github.com/DanielVandH/EquationLearning.jl, commit 0a9cf0d6, VandenHeuvel2022_PaperCode/data",
            license="MIT, Copyright (c) 2022 Daniel VandenHeuvel and contributors",
            history="converted by scripts/make_scratch_assay.py of pdefit; sigma added, the counting error",
        )
        scales = {
            "well": file.create_dataset("well", data=wells, dtype=h5py.string_dtype()),
            "time": file.create_dataset("time", data=times),
            "x": file.create_dataset("x", data=x),
        }
        scales["time"].attrs.update(units="h", long_name="time since the first photograph")
        scales["x"].attrs.update(units="um", long_name="middle of a column across the scratch")
        for axis, scale in scales.items():
            scale.make_scale(axis)
        for name, values, unit, meaning in (
            ("density", density, "cells/mm^2", "cells of a column over its area"),
            ("sigma", sigma, "cells/mm^2", "counting error of the density, from the mean count of five columns"),
            ("count", count.astype(np.int16), "1", "cells in a column"),
        ):
            stored = file.create_dataset(name, data=values, compression="gzip", shuffle=True)
            stored.attrs.update(units=unit, long_name=meaning)
            for number, scale in enumerate(scales.values()):
                stored.dims[number].attach_scale(scale)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
