"""The record of what was checked."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Check:
    """One comparison: the relative `error` found, the `limit` it must not exceed, and what a failure means. `note` says
    what else is wrong when the error itself is small enough."""

    name: str
    error: float
    limit: float
    passed: bool
    remedy: str = ""
    note: str = ""
    detail: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.error:.1e} (limit {self.limit:.1e}{self.note and ', ' + self.note})"


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What was checked, on which part of the problem (`scope`), and of what (`hashes` of equations, data and flags)."""

    checks: tuple[Check, ...]
    scope: dict[str, Any]
    hashes: dict[str, str]
    seconds: float

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def reason(self) -> str:
        """The failed checks and what to do about the first, in one sentence; empty when passed."""
        failed = [c for c in self.checks if not c.passed]
        return f"{'; '.join(map(str, failed))}; {failed[0].remedy}" if failed else ""

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for certificate.json."""
        return {"passed": self.passed, "reason": self.reason, **dataclasses.asdict(self)}


def at_most(name: str, error: float | int, limit: float, remedy: str) -> Check:
    """The check that an error is within its limit."""
    return Check(name, float(error), limit, bool(error <= limit), remedy)


def over(gap: float, size: float) -> float:
    """gap / size; 0 where both vanish, infinite where only the size does."""
    return gap / size if size > 0 else (0.0 if gap == 0 else float("inf"))
