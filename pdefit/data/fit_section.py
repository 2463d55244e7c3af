"""The section `fit` of summary.json: size and structure of the residuals of a fit."""

import dataclasses
from typing import Any


def optional() -> Any:
    """Default of an entry that is written only if it is known."""
    return dataclasses.field(default=None, metadata={"optional": True})


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Held-out frames: chi2 per value, and the numbers of values and frames."""

    chi2_per_value: float | None = None
    values: int | None = None
    frames: int | None = None


@dataclasses.dataclass(frozen=True)
class CorrelationEntry:
    """A correlation of residuals, as in `Correlation`."""

    value: float | None = None
    spread: float | None = None
    pairs: int | None = None


@dataclasses.dataclass(frozen=True)
class StructureEntry:
    """A test for smooth structure, as in `Structure`."""

    variable: str = ""
    where: str = ""
    axes: list[str] = dataclasses.field(default_factory=list)
    excess: float | None = None
    size: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitSection:
    """Residuals of a fit, of one recording or of all together. Missing entries of a file are None.

    **Arguments:**

    - `chi2`, `values`, `chi2_per_value`: the sum of squared residuals, their number, and the ratio of both.
    - `whiteness`: correlations by variable and axis; None if they were not tested.
    - `suspects`: held values that explain the structure, as in `Suspect`.
    - `heldout`: the held-out frames; None if there are none.
    - `structure`: tests for smooth structure, the surest first.
    - `log_likelihood`: the log-likelihood with its constant.
    - `not_tested`: held values that were not tested, as sentences.
    """

    chi2: float | None = None
    values: int | None = None
    chi2_per_value: float | None = None
    whiteness: dict[str, dict[str, CorrelationEntry]] | None = None
    suspects: list[dict[str, Any]] | None = optional()
    heldout: HeldOut | None = None
    structure: list[StructureEntry] | None = optional()
    log_likelihood: float | None = None
    not_tested: list[str] | None = optional()
