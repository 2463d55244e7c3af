"""Two levels of tests: `./run pytest` runs quick and new ones, `./run pytest --rest` the others.

`seconds.json` decides. It holds the processor seconds of each test function, with its cases and the fixtures that it was the
first to need, from the last `./run pytest -n 0 --measure`: all tests in one process from empty caches, quick ones first. A
function below `QUICK` seconds is quick, and so is one that was not measured. A test marked `quick` always is: every family of
faults, kills and certificates keeps one.

Both levels are whole runs. Where files or folders are named, all their tests run.
"""

import json
import resource
import time
from pathlib import Path

import jax
import pytest

QUICK = 3.0
# functions below this many seconds are not written down
_LEAST = 0.5
_FILE = Path(__file__).with_name("seconds.json")
# programs that each level compiled from empty caches when this was last written, in all workers
_PROGRAMS = {"quick": 8_040, "rest": 9_600}

_compiled: list[int] = [0]


def _count(event: str, **_) -> None:
    _compiled[0] += event == "/jax/compilation_cache/cache_misses"


jax.monitoring.register_event_listener(_count)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("levels")
    group.addoption("--rest", action="store_true", help="run the tests that are not quick")
    group.addoption("--measure", action="store_true", help=f"run all tests and write {_FILE.name}; with -n 0")


def _is_whole(config: pytest.Config) -> bool:
    """A test for a run of all files, of which none is named."""
    return config.args == config.getini("testpaths")


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _seconds() -> dict[str, float]:
    return json.loads(_FILE.read_text()) if _FILE.is_file() else {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (_is_whole(config) or config.option.rest):
        return
    seconds = _seconds()
    quick = {
        item: seconds.get(_function(item.nodeid), 0.0) < QUICK or item.get_closest_marker("quick") is not None
        for item in items
    }
    if config.option.measure:
        items.sort(key=lambda item: not quick[item])
        return
    config.hook.pytest_deselected(items=[item for item in items if quick[item] is config.option.rest])
    items[:] = [item for item in items if quick[item] is not config.option.rest]


# --- measured seconds ---------------------------------------------------------------------------------------------------

_measured: dict[str, float] = {}


def _processor_seconds() -> float:
    """Of this process and of those that it started and waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    begin, name = _processor_seconds(), _function(item.nodeid)
    try:
        return (yield)
    finally:
        _measured[name] = _measured.get(name, 0.0) + _processor_seconds() - begin


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    _compiled[0] += node.workeroutput.get("compiled", 0)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write seconds, or fail a whole level that compiles a tenth more programs than were written down."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["compiled"] = _compiled[0]
        return
    if not _is_whole(config) or config.option.keyword or config.option.collectonly:
        return
    if config.option.measure:
        kept = {name: round(s, 1) for name, s in sorted(_measured.items()) if s >= _LEAST}
        _FILE.write_text(json.dumps(kept, indent=0) + "\n")
        return
    level = "rest" if config.option.rest else "quick"
    print(f"\n{_compiled[0]} programs compiled, {_PROGRAMS[level]} when last written down (tests/levels.py)")
    if _compiled[0] > 1.1 * _PROGRAMS[level] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
