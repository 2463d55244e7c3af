"""The noise of a variable, as a configuration states it."""

import dataclasses
from typing import Annotated, Any

from pdefit._util.expected import Expected, is_number, is_text
from pdefit.inverse.fit.likelihoods import PredictedVariance

# stands for a number that is estimated
AUTOMATIC = "auto"
_PART = Expected("a number of 0 or more, or `auto`", lambda x: x is None or x == AUTOMATIC or (is_number(x) and x >= 0))


@dataclasses.dataclass(frozen=True)
class NoiseSettings:
    """The noise of a variable.

    **Arguments:**

    - `value`: its standard deviation: a number, or the name of a variable that holds it.
    - `certain`: whether chi2 alone may reject the model.
    - `constant`, `gain`, `relative`: parts of a variance that follows the prediction, as in `PredictedVariance`; `auto`
      estimates one.
    - `log_normal`: the standard deviation of the logarithm of the values; `auto` estimates it.
    """

    value: Annotated[
        Any, Expected("a number, or the name of a variable", lambda x: x is None or is_number(x) or is_text(x))
    ] = None
    certain: bool = False
    constant: Annotated[Any, _PART] = 0.0
    gain: Annotated[Any, _PART] = 0.0
    relative: Annotated[Any, _PART] = 0.0
    log_normal: Annotated[Any, _PART] = None

    def __post_init__(self) -> None:
        kinds = [self.value is not None, self._follows, self.log_normal is not None]
        if sum(kinds) != 1:
            raise ValueError("it expects one of value, log_normal, or some of constant, gain and relative")

    @property
    def _follows(self) -> bool:
        return any(x != 0 for x in (self.constant, self.gain, self.relative))

    @property
    def variance(self) -> PredictedVariance | None:
        """The variance that follows the prediction; None if the noise is constant."""
        parts = (None if x == AUTOMATIC else float(x) for x in (self.constant, self.gain, self.relative))
        return PredictedVariance(*parts) if self._follows else None


# noise that has a name
NAMED: dict[str, dict[str, Any]] = {
    "poisson": {"gain": 1.0},
    "negative_binomial": {"gain": 1.0, "relative": AUTOMATIC},
    "proportional": {"constant": AUTOMATIC, "relative": AUTOMATIC},
    "log_normal": {"log_normal": AUTOMATIC},
}
