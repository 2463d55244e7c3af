"""The record of a certificate: its checks and their scope."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of a certificate: an error and the limit that it must not exceed.

    **Arguments:**

    - `name`: the two compared quantities.
    - `error`: the relative error found.
    - `limit`: the largest accepted error.
    - `passed`: whether the check passed.
    - `remedy`: the meaning of a failure, and what to do about it.
    - `note`: a further finding, such as one that fails the check although the error is small.
    - `detail`: the numbers behind the error.
    """

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
    """Evidence that the derivatives of a fit are correct, made by `certify`.

    **Arguments:**

    - `checks`: the checks, each with error, limit and remedy.
    - `scope`: the part of the record on which controls were checked one by one.
    - `hashes`: SHA-256 of equations, data and flags.
    - `seconds`: the time it took.
    """

    checks: tuple[Check, ...]
    scope: dict[str, Any]
    hashes: dict[str, str]
    seconds: float

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def reason(self) -> str:
        """The failed checks and the remedy of the first, in one sentence; empty if all passed."""
        failed = [c for c in self.checks if not c.passed]
        return f"{'; '.join(map(str, failed))}; {failed[0].remedy}" if failed else ""

    def record(self) -> dict[str, Any]:
        """Entries of certificate.json."""
        return {"passed": self.passed, "reason": self.reason, **dataclasses.asdict(self)}


def at_most(name: str, error: float | int, limit: float, remedy: str) -> Check:
    """Check that an error is at most its limit.

    **Arguments:** as in `Check`.
    """
    return Check(name, float(error), limit, bool(error <= limit), remedy)


def over(gap: float, size: float) -> float:
    """Ratio gap / size; 0 if both vanish, infinite if only the size does."""
    return gap / size if size > 0 else (0.0 if gap == 0 else float("inf"))
