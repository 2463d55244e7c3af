"""Which sensitivity algorithm to use, from what each was measured to take."""

from collections.abc import Sequence
from typing import Any

from pdefit._util.memory import in_words

# gradients that are right: the rest would fail a certificate
RIGHT = 1e-6
# an exact gradient may cost so much more time than an approximate one, and a smaller one than a larger
_WORTH_EXACT, _WORTH_SMALLER = 2.0, 1.5


def recommended(rows: Sequence[Any]) -> str:
    """The verdict in one sentence: of the gradients that are right and fit, the fastest; but an exact one rather than an
    approximate one, and one that holds less rather than more, where that costs little time."""
    right = [r for r in rows if r.error is not None and r.error <= RIGHT and r.fits]
    if not right:
        return "no algorithm is right and fits this machine: use a smaller grid, or adjoint=hosted"
    fastest = min(right, key=lambda r: r.seconds)
    exact = [r for r in right if r.accuracy < RIGHT and r.seconds <= _WORTH_EXACT * fastest.seconds]
    quick = min(exact, key=lambda r: r.seconds) if exact else fastest
    kind = exact or [fastest]
    chosen = min((r for r in kind if r.seconds <= _WORTH_SMALLER * quick.seconds), key=lambda r: r.peak_bytes)
    error = f"{chosen.error:.0e}" if chosen.error else "the last bit"
    reason = f"right to {error}, {chosen.seconds:.2g} s and {in_words(chosen.peak_bytes)} a gradient"
    if chosen is not fastest:
        but = "is not exact" if fastest.accuracy > chosen.accuracy else f"holds {in_words(fastest.peak_bytes)}"
        reason += f"; {fastest.algorithm} takes {fastest.seconds / chosen.seconds:.2g} of the time but {but}"
    wrong = [r.algorithm for r in rows if r.error is not None and not r.error <= RIGHT]
    if wrong:
        reason += f"; wrong by more than {RIGHT:.0e}: {', '.join(wrong)}"
    return f"use {chosen.algorithm} ({chosen.option}): {reason}"
