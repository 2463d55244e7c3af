"""pdefit import KIND FILES: conversion of an instrument's files to one data file."""

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from pdefit._util.errors import PdefitError, sentence, unknown
from pdefit.cli.config.command_line import boolean
from pdefit.data.importers import KINDS
from pdefit.data.importers.recording import write_recording

# of HDF5 files, so that readers know them
_SUFFIXES = (".h5", ".hdf5", ".nc")


def run_import(arguments: list[str], console: Console) -> None:
    """Write the frames of an instrument's files into one HDF5 file, and print its content.

    **Arguments:**

    - `arguments`: the kind, the files, `out=data.h5` or `--out data.h5`, `force=true`, and options of the kind.
    """
    kind, *words = arguments or [""]
    if kind not in KINDS:
        raise unknown("kind of files (pdefit import KIND FILES out=data.h5)", kind, KINDS)
    while "--out" in words[:-1]:
        at = words.index("--out")
        words[at : at + 2] = [f"out={words[at + 1]}"]
    files = [Path(word) for word in words if "=" not in word or Path(word).is_file()]
    options = dict(word.split("=", 1) for word in words if Path(word) not in files)
    out, force = Path(options.pop("out", "")), boolean(options.pop("force", "false"), "force")
    if not files or not out.name:
        raise PdefitError(f"import expects files and a target, e.g. pdefit import {kind} FILES out=data.h5")
    for file in files:
        if file.is_dir():
            raise PdefitError(f"'{file}' is a folder, where files are expected; name those in it, such as {file}/*")
        if not file.is_file():
            what = "is a device or a pipe, where files are expected" if file.exists() else "does not exist"
            raise PdefitError(f"The file '{file}' {what}; correct its name")
    if not out.parent.is_dir():
        raise PdefitError(f"out='{out}' expects a folder that exists, but there is no '{out.parent}'; make it")
    # the mask is read, too
    _refuse_target(out, force, [*map(str, files), *options.values()])
    if out.suffix not in _SUFFIXES:
        raise PdefitError(f"out='{out}' expects the name of an HDF5 file; write out={out.stem}.h5")
    recording = KINDS[kind](files, options)
    _refuse_target(out, force, [str(files[0].parent / name) for name in recording.source])
    missing = write_recording(out, recording)
    count, *shape = recording.shape
    ts, unit = recording.axes["time"]
    variables = ", ".join(f"{name} ({unit})" for name, unit in recording.units.items())
    lines = [
        f"{out}: {count} frames of {' x '.join(map(str, shape))} points, {variables}",
        f"times {ts[0]:.6g} to {ts[-1]:.6g} {unit}; {missing:.1%} missing",
    ]
    for line in [*lines, *recording.notes, f"next: pdefit check {out}"]:
        console.print(escape(sentence(line)), highlight=False, soft_wrap=True)


def _refuse_target(out: Path, force: bool, read: Sequence[str]) -> None:
    """Refuse a target that exists, unless it may be replaced and is not among the input files."""
    if out.exists() and any(os.path.exists(name) and out.samefile(name) for name in read):
        raise PdefitError(f"out='{out}' is a file that the import reads; choose another out=")
    if out.exists() and (not force or out.is_dir()):
        raise PdefitError(f"'{out}' exists; choose another out=, or add force=true to replace a file that is not read")
