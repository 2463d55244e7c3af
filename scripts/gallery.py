"""One picture of every experiment for README and site, in .pictures/.

    ./run python scripts/gallery.py [EXPERIMENT ...]

Without names all experiments are run, except those that `SLOW` lists. Pictures are at most 900 pixels wide and 150 kB large.
"""

import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import imageio.v3
import jax
import numpy as np
from PIL import Image

PICTURES = Path(__file__).resolve().parents[1] / ".pictures"
WIDTH, LARGEST = 900, 150_000

# a forecast of two seconds
_LONG = ("times.forecast.stop=2050", "times.forecast.count=400")
# for each experiment its verb, settings that change it, and the figure to keep
RUNS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "reaction/fisher_front": ("fit", (), "fields"),
    "reaction/fisher_front_2d": ("fit", (), "fields"),
    "cardiac/single_cell": ("simulate", (), "traces"),
    "cardiac/cable": ("simulate", (), "fields"),
    "cardiac/bocf_parameters_64": ("fit", (), "fields"),
    "cardiac/bocf_quiet": ("fit", (), "fields_voltage_u"),
    "cardiac/bocf_hard_data": ("fit", (*_LONG, "certificate=warn"), "fields_voltage_u"),
    "cardiac/bocf_noisy": ("fit", (), "parameters"),
    "cardiac/bocf_parameters_512": ("fit", (*_LONG, "twin=self", "solver=euler"), "fields"),
    "reaction/gray_scott_spots": ("fit", (), "fields"),
    "reaction/gray_scott_hidden": ("fit", (), "fields_substrate_u"),
    "reaction/spiral_film": ("fit", (), "fields"),
    "particles/lennard_jones_10": ("fit", (), "parameters"),
    "classics/korteweg_de_vries": ("fit", (), "fields"),
    "classics/kuramoto_sivashinsky": ("fit", (), "fields"),
    "flow/temperature_from_velocity/noisy": ("fit", (), "fields"),
    "sphere/rossby_haurwitz": ("fit", (), "fields"),
    "particles/pleiades": ("simulate", ("times.count=601",), "fields"),
    "particles/solar_system": ("fit", (), "parameters"),
    "particles/solar_system_positions": ("fit", (), "fields"),
}
# these take ten minutes or more on two cores, and are run only if they are named
SLOW = (
    "cardiac/bocf_quiet",
    "cardiac/bocf_hard_data",
    "cardiac/bocf_noisy",
    "cardiac/bocf_parameters_512",
    "flow/temperature_from_velocity/noisy",
    "reaction/gray_scott_hidden",
    "reaction/spiral_film",
)


def picture_of(experiment: str) -> Path:
    """Path of the picture of an experiment."""
    return PICTURES / f"{experiment.replace('/', '_')}.png"


def keep(figure: Path, picture: Path) -> int:
    """Save a figure as a small picture, as wide as the limit of its size allows; returns its size in bytes."""
    page = imageio.v3.imread(figure, mode="RGB")
    height, width = page.shape[:2]
    for across in (WIDTH, 720, 600, 480, 360):
        small = page
        if across < width:
            small = jax.image.resize(page.astype(float), (round(height * across / width), across, 3), "lanczos3")
        # a palette takes half the bytes of smooth shades
        image = Image.fromarray(np.clip(np.rint(small), 0, 255).astype(np.uint8)).quantize(128)
        image.save(held := io.BytesIO(), "png", optimize=True)
        data = held.getvalue()
        if len(data) <= LARGEST:
            break
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(data)
    return len(data)


def make(experiment: str, folder: Path) -> None:
    verb, smaller, figure = RUNS[experiment]
    command = [str(Path(sys.executable).parent / "pdefit"), verb, f"experiment={experiment}", *smaller]
    begin = time.perf_counter()
    done = subprocess.run(
        [*command, f"hydra.run.dir={folder}"], cwd=folder.parent, capture_output=True, text=True, env=os.environ
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    seconds = time.perf_counter() - begin
    size = keep(folder / "figures" / f"{figure}.png", picture_of(experiment))
    print(f"{experiment:<34} {seconds:6.0f} s  {size / 1000:4.0f} kB", flush=True)


def main(names: list[str]) -> None:
    if unknown := set(names) - set(RUNS):
        sys.exit(f"no such experiment: {', '.join(sorted(unknown))}; there are: {', '.join(RUNS)}")
    with tempfile.TemporaryDirectory() as scratch:
        for number, experiment in enumerate(names or [name for name in RUNS if name not in SLOW]):
            make(experiment, Path(scratch) / str(number))


if __name__ == "__main__":
    main(sys.argv[1:])
