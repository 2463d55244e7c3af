"""What a gradient stores and runs again, before it runs: plain numbers."""

from typing import NamedTuple


class Account(NamedTuple):
    """One gradient along one trajectory.

    `schedule` in words; `stored` states held at the peak; `padded` steps of one pass, those of zero length included;
    `forward` passes and `reverse` passes: a reverse pass is the transpose of every step, beside the forward passes that it
    needs.
    """

    schedule: str
    stored: int
    padded: int
    forward: float
    reverse: float
