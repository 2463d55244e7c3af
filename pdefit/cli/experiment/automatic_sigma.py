"""Which standard deviations the user states, and which are left to the data."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pdefit._util.errors import PdefitError, unknown
from pdefit.data.noise import NoiseEstimate

AUTO = "auto"


def split_sigma(node: Any, variables: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """From `data.sigma` to the entries that are stated, the variables whose sigma is `auto`, and those without any."""
    if node == AUTO:
        return {}, tuple(variables), ()
    if node is not None and not isinstance(node, Mapping):
        raise PdefitError(
            f"data.sigma expects an entry for each variable, e.g. {{u: 0.05}}, or `auto`, but got {node!r}"
        )
    given = dict(node or {})
    for name in given:
        if name not in variables:
            raise unknown("variable (data.sigma)", str(name), variables)
    automatic = tuple(name for name, sigma in given.items() if sigma == AUTO)
    stated = {name: sigma for name, sigma in given.items() if sigma != AUTO}
    return stated, automatic, tuple(name for name in variables if name not in given)


def describe(noise: Mapping[str, NoiseEstimate]) -> list[str]:
    """What to tell the user, one line for each variable."""
    return [
        f"sigma of {name} = {n.sigma:.3g} ±{n.error:.0%}, estimated from {n.count} differences of order {n.order} in time"
        + ("" if n.settled else "; still falling with the order: it may contain changes of the signal between frames")
        for name, n in noise.items()
    ]


def noise_summary(noise: Mapping[str, NoiseEstimate], unstated: tuple[str, ...]) -> dict[str, Any]:
    """The same for summary.json."""
    return {name: dataclasses.asdict(n) for name, n in noise.items()} | dict.fromkeys(unstated, "not stated")
