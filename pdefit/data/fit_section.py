"""The section `fit` of summary.json: the size and structure of what a fit leaves over."""

import dataclasses
from typing import Any


def optional() -> Any:
    """The default of an entry that is written only if it is known."""
    return dataclasses.field(default=None, metadata={"optional": True})


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Frames that were kept out of a fit: chi2 per value, and the numbers of values and frames."""

    chi2_per_value: float | None = None
    values: int | None = None
    frames: int | None = None


@dataclasses.dataclass(frozen=True)
class CorrelationEntry:
    """A correlation of residuals, as of `Correlation`."""

    value: float | None = None
    spread: float | None = None
    pairs: int | None = None


@dataclasses.dataclass(frozen=True)
class StructureEntry:
    """A test for smooth structure, as of `Structure`."""

    variable: str = ""
    where: str = ""
    axes: list[str] = dataclasses.field(default_factory=list)
    excess: float | None = None
    size: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitSection:
    """The residuals of a fit, of one recording or of all together. What a file lacks is None.

    **Arguments:**

    - `chi2`, `values`, `chi2_per_value`: the sum of squared residuals, their number, and the ratio of both.
    - `whiteness`: correlations by variable and axis; None if they were not tested.
    - `suspects`: held values that explain the structure, as of `Suspect`.
    - `heldout`: the frames that were kept out of the fit; None without any.
    - `structure`: tests for smooth structure, the surest first.
    - `log_likelihood`: with its constant.
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
