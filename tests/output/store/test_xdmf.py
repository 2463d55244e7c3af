import xml.etree.ElementTree as ET

import films
import h5py
import numpy as np
import pytest

from pdefit.output.store.xdmf import write_xdmf


def _numbers(item) -> np.ndarray:
    return np.asarray([float(x) for x in item.text.split()]).reshape([int(n) for n in item.get("Dimensions").split()])


def _slab(item, folder) -> np.ndarray:
    """What a reader of XDMF takes: start, stride, count of a dataset, in the shape it states."""
    how, where = item.findall("DataItem")
    name, path = where.text.split(":")
    start, stride, count = _numbers(how).astype(int)
    with h5py.File(folder / name, locking=False) as file:
        data = file[path]
        assert data.shape == tuple(int(n) for n in where.get("Dimensions").split())
        assert data.dtype.itemsize == int(where.get("Precision"))
        part = data[tuple(slice(a, a + s * n, s) for a, s, n in zip(start, stride, count, strict=True))]
    return part.reshape([int(n) for n in item.get("Dimensions").split()])


def _read(tmp_path, fields, **film):
    films.write_film(tmp_path / "fields.h5", fields, **film)
    path = write_xdmf(tmp_path / "fields.h5")
    assert path == tmp_path / "fields.xdmf"
    return ET.parse(path).getroot().find("Domain").findall("Grid")


@pytest.mark.parametrize(
    ("name", "topology", "geometry", "nodes"),
    [
        ("line", "2DRectMesh", "VXVY", "1 33"),
        ("plane", "2DRectMesh", "VXVY", "24 17"),
        ("uneven", "2DRectMesh", "VXVY", "9 7"),
        ("box", "3DRectMesh", "VXVYVZ", "6 5 4"),
        ("sphere", "3DSMesh", "XYZ", "1 9 12"),
    ],
)
def test_every_frame_points_to_its_numbers(tmp_path, name, topology, geometry, nodes):
    where = films.ALL[name]
    (grid,) = _read(tmp_path, {name: where}, frames=3, total=5, dtype="float32")
    frames = grid.findall("Grid")
    assert grid.get("CollectionType") == "Temporal" and len(frames) == 3
    for i, frame in enumerate(frames):
        assert float(frame.find("Time").get("Value")) == 0.5 * i
        assert frame.find("Topology").get("TopologyType") == topology
        assert frame.find("Topology").get("Dimensions") == nodes
        assert frame.find("Geometry").get("GeometryType") == geometry
        assert {a.find("DataItem").get("Dimensions") for a in frame.findall("Attribute")} == {nodes}
        found = {a.get("Name"): _slab(a.find("DataItem"), tmp_path) for a in frame.findall("Attribute")}
        assert set(found) == {f"{name}_{kind}" for kind in films.KINDS}
        expected = films.wave(where, 0.5 * i).astype(np.float32)
        assert np.array_equal(found[f"{name}_true"].reshape(expected.shape), expected)


def test_geometry_is_that_of_the_coordinates(tmp_path):
    (plane,) = _read(tmp_path / "a", {"plane": films.PLANE})
    assert plane.find("Grid/Information").get("Value") == "Y is x (mm); X is y (mm)"
    (uneven,) = _read(tmp_path / "b", {"uneven": films.UNEVEN})
    fast, slow = (_numbers(item) for item in uneven.find("Grid/Geometry").findall("DataItem"))
    assert fast.tolist() == list(range(7)) and slow.tolist() == [i**2 for i in range(9)]
    (sphere,) = _read(tmp_path / "c", {"sphere": films.SPHERE})
    points = _numbers(sphere.find("Grid/Geometry/DataItem")).reshape(9, 12, 3)
    assert np.allclose(np.linalg.norm(points, axis=-1), films.SPHERE.radius)
    assert np.allclose(np.arccos(points[:, 0, 2] / 2), films.SPHERE.coords["colatitude"])


def test_bodies_are_points_that_move(tmp_path):
    (grid,) = _read(tmp_path, {"position": films.BODIES, "velocity": films.BODIES})
    for i, frame in enumerate(grid.findall("Grid")):
        assert frame.find("Topology").get("TopologyType") == "Polyvertex"
        places = _slab(frame.find("Geometry/DataItem"), tmp_path)
        assert np.array_equal(places, films.wave(films.BODIES, 0.5 * i, 0.05))
        assert {a.get("AttributeType") for a in frame.findall("Attribute")} == {"Vector"}
        assert len(frame.findall("Attribute")) == 6


def test_labels_become_attributes_and_grids_stay_apart(tmp_path):
    from pdefit.systems.coordinates import FieldCoords

    x = {"x": np.arange(5.0)}
    wind = FieldCoords(("way", "x"), {"way": np.asarray(["up & down", "<frame>"]), **x}, "m/s", "wind", {"x": "m"})
    line, plane = _read(tmp_path, {"wind": wind, "plane": films.PLANE}, kinds=("predicted",), frames=2)
    names = [a.get("Name") for a in line.findall("Grid")[1].findall("Attribute")]
    assert names == ["wind_predicted up & down", "wind_predicted <frame>"]
    assert _slab(line.findall("Grid")[1].findall("Attribute")[1].find("DataItem"), tmp_path).shape == (1, 5)
    assert plane.get("Name") == "x y"


def test_a_system_without_space_has_no_file(tmp_path):
    films.write_film(tmp_path / "fields.h5", {"n": films.NUMBER, "s": films.SPECIES})
    assert write_xdmf(tmp_path / "fields.h5") is None and not (tmp_path / "fields.xdmf").exists()


def test_fields_on_faces_have_meshes_of_their_own(tmp_path):
    grids = _read(tmp_path, films.STAGGERED, frames=1, kinds=("predicted",), diagnostics=films.SCALARS)
    found = set()
    for grid in grids:
        (attribute,) = grid.findall("Grid/Attribute")
        fast, slow = (_numbers(item) for item in grid.find("Grid/Geometry").findall("DataItem"))
        name = attribute.get("Name").removesuffix("_predicted")
        where = films.STAGGERED[name]
        assert [slow.tolist(), fast.tolist()] == [where.coords[d].tolist() for d in where.dims]
        found.add(name)
        expected = films.wave(where, 0.0, 0.05)
        assert np.array_equal(_slab(attribute.find("DataItem"), tmp_path), expected)
    assert found == {"T", "u", "w"}
