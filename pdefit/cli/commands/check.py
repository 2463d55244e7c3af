"""pdefit check FILE: the content of a data file, suspicious features, and a matching configuration."""

import dataclasses
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.errors import PdefitError, sentence, unknown, with_space
from pdefit.cli.config.command_line import boolean
from pdefit.cli.runtime.environment import prepare
from pdefit.cli.runtime.plugins import proposal
from pdefit.data.importers.piv_files import only_imported
from pdefit.data.noise import describe
from pdefit.data.readers.source import DataSource
from pdefit.data.readers.survey import ANGLES, AXES, Film, Survey, is_even, measured, survey
from pdefit.data.readers.vectors import Vectors, about_vectors, vectors_of
from pdefit.output.pictures.drawn import Drawn
from pdefit.output.pictures.first_look import Look, draw_first_look

_OPTIONS = {"time": "", "picture": "true", **dict.fromkeys(AXES, "")}
# variables that are drawn, and points of a curve, at most
_MOST_DRAWN, _MOST_POINTS = 4, 5000
# first bytes of files of other kinds, what they are, and what makes HDF5 of them
_LENGTHS = (("m", 1.0), ("mm", 1e3), ("um", 1e6), ("nm", 1e9))
_FILM = "run `pdefit import film {0} out={1}.h5 pixel=LENGTH frame=TIME`"
_OTHERS: dict[bytes, tuple[str, str]] = {
    **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0"), ("a TIFF file", _FILM)),
    b"\x89PNG": ("a PNG picture", _FILM),
    b"\x93NUMPY": ("a NumPy array", "store its times with it: numpy.savez('{1}.npz', u=numpy.load('{0}'), time=TIMES)"),
    b"CDF": ("a classic NetCDF file", "run `pdefit import piv {0} out={1}.h5` if it holds vectors, or in Python "
             "xarray.open_dataset('{0}', engine='scipy').to_netcdf('{1}.h5', engine='h5netcdf')"),
}  # fmt: skip


def run_check(arguments: list[str], console: Console) -> None:
    """Describe a data file, and write FILE.check.png into the working directory.

    **Arguments:**

    - `arguments`: the file; `time=NAME` names the variable with the times, `x=NAME y=NAME` the coordinates of a list of
      points, and `picture=false` draws no picture.
    """
    source, drawn = _options(arguments)
    _refuse_others(path := source.file)
    # the noise is estimated in double precision
    prepare()
    found = survey(source)
    console.print(_table(found, path))
    vectors = vectors_of(found)
    told = {
        "times": _times(found) if found.ts.size else "",
        "recordings": _recordings(found) if found.recordings else "",
        "vectors": about_vectors(found, vectors) if vectors is not None else "",
    }
    lines = [f"{word}: {text}" for word, text in told.items() if text]
    lines += describe({film.name: film.noise for film in measured(found.films) if film.noise is not None})
    for line in [*lines, *(f"import: {note}" for note in found.notes)]:
        console.print(escape(sentence(line)), highlight=False, soft_wrap=True)
    for remark in [*found.remarks, *_about_positions(found)]:
        console.print(f"[yellow]remark:[/] {escape(sentence(remark))}", highlight=False, soft_wrap=True)
    if not found.films:
        nameless = found.source.times not in found.entries and any(
            entry.dtype != "text" for entry in found.entries.values()
        )
        remedy = (
            f"name the times: pdefit check {source.path} time=NAME" if nameless else "correct what the remarks name"
        )
        raise PdefitError(f"'{path.name}' holds no variable that a fit takes; {remedy}")
    console.print("\nFor an experiment; variables are FIELD OF YOUR EQUATION: VARIABLE OF THE FILE\n", highlight=False)
    console.print(escape(_configuration(found, vectors)), highlight=False, soft_wrap=True, end="")
    if drawn:
        _draw(found, path, console)


def _options(arguments: list[str]) -> tuple[DataSource, bool]:
    """The data source with the named times and coordinates, and whether a picture is drawn."""
    files = [a for a in arguments if a.partition("=")[0] not in _OPTIONS]
    if len(files) != 1 or (files[0].startswith("-") or "=" in files[0] and not Path(files[0]).is_file()):
        wrong = next((a.partition("=")[0] for a in files[1:] if "=" in a), None)
        if wrong is not None:
            raise unknown("key of check", wrong, _OPTIONS)
        raise PdefitError("check expects one data file, e.g. pdefit check film.h5, or pdefit check film.h5 time=t")
    options = {**_OPTIONS, **dict(a.split("=", 1) for a in arguments if a not in files and "=" in a)}
    named = {dim: options[dim] for dim in AXES if options[dim]}
    return DataSource(files[0], {}, options["time"] or None, coordinates=named), boolean(options["picture"], "picture")


def _refuse_others(path: Path) -> None:
    """Refuse files of other kinds, with the command that converts them to HDF5."""
    with open(path, "rb") as file:
        start = file.read(8)
    found = next((other for first, other in _OTHERS.items() if start.startswith(first)), None)
    if found is None and (name := only_imported(path)) is not None:
        found = (name, "run `pdefit import piv {0} out={1}.h5`, with all files of the recording")
    if found is not None:
        kind, remedy = found[0], found[1].format(path.name, path.stem)
        raise PdefitError(f"'{path.name}' is {kind}, where HDF5 is expected; {remedy}")


def _table(found: Survey, path: Path) -> Table:
    table = Table(box=None, header_style="bold", title=escape(sentence(str(path))), title_justify="left")
    for column in ("variable", "shape", "unit", "type", "range", "missing"):
        table.add_column(column)
    for entry in found.entries.values():
        span = "" if entry.low is None or entry.high is None else f"{entry.low:.5g} to {entry.high:.5g}"
        missing = f"{entry.missing:.2%}" if entry.missing else ""
        cells = (entry.name, str(entry.shape), entry.unit or "not stated", entry.dtype, span, missing)
        table.add_row(*(escape(sentence(cell)) for cell in cells))
    return table


def _times(found: Survey) -> str:
    """The times in words."""
    ts, unit = found.ts, with_space(found.time_unit or "1")
    steps = np.diff(ts)
    spacing = (
        f"every {steps.mean():.6g}{unit}" if is_even(ts) else f"from {steps.min():.4g} to {steps.max():.4g}{unit} apart"
    )
    return f"{ts.size} in '{found.source.times}', from {ts[0]:.6g} to {ts[-1]:.6g}{unit}, {spacing}"


def _recordings(found: Survey) -> str:
    """The recordings in words."""
    first, *others = found.recordings
    named = f"{first} to {others[-1]}" if others else first
    return f"{len(found.recordings)} along '{found.axis}', {named}; {first} is looked at"


def _about_positions(found: Survey) -> list[str]:
    """Remarks on positions that do not form a grid of equal cells, and on missing positions."""
    remarks = []
    for film in measured(found.films):
        for dim, where in film.positions.items() if film.dims == AXES else ():
            if where.values.size > 1 and (where.values[-1] < where.values[0] or not is_even(where.values)):
                remarks.append(
                    f"Positions along {dim} of '{film.name}' do not increase in equal steps, as those of a grid do; "
                    f"interpolate the values, or reverse the axis and the values"
                )
        if film.shape and not film.positions and not film.coordinates:
            remarks.append(
                f"No positions are stated for '{film.name}', by axes or by variables x, y, z of one dimension; a fit takes the "
                f"model's, so compare the order of its axes"
            )
    return remarks


def _configuration(found: Survey, vectors: Vectors | None) -> str:
    """The sections `data` and `system.grid` as YAML, as far as the file states them, with lines from a plugin."""
    films, window = _proposed(found), dict[str, Any]()
    variables = {field: variable for film in films for field, variable in _variables(film).items()}
    if vectors is not None and vectors.factor is not None and (window := proposal("vectors")):
        variables = dict(zip(window.get("data", {}).get("variables", vectors.names), vectors.names, strict=True))
        films = [film for film in films if film.name in (vectors.film.name, *vectors.names)]
    on_sphere = any(film.dims == ANGLES for film in films)
    proposed = proposal("angles") if on_sphere else window
    source = _source(found, films, variables, proposed.get("data", {}).get("system", {}))
    text = _yaml({"defaults": proposed["defaults"]}) if "defaults" in proposed else ""
    text += _yaml({"data": source.entries})
    if unstated := [field for field in variables if field not in source.given]:
        numbers = ", ".join(f"{field}: NUMBER" for field in unstated)
        text += f"  # differences in time show no sigma of {', '.join(unstated)}: leave it out, or state sigma: {{{numbers}}}\n"
    if numbers := ", ".join(found.source.system):
        text += f"  # system: {{ARGUMENT: COLUMN}}, a number of each recording, of {numbers}\n"
    text += f"recordings: {found.axis}\n" if found.recordings and not found.source.long else ""
    if found.ts[0] > 0 and not window:
        text += f"# times: {{start: 0.0}}, the time of your initial state, if it is not the first frame, at {found.ts[0]:.6g}\n"
    if on_sphere:
        return text + _filled(proposed, {}, found.time_unit)
    if films and all(film.shape and not film.grid for film in films):
        return text + _yaml({"observe": {"name": "at", "fields": [*variables]}})
    grids = {film.grid: film for film in reversed(films) if 1 <= len(film.grid) <= 3 and min(film.grid) > 1}
    if len(grids) != 1:
        return text
    (film,) = grids.values()
    if window:
        return text + _filled(window, _grid(film, corners=True), found.time_unit)
    return text + _about_grid(film, len(variables), vectors)


def _source(found: Survey, films: list[Film], variables: dict[str, str], arguments: Mapping[str, str]) -> DataSource:
    """The data source with films by field, and the system's arguments in the file."""
    sigma = [film.sigma or (film.noise and "auto") for film in films for _ in _variables(film)]
    stated = {field: of for field, of in zip(variables, sigma, strict=True) if of}
    # the recording that was looked at may lack an observable
    known = found.source if "observable" in found.source.long else DataSource(found.source.path, {})
    crops = {film.crop for film in films if film.grid}
    return dataclasses.replace(
        found.source,
        variables={**known.variables, **variables},
        sigma="auto" if {*sigma} == {"auto"} else {**known.given, **stated},
        crop=crops.pop() if len(crops) == 1 else (),
        coordinates={dim: where for film in films for dim, where in film.coordinates.items()},
        select={},
        system={path: name for path, name in arguments.items() if name in found.entries},
    )


def _filled(proposed: Mapping[str, Any], corners: Mapping[str, Any], time_unit: str | None) -> str:
    """Lines from a plugin after the section `data`, with the grid and the units of the file filled in."""
    values = {"CORNERS": corners, "LENGTH": corners.get("length_unit"), "TIME": time_unit}

    def filled(node: Any) -> Any:
        return {key: filled(x) for key, x in node.items()} if isinstance(node, Mapping) else values.get(str(node), node)

    rest = filled({key: x for key, x in proposed.items() if key not in ("defaults", "data", "notes", "hints")})
    notes = (f"# {note.format(**values)}\n" for note in proposed.get("notes", ()))
    return "".join([_yaml(rest) if rest else "", *notes])


def _about_grid(film: Film, fields: int, vectors: Vectors | None) -> str:
    """The grid of a film as YAML, with comments on missing facts."""
    text = _yaml({"system": {"grid": _grid(film)}})
    lacking = [d for d in AXES[: len(film.grid)] if d not in film.positions]
    text += f"    # extent: [...], the lengths of the box along {', '.join(lacking)}\n" if lacking else ""
    corners = ", ".join(f"{key}: {value}" for key, value in _grid(film, corners=True).items())
    holds = {"fields": len(film.grid) == 2 and fields > 1, "vectors": vectors is not None}
    hints = {key: hint for key, hint in proposal("vectors").get("hints", {}).items() if holds.get(key)}
    return text + "".join(f"    # {hint.format(CORNERS=corners)}\n" for hint in hints.values())


def _proposed(found: Survey) -> list[Film]:
    """Variables for an experiment, without standard deviations and counts.

    If pdefit wrote the file, they are the observations, or else the truth or the prediction.
    """
    if "n_done" in found.entries:
        kinds = ([f for f in found.films if f.name.endswith(end)] for end in ("_observed", "_true", "_predicted"))
        return next(filter(None, kinds), found.films)
    return measured(found.films)


def _variables(film: Film) -> dict[str, str]:
    """Variables of the file by field: the film itself, or each of its components."""
    if not film.components:
        return {_field(film): film.name}
    return {f"{_field(film)}_{i}": f"{film.name}[{i}]" for i in range(film.components)}


def _field(film: Film) -> str:
    """The field's name for a variable: the variable's name, or u_LABEL for a component on a sphere."""
    name = film.name.rpartition("/")[2]
    entry = name.partition("[")[2].rstrip("]")
    return f"u_{entry}" if entry and film.dims == ANGLES else entry or name


def _grid(film: Film, corners: bool = False) -> Mapping[str, Any]:
    """A grid with the positions of a film at the centres of its cells, or at their corners."""
    shape = [n - corners for n in film.grid]
    grid: dict[str, Any] = {"shape": shape}
    units = {p.unit for p in film.positions.values()} - {None, "1", ""}
    unit = units.pop() if len(units) == 1 else None
    if len(film.positions) == len(film.grid) and all(is_even(p.values) for p in film.positions.values()):
        steps = np.asarray([np.mean(np.diff(p.values)) for p in film.positions.values()])
        lowest = np.asarray([p.values[0] for p in film.positions.values()]) - steps * (0.0 if corners else 0.5)
        extent, scale = steps * shape, 1.0
        # an imported film is in m, however small it is
        if unit == "m":
            unit, scale = next(((n, f) for n, f in _LENGTHS if np.max(extent) * f >= 1), _LENGTHS[-1])
        grid["extent"] = [_round(x * scale) for x in extent]
        grid |= {"origin": [_round(x * scale) for x in lowest]} if np.any(np.abs(lowest) > 1e-9 * np.abs(steps)) else {}
    return grid | ({"length_unit": unit} if unit else {})


def _round(x: float) -> float:
    """A length rounded to 10 digits."""
    return float(f"{x:.10g}")


def _yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(content, default_flow_style=None, sort_keys=False, allow_unicode=True, width=120)


def _axes(film: Film) -> list[tuple[str, np.ndarray]]:
    """Label and positions of each axis of a frame; indices if no positions are stated."""
    axes = []
    for number, count in enumerate((*film.grid, *film.shape[len(film.grid) :])):
        dim = "point" if not film.grid else film.dims[number] if number < len(film.dims) else f"axis {number + 1}"
        where = film.positions.get(dim)
        unit = with_space(where.unit or "1") if where else ""
        label = f"{dim} ({unit.strip()})" if unit else dim if where else f"{dim} (number)"
        axes.append((label.replace("$", ""), np.arange(count) if where is None else where.values))
    return axes


def _draw(found: Survey, path: Path, console: Console) -> None:
    """Write the picture, and report it."""
    target = Path(f"{path.name}.check.png")
    replaced = " (in place of an earlier one)" if target.exists() else ""
    drawn, looks = Drawn(), []
    for film in found.films[:_MOST_DRAWN]:
        unit = (found.entries.get(film.name) or found.entries[film.name.rpartition("[")[0]]).unit
        label = textwrap.shorten(sentence(film.name), 30) + (f" ({unit})" if unit not in (None, "1", "") else "")
        with found.frames([film.name], film.dims, crop=film.crop) as frames:
            count = found.ts.size
            picked = [0, count // 2, count - 1]
            if not film.shape:
                picked = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).astype(int)).tolist()
            parts = [frames.arrays(i, i + 1)[0][film.name][0] for i in picked]
        looks.append(Look(label.replace("$", ""), found.ts[picked], np.stack(parts), _axes(film)))
    drawn.attempt(target, lambda p: draw_first_look(p, looks, (found.time_unit or "1").replace("$", "")))
    for file in drawn.files:
        console.print(f"\n{escape(str(file))} is written{replaced}", highlight=False, soft_wrap=True)
    for note in drawn.notes:
        console.print(f"[yellow]{escape(sentence(note))}[/]", highlight=False, soft_wrap=True)
