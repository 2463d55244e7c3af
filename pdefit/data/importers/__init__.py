"""Kinds of instruments' files that `pdefit import` turns into data files: one function each."""

from collections.abc import Callable
from pathlib import Path

from pdefit.data.importers.film.film import film
from pdefit.data.importers.recording import Recording
from pdefit.data.importers.tracks import tracks

KINDS: dict[str, Callable[[list[Path], dict[str, str]], Recording]] = {"film": film, "tracks": tracks}
