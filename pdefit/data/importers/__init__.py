"""Instrument files that `pdefit import` converts to data files: one function for each kind."""

from collections.abc import Callable
from pathlib import Path

from pdefit.data.importers.film import film
from pdefit.data.importers.image_pairs import image_pairs
from pdefit.data.importers.piv import read_piv
from pdefit.data.importers.recording import Recording
from pdefit.data.importers.tracks import tracks


def _piv(files: list[Path], options: dict[str, str]) -> Recording:
    """Velocity fields from vector files, or with `pairs` from images."""
    return image_pairs(files, options) if "pairs" in options else read_piv(files, options)


KINDS: dict[str, Callable[[list[Path], dict[str, str]], Recording]] = {"film": film, "piv": _piv, "tracks": tracks}
