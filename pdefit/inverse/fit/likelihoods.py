"""Variances that follow the prediction: counts, and noise that grows with the signal."""

import dataclasses

import numpy as np
import scipy
from jaxtyping import Bool, Float

from pdefit._util.errors import PdefitError

# standard deviations are kept above this part of the largest, and counts above this part of one, or a dark pixel would decide
_LEAST, _LEAST_COUNT = 1e-6, 1e-2
# an estimated part of the noise begins at this part of the range, and is sought over so many decades about it
_FIRST, _DECADES = 0.05, 4.0


@dataclasses.dataclass(frozen=True)
class PredictedVariance:
    """The variance constant^2 + gain * m + (relative * m)^2 of a measured value whose expected value is m.

    For counts (`Poisson`, `NegativeBinomial`) and for noise that grows with the signal (`Proportional`). Not for noise of
    constant size, which is sigma; nor for multiplicative noise with a normal logarithm.

    **Arguments:**

    - `constant`: the standard deviation of the signal-independent part, in the unit of the values.
    - `gain`: the variance for each unit of the signal, in the unit of the values.
    - `relative`: the standard deviation of the proportional part, relative to the signal.

    None stands for a part that is estimated from residuals.
    """

    constant: float | None = 0.0
    gain: float | None = 0.0
    relative: float | None = 0.0

    def __post_init__(self):
        given = [x for x in self._parts if x is not None]
        if any(not 0 <= x < np.inf for x in given) or not any(x is None or x > 0 for x in self._parts):
            raise PdefitError(
                "A variance by the prediction expects constant, gain and relative of 0 or more, one of them above 0, but got "
                + ", ".join(f"{n}={x}" for n, x in zip(("constant", "gain", "relative"), self._parts, strict=True))
            )

    @property
    def _parts(self) -> tuple[float | None, ...]:
        return self.constant, self.gain, self.relative

    @property
    def is_estimated(self) -> bool:
        """True if a part is estimated from residuals."""
        return None in self._parts

    def at_data(self, values: Float[np.ndarray, "..."], mask: Bool[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Standard deviations evaluated at the data, for the start of a fit.

        **Arguments:** `values`, `mask`: the measured values, and whether each is known.
        """
        size = max(float(np.max(np.abs(values[mask]), initial=0.0)), np.finfo(float).tiny)
        begin = tuple(f if x is None else x for x, f in zip(self._parts, _begin(size), strict=True))
        # a count of nothing has an expected value of about one
        least = self.gain or 0.0
        return PredictedVariance(*begin).sigma(np.maximum(np.abs(values), least))

    def sigma(self, predicted: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Standard deviations evaluated at the predicted signal.

        **Arguments:** `predicted`: the signal, in the unit of the values. Negative values count as zero.
        """
        constant, gain, relative = (x or 0.0 for x in self._parts)
        signal = np.maximum(predicted, _LEAST_COUNT * gain)
        found = np.sqrt(constant**2 + gain * signal + (relative * np.abs(predicted)) ** 2)
        return np.maximum(found, _LEAST * max(float(np.max(found, initial=0.0)), np.finfo(float).tiny))

    def estimated(
        self, predicted: Float[np.ndarray, " n"], residuals: Float[np.ndarray, " n"], unknowns: int | float
    ) -> "PredictedVariance":
        """The variance with its unknown parts estimated by maximum likelihood of normal residuals.

        **Arguments:**

        - `predicted`, `residuals`: the signal and the residuals of the values, (n,).
        - `unknowns`: the degrees of freedom used up by the fit of these values, which makes residuals too small: the
          trace of the hat matrix over them.

        Source: M. Davidian, R. J. Carroll (1987), doi:10.1080/01621459.1987.10478543.
        """
        if not self.is_estimated or not predicted.size:
            return self
        squares = residuals**2 * predicted.size / max(predicted.size - unknowns, 1)
        size = max(float(np.max(np.abs(predicted))), np.finfo(float).tiny)
        if self._parts == (None, 0.0, 0.0):
            return PredictedVariance(constant=max(float(np.sqrt(np.mean(squares))), _LEAST * size))
        begin = np.array(_begin(size))
        free = [k for k, x in enumerate(self._parts) if x is None]

        def at(logs: np.ndarray) -> "PredictedVariance":
            parts = list(self._parts)
            for k, x in zip(free, logs, strict=True):
                parts[k] = float(np.exp(x))
            return PredictedVariance(*parts)

        def unlikely(logs: np.ndarray) -> float:
            variance = at(logs).sigma(predicted) ** 2
            return float(np.sum(squares / variance + np.log(variance)))

        start, reach = np.log(begin[free]), _DECADES * np.log(10.0)
        found = scipy.optimize.minimize(
            unlikely,
            start,
            method="Nelder-Mead",
            bounds=[(x - reach, x + reach) for x in start],
            options={"xatol": 1e-4, "fatol": 1e-6, "maxiter": 500},
        )
        return at(found.x)

    def __str__(self) -> str:
        parts = {"constant": self.constant, "gain": self.gain, "relative": self.relative}
        return ", ".join(f"{n} {'estimated' if x is None else f'{x:.3g}'}" for n, x in parts.items() if x != 0)


def Poisson(gain: float = 1.0, constant: float = 0.0) -> PredictedVariance:
    """The variance of counts, which equals their expected value.

    For photons, cells, cases. `gain` and `constant` serve the grey values of a camera. Repeated weighted fits converge
    to the maximum likelihood for Poisson counts, and their matrix is the Fisher information.

    **Arguments:**

    - `gain`: the value of one count; default 1.
    - `constant`: the standard deviation of the readout noise, in the unit of the values; default 0.

    Source: J. Nelder, R. Wedderburn (1972), doi:10.2307/2344614.
    """
    return PredictedVariance(constant=constant, gain=gain)


def NegativeBinomial(k: float | None = None) -> PredictedVariance:
    """The variance m + m^2 / k of overdispersed counts with the expected value m.

    For cases, animals and reads, which come in clusters. The fit follows the mean and the variance of this law, and not
    its probabilities.

    **Arguments:**

    - `k`: the size parameter of the negative binomial; None (the default) estimates it.

    Source: J. O. Lloyd-Smith (2007), doi:10.1371/journal.pone.0000180.
    """
    if k is not None and not k > 0:
        raise PdefitError(f"NegativeBinomial expects k above 0, but got {k:g}; leave it out to estimate it")
    return PredictedVariance(gain=1.0, relative=None if k is None else k**-0.5)


def Proportional(relative: float | None = None, constant: float | None = None) -> PredictedVariance:
    """The variance of noise that grows with the signal, above a constant noise.

    For concentrations and intensities over decades. Its parts are estimated by default, which takes some hundred
    values.

    **Arguments:**

    - `relative`: the standard deviation relative to the signal; None (the default) estimates it.
    - `constant`: the standard deviation of the rest, in the unit of the values; None (the default) estimates it.
    """
    return PredictedVariance(constant=constant, relative=relative)


def _begin(size: float) -> tuple[float, float, float]:
    """Initial constant, gain and relative noise for values of a given size."""
    return _FIRST * size, _FIRST**2 * size, _FIRST
