"""pdefit verify: checks of installed systems, as tables."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.runtime.plugins import systems
from pdefit.conformance.report import Verification
from pdefit.conformance.verify import verify

_STYLES = {"passed": "green", "FAILED": "bold red", "not applicable": "dim"}


def run_verify(names: list[str], console: Console) -> None:
    """Verify the systems of these names, or all; raises `PdefitError` if a check fails."""
    installed = systems()
    for name in names:
        if name not in installed:
            raise unknown("system", name, installed)
    failed = []
    for name in names or sorted(installed):
        report = verify(installed[name])
        _show(name, report, console)
        failed += [f"{name}: {f.name}" for f in report.failures]
    if failed:
        raise PdefitError(f"{len(failed)} of the checks failed ({'; '.join(failed)}); the table says what to do")


def _show(name: str, report: Verification, console: Console) -> None:
    if not report.verified:
        console.print(f"[bold]{escape(name)}[/]: unverified, it has no example")
        return
    table = Table(
        "check", "measured", "limit", "", title=f"{escape(name)} ({report.seconds:.1f} s)", title_justify="left"
    )
    table.box, table.title_style = None, "bold"
    for f in report.findings:
        measured = "" if f.measured is None else f"{f.measured:.2g}"
        outcome = f"[{_STYLES[f.outcome]}]{f.outcome}[/]"
        note = "" if f.passed else f"\n[dim]{escape(f.remedy)}[/]"
        table.add_row(escape(f.name) + note, measured, f.limit, outcome)
    console.print(table)
