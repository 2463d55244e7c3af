"""The optical recordings of a paced canine ventricle as one file, from the texts of their authors.

    ./run python scripts/make_canine_traces.py FOLDER

FOLDER has `traces.txt`, `cycle_lengths.txt` and `phases.txt`: data/Nt_1200/target.txt, BCLs.txt and t0s.txt of
github.com/cmarcotte/fenkar_fittings, commit c292073e. Writes data/cardiac/canine_traces.h5.
"""

import sys
from pathlib import Path

import h5py
import numpy as np

OUT = Path(__file__).parent.parent / "data" / "cardiac" / "canine_traces.h5"
# samples of a trace, and the ms from the first to the end of the last
FRAMES, LENGTH = 1200, 2400.0
# the last decimal of a value
STEP = 1e-4


def main(folder: Path) -> None:
    voltage = np.loadtxt(folder / "traces.txt").reshape(-1, FRAMES)
    columns = {
        "cycle_length": (np.loadtxt(folder / "cycle_lengths.txt"), "time between stimuli"),
        "phase": (np.loadtxt(folder / "phases.txt"), "half a cycle before a stimulus, a guess"),
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(OUT, "w") as file:
        file.attrs.update(
            title="voltage of a paced canine ventricle by optical mapping, 31 cycle lengths, two traces of each",
            source="github.com/cmarcotte/fenkar_fittings, commit c292073e, data/Nt_1200",
            license="MIT, Copyright (c) 2022 Christopher Marcotte",
            history="converted by scripts/make_canine_traces.py of pdefit; values of four decimals, as integers",
        )
        names = [f"trace_{number:02}" for number in range(1, len(voltage) + 1)]
        file.create_dataset("trace", data=names, dtype=h5py.string_dtype())
        # the spacing that the authors' fits have
        file.create_dataset("time", data=np.linspace(0.0, LENGTH, FRAMES))
        file["time"].attrs.update(units="ms", long_name="time since the first sample")
        for axis in ("trace", "time"):
            file[axis].make_scale(axis)
        whole = np.round(voltage / STEP).astype(np.int16)
        assert np.allclose(whole * STEP, voltage, atol=1e-9), "the values have more than four decimals"
        stored = file.create_dataset("voltage", data=whole, compression="gzip", shuffle=True)
        stored.attrs.update(units="1", long_name="voltage, scaled from 0 to 1", scale_factor=STEP)
        stored.dims[0].attach_scale(file["trace"])
        stored.dims[1].attach_scale(file["time"])
        for name, (values, meaning) in columns.items():
            stored = file.create_dataset(name, data=values)
            stored.attrs.update(units="ms", long_name=meaning)
            stored.dims[0].attach_scale(file["trace"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
