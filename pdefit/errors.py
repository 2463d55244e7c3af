"""The one error a user is meant to read."""

from collections.abc import Iterable
from difflib import get_close_matches


class PdefitError(Exception):
    """A mistake in input or configuration: what was expected, what came, what to do, in one sentence.

    The command line prints it without a traceback; anything else is a bug and keeps its traceback.
    """


def unknown(kind: str, name: str, valid: Iterable[str]) -> PdefitError:
    """The error for a name that does not exist, with the nearest names that do."""
    valid = sorted(valid)
    near = get_close_matches(name, valid, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(valid) or 'none'}."
    return PdefitError(f"No {kind} is called '{name}'; {hint}")
