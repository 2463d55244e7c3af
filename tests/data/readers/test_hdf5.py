"""The one place where HDF5 and NetCDF files are opened for reading."""

import ast
from pathlib import Path

import h5py
import numpy as np
import pytest

from pdefit import PdefitError
from pdefit.data.readers.formats import opened
from pdefit.data.readers.hdf5 import open_netcdf

ROOT = Path(__file__).parents[3]
DOOR = ROOT / "pdefit" / "data" / "readers" / "hdf5.py"
OPENERS = {"File", "Dataset", "open_dataset", "load_dataset", "open_dataarray", "load_dataarray", "open_mfdataset",
           "open_datatree", "load_datatree", "open_groups", "open_zarr", "read_hdf", "netcdf_file"}  # fmt: skip
LIBRARIES = {"h5py", "h5netcdf", "netCDF4", "xarray", "pandas", "tables", "zarr"}


def _openings(text: str) -> list[int]:
    """Lines that open a file of such a library in any mode but `w`, or import what opens one."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in LIBRARIES:
            found += [node.lineno] if OPENERS - {"Dataset"} & {alias.name for alias in node.names} else []
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in OPENERS:
            continue
        # data that are made, by xarray.Dataset(variables)
        made = node.func.attr == "Dataset" and ast.unparse(node.func.value) in ("xarray", "xr")
        new = len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value in ("w", "x")
        found += [] if made or new else [node.lineno]
    return found


def test_no_other_place_opens_a_file_for_reading():
    files = [*ROOT.glob("pdefit/**/*.py"), *ROOT.glob("plugins/**/*.py")]
    files = [file for file in files if file != DOOR and "tests" not in file.relative_to(ROOT).parts]
    assert len(files) > 300 and len(_openings(DOOR.read_text())) > 1
    found = [f"{file.relative_to(ROOT)}:{line}" for file in files for line in _openings(file.read_text())]
    assert not found, f"open them through pdefit/data/readers/hdf5.py: {', '.join(found)}"


@pytest.mark.parametrize(
    "line",
    [
        "h5py.File(path)",
        "h5py.File(path, 'r+')",
        "h5py.File(path, mode)",
        "xarray.open_dataset(path)",
        "netCDF4.Dataset(path)",
        "from h5py import File",
        "from xarray import open_dataset as look",
        "pandas.read_hdf(path)",
    ],
)
def test_the_search_finds_other_places(line):
    assert _openings(line) == [1]
    assert not _openings("h5py.File(path, 'w')\nxarray.Dataset({})\nfrom h5py import Dataset")


def _external(file, path):
    file.create_dataset("u", (8,), "u1", external=[(str(path), 0, 8)])


def _virtual(file, path):
    layout = h5py.VirtualLayout((8,), "f8")
    layout[:] = h5py.VirtualSource(str(path.with_suffix(".h5")), "u", (8,))
    file.create_virtual_dataset("u", layout)


def _link(file, path):
    file["u"] = h5py.ExternalLink(str(path.with_suffix(".h5")), "u")


def _link_of_a_group(file, path):
    file["a/b"], file["u"] = h5py.ExternalLink(str(path.with_suffix(".h5")), "/"), h5py.SoftLink("/a/b/u")


@pytest.mark.parametrize("lead", [_external, _virtual, _link, _link_of_a_group])
def test_values_of_other_files_are_refused(lead, tmp_path):
    (tmp_path / "secret.txt").write_bytes(b"swordfish")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["u"] = np.arange(8.0)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        lead(file, tmp_path / "secret.txt")
    with pytest.raises(PdefitError, match="takes its values from another file"):
        open_netcdf(tmp_path / "x.h5")


def test_an_open_file_is_listed_once(tmp_path, monkeypatch):
    listings, visit = [], h5py.File.visititems
    monkeypatch.setattr(h5py.File, "visititems", lambda file, call: listings.append(file.name) or visit(file, call))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["group/w"] = np.zeros(3), np.ones(3)
    for _ in range(2):
        with opened(tmp_path / "a.h5") as file:
            for name in ("u", "group/w"):
                assert file[name].shape == file[name].array().shape == (3,)
                assert file[name].unit is None
    assert len(listings) == 2
