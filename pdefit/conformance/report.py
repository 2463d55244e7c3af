"""What a verification found, check by check."""

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Finding:
    """One check: the number that was `measured`, the `limit` it is held against, and what to do when it failed.

    `passed` is None where the check does not apply; `remedy` then says why.
    """

    name: str
    passed: bool | None
    measured: float | None
    limit: str
    remedy: str

    @property
    def outcome(self) -> str:
        return {True: "passed", False: "FAILED", None: "not applicable"}[self.passed]

    def __str__(self) -> str:
        number = "" if self.measured is None else f" {self.measured:.3g} (limit {self.limit})"
        return f"{self.outcome:<14} {self.name}{number}" + ("" if self.passed else f": {self.remedy}")


def at_most(name: str, measured: float | int, limit: float | int, remedy: str) -> Finding:
    """A number that must not exceed its limit; NaN does."""
    return Finding(name, bool(measured <= limit), float(measured), f"<= {limit:g}", remedy)


def at_least(name: str, measured: float | int, limit: float | int, remedy: str) -> Finding:
    """A number that must reach its limit; NaN does not."""
    return Finding(name, bool(measured >= limit), float(measured), f">= {limit:g}", remedy)


def rates_near(name: str, rates: Sequence[float], order: int, within: float, remedy: str) -> Finding:
    """Successive rates of convergence, each near the order; the worst is reported."""
    worst = max(rates, key=lambda rate: abs(rate - order) if math.isfinite(rate) else math.inf)
    shown = ", ".join(f"{rate:.2f}" for rate in rates)
    return Finding(
        name, bool(abs(worst - order) <= within), worst, f"{order} +- {within:g}", f"rates {shown}: {remedy}"
    )


def not_applicable(name: str, why: str) -> Finding:
    return Finding(name, None, None, "", why)


def broken(name: str, error: Exception) -> Finding:
    """A check that could not be made because the system raised an error."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return Finding(name, False, None, "no error", f"it raised {type(error).__name__}: {reason}")


@dataclasses.dataclass(frozen=True, repr=False)
class Verification:
    """The report on a system. One without an example is not `verified`: nothing failed, but nothing was checked either."""

    system: str
    verified: bool
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.passed is False)

    @property
    def passed(self) -> bool:
        """Verified, and no check failed."""
        return self.verified and not self.failures

    @property
    def headline(self) -> str:
        if not self.verified:
            return f"{self.system}: unverified, it has no example; implement pdefit.capabilities.AbstractVerifiable"
        count = sum(f.passed is not None for f in self.findings)
        return f"{self.system}: {count - len(self.failures)} of {count} checks passed in {self.seconds:.1f} s"

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {f}" for f in self.findings)])

    def __repr__(self) -> str:
        # pytest shows no more than the beginning of it
        return "; ".join(map(str, [*self.failures, self.headline]))
