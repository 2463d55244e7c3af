"""Report of a verification, check by check."""

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Finding:
    """Result of one check of a system.

    **Arguments:**

    - `name`: the checked property.
    - `passed`: None if the check does not apply to this system.
    - `measured`: the measured number; None if there is none.
    - `limit`: the limit of the number, in words.
    - `remedy`: the remedy for a failed check; the reason if it does not apply.
    """

    name: str
    passed: bool | None
    measured: float | None
    limit: str
    remedy: str

    @property
    def outcome(self) -> str:
        """`passed`, `FAILED` or `not applicable`."""
        return {True: "passed", False: "FAILED", None: "not applicable"}[self.passed]

    def __str__(self) -> str:
        number = "" if self.measured is None else f" {self.measured:.3g} (limit {self.limit})"
        return f"{self.outcome:<14} {self.name}{number}" + ("" if self.passed else f": {self.remedy}")


def at_most(name: str, measured: float | int, limit: float | int, remedy: str) -> Finding:
    """Finding on a number that must not exceed its limit; NaN fails."""
    return Finding(name, bool(measured <= limit), float(measured), f"<= {limit:g}", remedy)


def at_least(name: str, measured: float | int, limit: float | int, remedy: str) -> Finding:
    """Finding on a number that must reach its limit; NaN fails."""
    return Finding(name, bool(measured >= limit), float(measured), f">= {limit:g}", remedy)


def rates_near(name: str, rates: Sequence[float], order: int, within: float, remedy: str) -> Finding:
    """Finding on orders of convergence; the worst order counts.

    **Arguments:**

    - `name`, `remedy`: see `Finding`.
    - `rates`: log2 of the ratios of successive errors.
    - `order`, `within`: the expected order, and the tolerated deviation of a rate.
    """
    worst = max(rates, key=lambda rate: abs(rate - order) if math.isfinite(rate) else math.inf)
    shown = ", ".join(f"{rate:.2f}" for rate in rates)
    return Finding(
        name, bool(abs(worst - order) <= within), worst, f"{order} +- {within:g}", f"rates {shown}: {remedy}"
    )


def not_applicable(name: str, why: str) -> Finding:
    """Finding for a check that does not apply to a system, with the reason."""
    return Finding(name, None, None, "", why)


def broken(name: str, error: Exception) -> Finding:
    """Finding for a check that failed because the system raised an error."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return Finding(name, False, None, "no error", f"it raised {type(error).__name__}: {reason}")


@dataclasses.dataclass(frozen=True, repr=False)
class Verification:
    """Report on a system, with one finding for each check.

    **Arguments:**

    - `system`: name of its class.
    - `verified`: false for a class without an example: no check failed, but none was made.
    - `findings`: results of the checks.
    - `seconds`: the time of all checks, compilation included.

    As text it is a table; in an assertion of pytest the failures come first.
    """

    system: str
    verified: bool
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings of the checks that failed."""
        return tuple(f for f in self.findings if f.passed is False)

    @property
    def passed(self) -> bool:
        """True if the system was verified and no check failed."""
        return self.verified and not self.failures

    @property
    def headline(self) -> str:
        """Number of passed checks, on one line."""
        if not self.verified:
            return f"{self.system}: unverified, it has no example; implement pdefit.capabilities.AbstractVerifiable"
        count = sum(f.passed is not None for f in self.findings)
        return f"{self.system}: {count - len(self.failures)} of {count} checks passed in {self.seconds:.1f} s"

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {f}" for f in self.findings)])

    def __repr__(self) -> str:
        # failures first: pytest shows no more than the beginning
        return "; ".join(map(str, [*self.failures, self.headline]))
