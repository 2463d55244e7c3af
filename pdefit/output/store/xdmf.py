"""Description of fields.h5 for ParaView, fields.xdmf. The numbers stay in fields.h5.

It is for ParaView's "XDMF Reader". "Xdmf3 Reader", which scripts take by default, reads no `HyperSlab`: in ParaView 5.11 it
shows no arrays, and crashes on bodies.

ParaView's own NetCDF readers open fields.h5 and its export, but misinterpret them. Tried with ParaView 5.11 and VTK
9.7.2:

- the CF reader has no times unless `time` has a date; otherwise time is a spatial axis, and a box has one axis too many
- it reads the variables of one grid, so each staggered field needs a separate reader, which is not stated
- colatitude and longitude in radians become the sides of a flat image, because a sphere needs degrees
- bodies and labels become rows of an image
- the plain reader has times, but indices of cells instead of coordinates

Grids are `2DRectMesh` or `3DRectMesh`. A line is a 2-D mesh of height one. Fields on a sphere are points on it
(`3DSMesh`), and bodies are `Polyvertex` points. XDMF counts its axes from the slowest, like HDF5. The last axis of an
array is ParaView's X, and an `Information` element names it. Components of a velocity are scalars; only bodies in space
have vectors. Values belong to the nodes of these meshes, which are the centres of cells. Lists (species, components)
give an attribute for each label. For systems without space no file is written.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from pdefit._util.atomic import write_text
from pdefit.data.readers.fields import Field, Film, open_film

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<Xdmf Version="3.0">\n<Domain>\n'
_TAIL = "</Domain>\n</Xdmf>\n"
# placeholder for the number of a frame; no name can contain it, because names are escaped
_NUMBER = "<frame>"


def write_xdmf(fields: Path) -> Path | None:
    """Write fields.xdmf beside a fields.h5, for its complete frames; None if no field lies in space."""
    with open_film(fields) as film:
        grids = "".join(_collections(film))
    if not grids:
        return None
    path = fields.with_suffix(".xdmf")
    write_text(path, _HEAD + grids + _TAIL)
    return path


def _collections(film: Film) -> Iterator[str]:
    """One temporal collection for each mesh."""
    by_mesh: dict[tuple[str, ...], list[Field]] = {}
    for field in film.fields.values():
        by_mesh.setdefault(_mesh_dims(field), []).append(field)
    for dims, fields in by_mesh.items():
        if not dims:
            continue
        moving = dims[-1] == "axis"
        places = next((f for f in fields if f.name == "position"), fields[0])
        mesh = "" if moving else _mesh(places, dims)
        yield f'<Grid Name={quoteattr(" ".join(dims))} GridType="Collection" CollectionType="Temporal">\n'
        # frames differ in their number only, so one text serves all
        parts = (part for field in fields for part in _attributes(film, field, vectors=moving))
        frame = (_points(film, places) if moving else mesh) + "".join(parts)
        for number, t in enumerate(film.ts):
            body = frame.replace(_NUMBER, str(number))
            yield f'<Grid Name="frame {number}"><Time Value="{float(t)!r}"/>\n{body}</Grid>\n'
        yield "</Grid>\n"


def _mesh_dims(field: Field) -> tuple[str, ...]:
    """Spatial axes of a field; for bodies the last is `axis`. Empty without axes, or for more than three."""
    if len(field.dims) == 2 and field.dims[1] == "axis" and field.shape[1] in (2, 3):
        return field.dims
    dims = tuple(d for d in field.dims if not _is_text(field, d))
    return dims if len(dims) <= 3 else ()


def _is_text(field: Field, dim: str) -> bool:
    return field.coords[dim].dtype.kind in "US"


def _mesh(field: Field, dims: tuple[str, ...]) -> str:
    """Topology and geometry of a grid; a line is a plane of height one."""
    if field.radius:
        return _sphere(field)
    axes = [np.asarray(field.coords[d], float) for d in dims]
    units = [f"{'ZYX'[i - len(dims)]} is {d} ({field.coord_units.get(d, '1')})" for i, d in enumerate(dims)]
    axes = [np.zeros(1), *axes] if len(axes) == 1 else axes
    # XDMF lists coordinates from the fastest axis. Corners and steps alone (`CoRectMesh`) would make the slowest of two X
    places = "".join(map(_inline, axes[::-1]))
    about = f'<Information Name="axes" Value={quoteattr("; ".join(units))}/>\n'
    return about + _topology(f"{len(axes)}DRectMesh", [a.size for a in axes], "VXVYVZ"[: 2 * len(axes)], places)


def _topology(kind: str, shape: Sequence[int], form: str, places: str) -> str:
    count = " ".join(map(str, shape))
    size = f'NumberOfElements="{count}" NodesPerElement="1"' if kind == "Polyvertex" else f'Dimensions="{count}"'
    return f'<Topology TopologyType="{kind}" {size}/>\n<Geometry GeometryType="{form}">{places}</Geometry>\n'


def _sphere(field: Field) -> str:
    """Points on a sphere, in the order of the array."""
    down, around = np.meshgrid(*(field.coords[d] for d in field.dims), indexing="ij")
    points = field.radius * np.stack([np.sin(down) * np.cos(around), np.sin(down) * np.sin(around), np.cos(down)], -1)
    return _topology("3DSMesh", (1, *points.shape[:2]), "XYZ", _inline(points.reshape(-1, 3)))


def _points(film: Film, places: Field) -> str:
    """Predicted positions of the bodies in a frame."""
    kind = "predicted" if "predicted" in places.kinds else places.kinds[0]
    item = _slab(film, places, kind, (slice(None), slice(None)))
    return _topology("Polyvertex", places.shape[:1], {2: "XY", 3: "XYZ"}[places.shape[1]], item)


def _attributes(film: Film, field: Field, vectors: bool) -> Iterator[str]:
    """Every kind of a field: a vector for bodies, else a scalar for each combination of labels."""
    listed = [] if vectors else [d for d in field.dims if _is_text(field, d)]
    form = "Scalar" if not vectors else "Vector" if field.shape[1] == 3 else "Matrix"
    for kind in field.kinds:
        for combination in np.ndindex(*(field.coords[d].size for d in listed)):
            chosen = dict(zip(listed, combination, strict=True))
            labels = [str(field.coords[d][i]) for d, i in chosen.items()]
            name = quoteattr(" ".join([f"{field.name}_{kind}", *labels]))
            item = _slab(film, field, kind, tuple(chosen.get(d, slice(None)) for d in field.dims))
            yield f'<Attribute Name={name} AttributeType="{form}" Center="Node">{item}</Attribute>\n'


def _slab(film: Film, field: Field, kind: str, part: tuple[int | slice, ...]) -> str:
    """Part of one frame inside the HDF5 file, as start, stride and count along every axis."""
    start = [_NUMBER, *(0 if isinstance(p, slice) else p for p in part)]
    count = [1, *(n if isinstance(p, slice) else 1 for p, n in zip(part, field.shape, strict=True))]
    kept = [n for p, n in zip(part, field.shape, strict=True) if isinstance(p, slice)]
    # a line is a plane of height one, and a sphere a box of height one
    shape = " ".join(map(str, [1, *kept] if len(kept) == 1 or field.radius else kept))
    rank, whole = len(start), " ".join(map(str, (film.total, *field.shape)))
    numbers = " ".join(map(str, [*start, *[1] * rank, *count]))
    where = quoteattr(f"{film.path.name}:/{field.name}_{kind}")[1:-1]
    size = film.dtype(field.name, kind).itemsize
    return (
        f'<DataItem ItemType="HyperSlab" Dimensions="{shape}">'
        f'<DataItem Dimensions="3 {rank}" Format="XML">{numbers}</DataItem>'
        f'<DataItem Dimensions="{whole}" NumberType="Float" Precision="{size}" Format="HDF">{where}</DataItem>'
        f"</DataItem>"
    )


def _inline(values: np.ndarray) -> str:
    shape = " ".join(map(str, values.shape))
    text = " ".join(repr(float(x)) for x in values.ravel())
    return f'<DataItem Dimensions="{shape}" NumberType="Float" Precision="8" Format="XML">{text}</DataItem>'
