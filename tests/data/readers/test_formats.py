"""Files of MATLAB and NumPy, and tables of text."""

import os
import zipfile

import h5py
import numpy as np
import pytest
from scipy import io, sparse

from pdefit._util import memory
from pdefit._util.errors import PdefitError
from pdefit.data.readers import variable as limits
from pdefit.data.readers.formats import opened
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays, read_observations

U = np.arange(12.0).reshape(4, 3)


def _matlab_7(path, **variables):
    """A file as MATLAB writes it: a header before HDF5, axes reversed, the class of each variable as an attribute."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            value = np.atleast_2d(np.asarray(value))
            kind = {"f": "double", "b": "logical", "u": "char", "i": "int32", "c": "double"}[value.dtype.kind]
            if value.dtype.kind == "c":
                value = np.rec.fromarrays([value.real, value.imag], names="real,imag")
            file[name] = (value.astype("u1") if kind == "logical" else value).T
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
    with open(path, "r+b") as raw:
        raw.write(
            b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan 01 00:00:00 2024 HDF5 schema 1.00 .".ljust(
                124
            )
        )
        raw.write(b"\x00\x02IM")
    return path


def test_both_formats_of_matlab_agree(tmp_path):
    given = {
        "u": U, "box": np.arange(24.0).reshape(2, 3, 4), "row": np.arange(5.0)[None], "column": np.arange(5.0)[:, None],
        "one": 3.5, "mask": U > 4, "z": U * 1j,
    }  # fmt: skip
    io.savemat(tmp_path / "five.mat", given | {"label": "shock"}, do_compression=True)
    _matlab_7(tmp_path / "seven.mat", **given, label=np.frombuffer("shock".encode("utf-16-le"), "u2"))
    for path in (tmp_path / "five.mat", tmp_path / "seven.mat"):
        found = read_arrays(
            path, {n: n for n in ("u", "box", "row", "column", "one", "mask", "z_real", "z_imag", "label")}
        )
        np.testing.assert_array_equal(found["u"], U)
        np.testing.assert_array_equal(found["box"], given["box"])
        np.testing.assert_array_equal(found["row"], np.arange(5.0))
        np.testing.assert_array_equal(found["column"], np.arange(5.0))
        np.testing.assert_array_equal(found["mask"], (U > 4).astype(float))
        np.testing.assert_array_equal(found["z_imag"], U)
        assert found["one"] == 3.5 and found["one"].shape == () and found["label"] == "shock", path
        with pytest.raises(PdefitError, match=r"'z' in '.*' holds complex numbers; name its parts, z_real or z_imag"):
            read_arrays(path, {"z": "z"})


def test_structures_are_read_and_sparse_matrices_are_not(tmp_path):
    matrix = sparse.random_array((6, 5), density=0.4, random_state=0, format="csc")
    io.savemat(tmp_path / "five.mat", {"s": {"u": U, "t": np.arange(3.0)}, "m": matrix})
    path = _matlab_7(tmp_path / "seven.mat", **{"s/u": U, "s/t": np.arange(3.0)})
    with h5py.File(path, "r+") as file:
        file["m/data"], file["m/ir"], file["m/jc"] = matrix.data, matrix.indices, matrix.indptr
        file["m"].attrs["MATLAB_sparse"] = np.uint64(6)
    for name in ("five.mat", "seven.mat"):
        found = read_arrays(tmp_path / name, {"u": "s/u", "t": "s/t"})
        np.testing.assert_array_equal(found["u"], U)
        np.testing.assert_array_equal(found["t"], np.arange(3.0))
        with pytest.raises(PdefitError, match=rf"'m' in '{name}' is of class sparse \(MATLAB\); store its numbers"):
            read_arrays(tmp_path / name, {"m": "m"})


def test_what_holds_no_numbers_is_refused_by_name_alone(tmp_path):
    cells = np.empty((1, 2), object)
    cells[0, 0], cells[0, 1] = "a", U
    io.savemat(tmp_path / "five.mat", {"u": U, "c": cells, "e": np.zeros((0, 3))})
    path = _matlab_7(tmp_path / "seven.mat", u=U)
    with h5py.File(path, "r+") as file:
        file["#refs#/a"] = U
        file["c"] = np.array([[file["#refs#/a"].ref]], h5py.ref_dtype)
        file["c"].attrs["MATLAB_class"] = np.bytes_("cell")
        file["e"] = np.array([0, 3], "u8")
        file["e"].attrs["MATLAB_class"], file["e"].attrs["MATLAB_empty"] = np.bytes_("double"), np.uint8(1)
        file["w"] = np.zeros((1, 6), "u4")
        file["w"].attrs["MATLAB_class"], file["w"].attrs["MATLAB_object_decode"] = np.bytes_("table"), np.int32(3)
    np.savez(tmp_path / "u.npz", u=U, c=cells, e=np.zeros((0, 3)), w=np.array(["2024-01-01"], "M8[s]"))
    wanted = {
        "five.mat": {"c": r"is of class cell \(MATLAB\); store its numbers", "e": "is empty"},
        "seven.mat": {"c": "is of class cell", "e": "is empty", "w": "is of class table"},
        "u.npz": {"c": r"holds objects of Python \(pickle\)", "e": "is empty", "w": "is of type datetime64"},
    }
    for name, refused in wanted.items():
        np.testing.assert_array_equal(read_arrays(tmp_path / name, {"u": "u"})["u"], U)
        for variable, told in refused.items():
            with pytest.raises(PdefitError, match=f"^'{variable}' in '{name}' {told}"):
                read_arrays(tmp_path / name, {variable: variable})
        with opened(tmp_path / name) as file:
            assert {*file} == {"u", *refused}


def test_a_pickle_is_never_loaded(tmp_path):
    class Planted:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "pwned"),)

    np.savez(tmp_path / "x.npz", u=np.array([Planted()], object))
    with pytest.raises(PdefitError, match="which are not read"):
        read_arrays(tmp_path / "x.npz", {"u": "u"})
    assert not (tmp_path / "pwned").exists()


def test_sizes_are_refused_before_they_are_taken(tmp_path, monkeypatch):
    io.savemat(tmp_path / "zeros.mat", {"u": np.zeros(300_000)}, do_compression=True)
    np.savez_compressed(tmp_path / "zeros.npz", u=np.zeros(300_000))
    monkeypatch.setattr(memory, "available", lambda: memory.Limit(3e6, "free in a test"))
    monkeypatch.setattr(io, "loadmat", lambda *_, **__: pytest.fail("values were read"))
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("values were read"))
    for name in ("zeros.mat", "zeros.npz"):
        with pytest.raises(PdefitError, match=rf"'u' in '{name}' has shape .*3000.*memory; cut"):
            read_arrays(tmp_path / name, {"u": "u"})


def test_an_archive_that_states_more_than_it_holds_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as archive, archive.open("u.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**7)})
    with pytest.raises(PdefitError, match=r"'u' in 'bomb.npz' cannot be read"):
        read_arrays(tmp_path / "bomb.npz", {"u": "u"})


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_columns_of_text(separator, tmp_path):
    rows = [["# made by hand"], ["time", "u", "label"], ["0", "1.5e-3", "a"], ["1", "", "b"], ["2", "NA", "c"]]
    (tmp_path / "u.csv").write_text("\n".join(separator.join(row) for row in rows), encoding="utf-8-sig")
    found = read_arrays(tmp_path / "u.csv", {"time": "time", "u": "u"})
    np.testing.assert_array_equal(found["time"], [0, 1, 2])
    np.testing.assert_array_equal(found["u"], [1.5e-3, np.nan, np.nan])
    with pytest.raises(
        PdefitError, match="'label' in 'u.csv' holds 'a' in row 1, where a number with a decimal point is"
    ):
        read_arrays(tmp_path / "u.csv", {"label": "label"})


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("t [h],glucose [g/L]", {"t": "h", "glucose": "g/L"}),
        ("t (h);u (W/(m2 K));OD [-]", {"t": "h", "u": "W/(m2 K)", "OD": "1"}),
        ("t [h] u [a.u.]", {"t": "h", "u": "a.u."}),
        ("# t [h]\tu [K]", {"t": "h", "u": "K"}),
        ("# t (h) u (K)", {"t": "h", "u": "K"}),
        # a remark, functions, a unit that is vague, and brackets that tell columns apart
        ("t,u (mean),N(t),conc_mg/L", {"t": None, "u (mean)": None, "N(t)": None, "conc_mg/L": None}),
        ("t,c (A),c (C)", {"t": None, "c (A)": None, "c (C)": None}),
    ],
)
def test_units_in_a_header(header, found, tmp_path):
    row = {";": "0;1;2", "\t": "0\t1", " ": "0 1"}
    numbers = next(
        (line for sign, line in row.items() if sign in header.replace(" (", "(") and "," not in header), None
    )
    (tmp_path / "u.dat").write_text(f"{header}\n" + 2 * f"{numbers or ','.join('0' * len(found))}\n")
    with opened(tmp_path / "u.dat") as file:
        assert {name: variable.unit for name, variable in file.items()} == found
        assert all(variable.array().size == 2 for variable in file.values())


def test_units_of_a_header_are_converted(tmp_path):
    (tmp_path / "u.csv").write_text("t [h],glucose [g/L]\n0,1\n0.5,2\n")
    found = read_observations(tmp_path / "u.csv", {"G": "glucose"}, time="t", units={"G": "mg/L"}, time_unit="min")
    assert found.ts.tolist() == [0, 30] and found.values["G"].tolist() == [1000, 2000]


@pytest.mark.parametrize("name", ["wide.csv", "wide.npz", "wide.mat", "wide.h5", "deep.h5", "deep.mat"])
def test_a_file_of_too_many_variables_is_refused_before_they_are_read(name, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_MOST_VARIABLES", 7)
    monkeypatch.setattr(limits, "_MOST_LEVELS", 3)

    def write(count, levels):
        some = {f"v{i}": np.arange(3.0) for i in range(count)}
        if name == "wide.csv":
            (tmp_path / name).write_text(",".join(some) + "\n" + ",".join("1" * count))
        elif name == "wide.npz":
            np.savez(tmp_path / name, **some)
        elif name == "wide.mat":
            io.savemat(tmp_path / name, some)
        elif name == "deep.mat":
            _matlab_7(tmp_path / name, **{"g/" * levels + "u": U})
        else:
            with h5py.File(tmp_path / name, "w") as file:
                for key, values in some.items() if name == "wide.h5" else [("g/" * levels + "u", U)]:
                    file[key] = values

    write(6, 3)
    with opened(tmp_path / name) as file:
        assert len(file) > 0
    write(8, 4)
    with pytest.raises(PdefitError, match=f"'{name}' has over 7 variables or 3 levels of groups; copy those"):
        with opened(tmp_path / name):
            pass


def test_a_header_in_a_comment_and_blanks_between_columns(tmp_path):
    for separator in (" ", "; "):
        rows = np.column_stack([np.arange(3), U[:3, 0]])
        np.savetxt(tmp_path / "u.dat", rows, delimiter=separator, header=f"t{separator}u")
        found = read_arrays(tmp_path / "u.dat", {"t": "t", "u": "u"})
        np.testing.assert_array_equal(found["t"], [0, 1, 2])
        np.testing.assert_array_equal(found["u"], U[:3, 0])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time;u\n0;1,5\n", "holds '1,5' in row 1, where a number with a decimal point is expected"),
        ("time,u\n0,1_0\n", "holds '1_0' in row 1, where a number"),
        ("time;u\n0;1.234,5\n", "holds '1.234,5' in row 1, where a number with a decimal point is expected"),
        ('time,u\n0,"1,234"\n', "holds '1,234' in row 1, where a number with a decimal point is expected"),
        ("time;u\n0,5;1,2\n1;2\n", "holds '1,2' in row 1, where a number with a decimal point is expected"),
        ("time,u\nh,g/L\n0,1\n", r"holds 'g/L' in row 1, .* and write units into the header, as in `t \[h\]`"),
        ("time,u\n0,1,5\n", "Expected 2 fields in line 2, saw 3; correct it"),
        ("0,1\n1,2\n", "'u.csv' has no header"),
        ("u,u\n1,2\n", "two columns of one name"),
        ("u\n", "'u' in 'u.csv' is empty"),
        ("", "'u.csv' cannot be read as a table of text: No columns"),
        ('"u\n1', "cannot be read as a table of text"),
        ("u\n\xff", "cannot be read as a table of text"),
    ],
)
def test_a_table_that_is_refused(text, told, tmp_path):
    (tmp_path / "u.csv").write_bytes(text.encode("latin1"))
    with pytest.raises(PdefitError, match=told):
        read_arrays(tmp_path / "u.csv", {"u": "u"})


def test_other_zipped_files_and_damaged_headers(tmp_path):
    with zipfile.ZipFile(tmp_path / "sheet.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    (tmp_path / "u.mat").write_bytes(b"\x00" * 200)
    (tmp_path / "u.npz").write_bytes(b"PK\x03\x04 and no more")
    told = {"sheet.xlsx": "export it as HDF5, .mat, .npz or .csv", "u.mat": "damaged|No variable", "u.npz": "damaged"}
    for name, sentence in told.items():
        with pytest.raises(PdefitError, match=sentence):
            read_arrays(tmp_path / name, {"u": "u"})


@pytest.mark.parametrize(("name", "u", "t"), [("burgers_shock", "usol", "t"), ("KdV", "uu", "tt"), ("AC", "uu", "tt")])
def test_the_classics_that_ship(name, u, t):
    path = locate(f"classics/{name}.mat")
    whole = io.loadmat(path)
    with opened(path) as file:
        assert file[u].shape == whole[u].shape
        np.testing.assert_array_equal(file[t].array(), whole[t].ravel())
    found = read_observations(path, {"u": u}, time=t, coordinates={"x": "x"})
    np.testing.assert_allclose(found.values["u"], whole[u].T, rtol=1e-6)
    np.testing.assert_array_equal(found.ts, whole[t].ravel())
