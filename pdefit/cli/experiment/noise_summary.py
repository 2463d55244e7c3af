"""Messages and summary of standard deviations that were estimated from the data."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pdefit.data.noise import NoiseEstimate


def describe(noise: Mapping[str, NoiseEstimate]) -> list[str]:
    """Messages for the user, one line for each variable."""
    return [
        f"sigma of {name} = {n.sigma:.3g} ±{n.error:.0%}, estimated from {n.count} differences of order {n.order} in time"
        + ("" if n.settled else "; still falling with the order: it may contain changes of the signal between frames")
        for name, n in noise.items()
    ]


def noise_summary(noise: Mapping[str, NoiseEstimate], unstated: tuple[str, ...]) -> dict[str, Any]:
    """Estimates for summary.json; fields without any sigma are `not stated`."""
    return {name: dataclasses.asdict(n) for name, n in noise.items()} | dict.fromkeys(unstated, "not stated")
