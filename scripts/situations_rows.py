"""The rows of `scripts/situations.py`: what is fitted to what, and what is right to say of it, stated beforehand."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from omegaconf import OmegaConf
from situations_films import (
    Films,
    blur,
    blurred,
    correlated,
    drifting,
    exact,
    multiplicative,
    outlier,
    six_digits,
    white,
)

from pdefit.analysis.goodness.verdict import BOUNDED, FITTED, LIMITED, MISSES, NOISY, ROUNDED, STOPPED_AND_MISSES

Section = dict[str, Any]

# the parts of a reason, as patterns of which one must match
DIGITS = r"half the (step|cell)|digits|precision|float32"
HOW_MUCH = r"\bby [^;]*\d"


@dataclasses.dataclass(frozen=True)
class Row:
    """A situation: an experiment, what is done to its film, and what is right to say.

    **Arguments:**

    - `right`: what is right, in words.
    - `words`: the verdicts that are right; of a row with `missing` they follow from how visible the term is.
    - `config`: the experiment, a twin.
    - `reasons`: patterns that must all match the reasons.
    - `spoil`: makes from the twin's film without noise and random numbers what was measured. The fit then reads it from a
      file. None for the twin itself.
    - `sigma`: the standard deviation that this file states, as a part of each range; `auto`, or None for none.
    - `dtype`: of the numbers in this file.
    - `missing`: the parameter that the model lacks, or what the instrument does to the prediction.
    """

    right: str
    words: tuple[str, ...]
    config: Section
    reasons: tuple[str, ...] = ()
    spoil: Callable[[Films, np.random.Generator], Films] | None = None
    sigma: float | str | None = 0.02
    dtype: str = "float64"
    missing: str | Callable[[np.ndarray], np.ndarray] | None = None


def changed(base: Section, **sections: Any) -> Section:
    """An experiment with other entries in some of its sections."""
    return OmegaConf.to_container(OmegaConf.merge(base, sections))  # pyright: ignore


def _perturbed(*names: str, low: float = 0.7, high: float = 1.4, bounds: tuple[float, float] | None = None) -> Section:
    one = {"transform": "log", "guess": {"perturb": [low, high]}} | ({"bounds": list(bounds)} if bounds else {})
    return dict.fromkeys(names, one)


# --- experiments ----------------------------------------------------------------------------------------------------------

FRONT: Section = {
    "defaults": [{"override /twin": "independent"}],
    "system": {"name": "front", "grid": {"shape": [60], "extent": [30.0], "origin": [-10.0], "length_unit": "mm"}},
    "times": {"start": 0.0, "stop": 5.0, "count": 13},
    "noise": 0.02,
    "dt": 0.04,
    "controls": _perturbed("D", "r", bounds=(0.3, 2.0)),
}
LARGE = changed(FRONT, system={"grid": {"shape": [120]}}, times={"count": 65}, dt=0.02)
LARGEST = changed(LARGE, times={"count": 84})
SMALL = changed(FRONT, observe={"name": "subsample", "stride": [5]}, times={"count": 5})
PLANE = changed(
    FRONT, system={"grid": {"shape": [48, 16], "extent": [24.0, 8.0], "origin": [-8.0, 0.0]}}, times={"count": 9}
)
FREE = {"y0": {"u": {"guess": "data"}}}
KDV: Section = {
    "defaults": [
        {"/system": "classics/korteweg_de_vries"},
        {"override /twin": "independent"},
        {"override /solver": "etdrk4"},
    ],
    "system": {"grid": {"shape": [64]}, "speed": 0.3},
    "twin": {"solver": {"name": "etdrk4"}, "dt": 0.002},
    "times": {"start": 0.0, "stop": 1.0, "count": 21},
    "noise": 0.02,
    "dt": 0.01,
    "controls": _perturbed("advection", "dispersion", low=0.8, high=1.2),
}
KS: Section = {
    "defaults": [
        {"/system": "classics/kuramoto_sivashinsky"}, {"override /twin": "independent"}, {"override /solver": "etdrk4"},
    ],
    "system": {"grid": {"shape": [64], "extent": [50.26548245743669]}},
    "twin": {"solver": {"name": "etdrk4"}, "dt": 0.02},
    "times": {"start": 0.0, "stop": 20.0, "count": 21},
    "noise": 0.0,
    "dt": 0.1,
    "controls": _perturbed("advection", "growth", "damping", low=0.9, high=1.1),
}  # fmt: skip
WAVE: Section = {
    "defaults": [{"override /twin": "independent"}],
    "system": {
        "name": "schroedinger",
        "grid": {"name": "fourier_grid", "shape": [64], "extent": [12.0], "origin": [-6.0]},
    },
    "times": {"start": 0.0, "stop": 1.5, "count": 16},
    "noise": 0.0,
    "dt": 0.005,
    "controls": _perturbed("a", "b", low=0.8, high=1.2),
}
LORENZ: Section = {
    "defaults": [{"override /twin": "independent"}],
    "system": {"name": "convection"},
    "twin": {"refine": 1},
    "times": {"start": 0.0, "stop": 2.0, "count": 41},
    "noise": 0.02,
    "dt": 0.01,
    "controls": _perturbed("sigma", "rho", "beta", low=0.9, high=1.1),
}
# one lobe further a search from these guesses ends in another minimum
ASTRAY = changed(
    LORENZ,
    defaults=[{"override /twin": "independent"}, {"override /stages": "levenberg_marquardt"}],
    times={"stop": 3.0, "count": 61},
    controls={name: {"guess": guess} for name, guess in (("sigma", 11.5), ("rho", 25.5), ("beta", 2.1))},
)
HIDDEN: Section = {
    "defaults": [{"override /twin": "independent"}],
    "twin": {"refine": 1},
    "system": {"name": "nerve", "grid": {"shape": [48], "extent": [48.0]}},
    "times": {"start": 0.0, "stop": 24.0, "count": 25},
    "noise": 0.02,
    "dt": 0.2,
    "observe": {"name": "select", "fields": ["v"]},
    "controls": {
        **_perturbed("eps", "beta"),
        "y0": {"v": {"guess": "data"}, "w": {"guess": -0.6, "prior": {"normal": [-0.6, 0.5]}}},
    },
    "regularizers": {"smooth": {"name": "h1", "control": "y0.w", "weight": 20000.0}},
}
PLUME: Section = {
    "defaults": [{"override /twin": "independent"}],
    "system": {"name": "plume", "grid": {"shape": [48], "extent": [24.0], "length_unit": "mm"}},
    "times": {"start": 0.0, "stop": 6.0, "count": 16},
    "noise": 0.02,
    "dt": 0.1,
    "controls": _perturbed("D", "speed", "decay"),
}
POND = changed(
    PLUME,
    twin={"refine": 1},
    system={"grid": {"shape": [20, 20], "extent": [10.0, 10.0]}},
    times={"stop": 2.0, "count": 9},
    controls={"y0": {"u": {"guess": "data", "modes": 40}}},
)
FLOW: Section = {
    "defaults": [{"/system": "flow/navier_stokes"}, {"override /twin": "self"}, {"override /solver": "rk4"}],
    "system": {"grid": {"shape": [16, 16]}, "viscosity": 0.05, "drag": 0.1},
    "initial": {"name": "flow/spin_up", "duration": 5.0},
    "times": {"start": 0.0, "stop": 2.0, "count": 9},
    "noise": 0.02,
    "dt": 0.05,
    "controls": _perturbed("viscosity", "drag"),
}


# --- rows -----------------------------------------------------------------------------------------------------------------

RIGHT = "fitted to the noise"
TOLD = (FITTED, NOISY, MISSES)
SEEN = "misses structure where a score test along the term exceeds 5, fitted to the noise where it is below 3"


def _right(config: Section, **more: Any) -> Row:
    return Row(RIGHT, (FITTED,), config, **more)


def _coarse(config: Section, **more: Any) -> Row:
    return Row(
        "the discretisation decides, whatever the residuals show",
        (*TOLD, LIMITED),
        config,
        (r"cell width|grid",),
        **more,
    )


def _clean(config: Section, **more: Any) -> Row:
    return Row(
        "limited by the discretisation or by the file's digits",
        (FITTED, LIMITED, ROUNDED),
        config,
        (DIGITS, HOW_MUCH),
        **more,
    )


def _lacks(config: Section, term: str, value: float, **more: Any) -> Row:
    return Row(SEEN, TOLD, changed(config, twin={"system": {term: value}}), missing=term, **more)


def _noise(right: str, reason: str, words: tuple[str, ...] = TOLD, **more: Any) -> Row:
    return Row(right, words, FRONT, (reason,), **more)


ROWS: Mapping[str, Row] = {
    # right fits
    "front_60": _right(SMALL),
    "front_780": _right(FRONT),
    "front_10000": _right(LARGEST),
    "front_file": _right(FRONT, spoil=white),
    "front_sigma_auto": _right(FRONT, spoil=white, sigma="auto"),
    "front_float32": _right(changed(FRONT, dtype="float32")),
    "front_initial_modes": _right(changed(FRONT, controls={"y0": {"u": {"guess": "data", "modes": 20}}})),
    "kdv": _right(KDV),
    "kdv_initial_modes": _right(changed(KDV, controls={"y0": {"u": {"guess": "data", "modes": 24}}})),
    "lorenz": _right(LORENZ),
    "hidden": _right(HIDDEN),
    "pond_initial_modes": _right(POND),
    # cells so large that estimates are many standard errors from the truth
    "front_coarse": _coarse(changed(LARGEST, system={"grid": {"shape": [40]}}, noise=0.005, dt=0.08)),
    "hidden_coarse": _coarse(changed(HIDDEN, twin={"refine": 2})),
    "pond_coarse": _coarse(changed(POND, twin={"refine": 2}, system={"grid": {"shape": [14, 14]}})),
    # data without noise
    "front_clean": _clean(changed(FRONT, noise=0.0)),
    "front_clean_digits": _clean(FRONT, spoil=six_digits, sigma=None),
    "kdv_clean": _clean(changed(KDV, noise=0.0)),
    "kdv_clean_float32": _clean(KDV, spoil=exact, sigma=None, dtype="float32"),
    "ks_clean_float32": _clean(KS, spoil=exact, sigma=None, dtype="float32"),
    "schroedinger_clean": _clean(WAVE),
    "schroedinger_clean_float32": _clean(WAVE, spoil=exact, sigma=None, dtype="float32"),
    "schroedinger_clean_digits": _clean(WAVE, spoil=six_digits, sigma=None),
    # a term is missing
    "growth1_780": _lacks(FRONT, "growth", 0.01),
    "growth1_7800": _lacks(LARGE, "growth", 0.01),
    "growth1_7800_file": _lacks(LARGE, "growth", 0.01, spoil=white),
    "growth2_780": _lacks(FRONT, "growth", 0.02),
    "growth5_780": _lacks(FRONT, "growth", 0.05),
    "drift1_780": _lacks(FRONT, "drift", 0.02),
    "drift10_7800": _lacks(LARGE, "drift", 0.2),
    "cubic1_7800": _lacks(LARGE, "cubic", 0.01),
    "cubic5_780": _lacks(FRONT, "cubic", 0.05),
    "cubic5_7800": _lacks(LARGE, "cubic", 0.05),
    "lorenz_constant": _lacks(LORENZ, "constant", 0.1),
    "plume_source_weak": _lacks(PLUME, "source", 0.01),
    "pond_source": _lacks(POND, "source", 0.1),
    # a force is omitted
    "plume_source": _lacks(PLUME, "source", 0.1),
    "flow_force": Row(
        "misses structure; a source may be missing", (MISSES, STOPPED_AND_MISSES),
        changed(FLOW, twin={"system": {"force": {"name": "flow/kolmogorov_force", "amplitude": 0.012, "wavenumber": 2}}}),
        (r"source|force",),
    ),
    # other
    "lorenz_wrong_minimum": Row(
        "residuals are n times sigma; the search may have ended in a wrong minimum", (MISSES, STOPPED_AND_MISSES),
        ASTRAY, (r"minimum", r"other starts"),
    ),
    "front_initial_free": Row(
        "the initial state follows the noise; a prior is proposed", TOLD,
        changed(FRONT, controls=FREE), (r"prior|modes|smoothing",),
    ),
    "plane_blurred": Row(SEEN, TOLD, PLANE, spoil=blurred, sigma=0.01, missing=blur),
    "plane_blurred_initial_modes": Row(
        SEEN, TOLD, changed(PLANE, controls={"y0": {"u": {"guess": "data", "modes": 40}}}),
        spoil=blurred, sigma=0.01, missing=blur,
    ),
    "not_identifiable": Row(
        "D is not identifiable", (FITTED,), changed(FRONT, system={"uniform": True}), (r"\bD\b.*identif|identif.*\bD\b",)
    ),
    "at_bound": Row(
        "r ends at its bound", (BOUNDED, NOISY, MISSES), changed(FRONT, controls={"r": {"guess": 0.7, "bounds": [0.3, 0.9]}}),
        (r"\br\b.*bound|bound.*\br\b",),
    ),
    "lorenz_windows": Row(
        "windows that start from noisy data enlarge and correlate residuals", TOLD,
        changed(
            LORENZ,
            defaults=[{"override /twin": "independent"}, {"override /formulation": "segments"}],
            formulation={"length": 0.5},
        ),
        (r"windows",),
    ),
    # noise that is not what was stated
    "noise_correlated": _noise("correlated in time", r"correlated (along|in) time", spoil=correlated),
    "noise_multiplicative": _noise("noise grows with the signal", r"multiplicative|grows? with", spoil=multiplicative),
    "noise_outlier": _noise("one frame is an outlier", r"\bframe\b", spoil=outlier),
    "noise_drift": _noise("a baseline that drifts", r"drift|offset|baseline|trend", spoil=drifting),
    "sigma_half": _noise("sigma is too small", r"sigma", (NOISY,), spoil=white, sigma=0.01),
    "sigma_double": _noise("sigma is too large", r"sigma", (NOISY,), spoil=white, sigma=0.04),
}  # fmt: skip
