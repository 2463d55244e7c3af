"""The error for mistakes of users, and the texts of errors."""

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class PdefitError(Exception):
    """A mistake in input or configuration.

    Its message states in one sentence what was expected, what came, and what to do. The command line prints it without
    a traceback. Any other exception is a bug and keeps its traceback.
    """

    def __str__(self) -> str:
        # names in it may come from a foreign file
        return printable(super().__str__())


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# said of a run whose sources of pdefit were others than those that read it
OTHER_STATE = "another state of pdefit wrote this run: start again in a new folder; its estimate stays readable"


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Context manager that turns errors from restoring a saved state into one `PdefitError`.

    **Arguments:** `what`: the object that the state is restored into, for the message.
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise PdefitError(
            f"The saved state does not fit {what} ({first_line(error)}); it belongs to another one, or {OTHER_STATE}"
        ) from None


def printable(text: str) -> str:
    """Text with its control characters replaced by spaces; line ends stay."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def sentence(message: str) -> str:
    """A message on one line without control characters; beyond 1000 characters its middle is left out."""
    text = " ".join(printable(message).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def of_the_machine(error: BaseException, place: str = "") -> str | None:
    """One sentence about a failure of a disk, a permission or memory that is no fault of the program.

    **Arguments:**

    - `error`: the exception that ended the program.
    - `place`: the file or folder in use, for errors that name none.

    **Returns:** the sentence with its remedy; None for other errors.
    """
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
        return (
            f"There is not enough memory ({first_line(error)}); keep fewer checkpoints (adjoint.levels=3, or "
            f"driver=traced driver.memory='2 GB', or driver=hosted), run segments in turn (batch=loop), or use a smaller "
            f"grid or dtype=float32"
        )
    if not isinstance(error, OSError) or not error.strerror:
        return None
    name = error.filename or place
    where = f": '{name}'" if name else ""
    return f"{error.strerror}{where}; {_REMEDIES.get(error.errno or 0, 'correct it, then start again')}"


_FREE = "free space there, then start again, or go on with `pdefit resume RUN`"
_ALLOW = "make its folder writable, or choose another one"
_UNLOCK = "close the program that holds it; where a network storage knows no locks, set HDF5_USE_FILE_LOCKING=FALSE"
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FREE),
    errno.EFBIG: "allow larger files (ulimit -f), then start again, or go on with `pdefit resume RUN`",
    **dict.fromkeys((errno.EAGAIN, errno.ENOLCK), _UNLOCK),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _ALLOW),
}
# the messages of XLA, in an error of its own kind or inside an INTERNAL one
_NO_MEMORY = re.compile("RESOURCE_EXHAUSTED|out of memory|std::bad_alloc", re.IGNORECASE)
# characters of an error, at most
_LONGEST = 1000
# names that an error lists, at most
_SHOWN = 30


def with_space(unit: str) -> str:
    """The unit with a leading space, to follow a number; empty for the unit "1" of plain numbers."""
    return "" if unit in ("", "1") else f" {unit}"


def nearest(name: str, valid: Iterable[str]) -> list[str]:
    """Up to three valid names similar to `name`, ignoring case."""
    lower: dict[str, str] = {v.lower(): v for v in valid}
    return [lower[near] for near in get_close_matches(name.lower(), lower, n=3, cutoff=0.5)]


def unknown(kind: str, name: str, valid: Iterable[str]) -> PdefitError:
    """The error for an unknown name, with the most similar valid names.

    **Arguments:**

    - `kind`: the kind of thing that the name denotes, such as "variable" or "solver".
    - `name`: the name that was given.
    - `valid`: the names that exist.
    """
    valid = sorted(valid)
    near = nearest(name, valid)
    shown = ", ".join(valid[:_SHOWN]) + (f" and {len(valid) - _SHOWN} more" if len(valid) > _SHOWN else "")
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {shown or 'none'}."
    return PdefitError(f"No {kind} is called '{name}'; {hint}")
