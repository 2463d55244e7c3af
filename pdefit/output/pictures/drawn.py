"""Result of drawing a run: pictures, and the reasons for missing ones."""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdefit._util.errors import PdefitError, first_line, of_the_machine

log = logging.getLogger("pdefit")


@dataclasses.dataclass
class Drawn:
    """The pictures drawn, and a sentence for each failure."""

    files: list[Path] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def attempt(self, path: Path, draw: Callable[..., Any], *arguments: Any) -> None:
        """Draw one picture by a function of its path and more arguments; on failure, note the reason and continue.

        A killed run, or one still being written, may lack any file.
        """
        try:
            written = draw(path, *arguments)
            self.files.append(written if isinstance(written, Path) else path)
        except PdefitError as error:
            self.notes.append(f"no {path.stem}: {error}")
        # a damaged file may raise any exception; the other pictures are drawn all the same
        except Exception as error:
            log.info("%s was not drawn", path.name, exc_info=error)
            told = of_the_machine(error) or f"{type(error).__name__}: {first_line(error)}"
            self.notes.append(f"no {path.stem}: {told}")
