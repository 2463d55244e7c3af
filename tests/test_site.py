"""The documentation: it builds strictly, holds every public name, and opens from a folder."""

import dataclasses
import fcntl
import inspect
import os
import re
import subprocess
from pathlib import Path

import browser
import numpy as np
import pytest
import yaml

import pdefit
from pdefit.cli.config import command_line
from pdefit.cli.config._controls import ControlSettings
from pdefit.cli.config.sources import DataSettings, Times
from pdefit.cli.config.stages import StageSettings

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The built site, one for all workers; that of PDEFIT_SITE, where it was built a moment ago."""
    if built := os.environ.get("PDEFIT_SITE"):
        return Path(built)
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra `docs`)")
    shared = tmp_path_factory.getbasetemp()
    # a worker's own folder lies in that of the whole run
    shared = shared.parent if shared.name.startswith("popen-") else shared
    with open(shared / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "site").exists():
            # --quiet would hide wrong anchors, also from --strict
            build = ["mkdocs", "build", "--strict", "--site-dir", str(shared / "site")]
            done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return shared / "site"


def _text(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text(encoding="utf-8")


def _public() -> list[str]:
    found = []
    for name in dir(pdefit):
        thing = getattr(pdefit, name)
        if not inspect.ismodule(thing):
            found.append(f"pdefit.{name}")
        elif thing.__name__ == f"pdefit.{name}":
            found += [f"pdefit.{name}.{n}" for n in dir(thing) if n[:1].isupper()]
    return found


def test_every_public_name_is_described(site):
    pages = "".join(page.read_text(encoding="utf-8") for page in (site / "reference" / "api").glob("*.html"))
    assert len(_public()) > 100
    assert [name for name in _public() if f'id="{name}"' not in pages] == []
    # arguments of a class without an `__init__` of its own
    signature = re.sub("<[^>]*>", "", pages.partition('id="pdefit.Problem"')[2][:4000])
    assert all(name in signature for name in inspect.signature(pdefit.Problem).parameters)


def test_every_key_and_every_verb_is_described(site):
    keys = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text(encoding="utf-8"))
    configuration = _text(site, "reference/configuration")
    groups = {name for entry in keys["defaults"] if isinstance(entry, dict) for name in entry}
    known = {name for name in groups | keys.keys() if not name.startswith("override")}
    known -= {"defaults", "hydra", "experiment"}
    assert len(known) > 25
    assert [name for name in sorted(known) if f'id="{name}"' not in configuration] == []
    fields = [
        f.name for section in (Times, DataSettings, StageSettings, ControlSettings) for f in dataclasses.fields(section)
    ]
    assert [name for name in fields if f"<code>{name}</code>" not in configuration] == []
    words = re.sub("<[^>]*>", "", _text(site, "reference/command-line"))
    assert all(f"pdefit {verb}" in words for verb in command_line.MODULES)


def test_pages_load_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"', text) == [], (
            page
        )
        assert "arithmatex" not in text, page
        # a number that was to be filled in
        assert re.findall(r"\{\{[^{}]*\|[^{}]*\}\}", text) == [], page
    assert "<math" in _text(site, "concepts/objective")


@pytest.mark.browser
def test_a_browser_opens_it_from_a_folder(site):
    with browser.opened() as chromium:
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")):
            page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            messages, requests = [], []
            page.on("console", lambda message, seen=messages: seen.append(message.text))
            page.on("pageerror", lambda error, seen=messages: seen.append(str(error)))
            page.on("request", lambda request, seen=requests: seen.append(request.url))
            for name in ("tutorials/your-equation", "concepts/pipeline", "reference/api/pdefit", "index"):
                page.goto((site / f"{name}.html").as_uri())
                page.wait_for_function("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert (np.mean([float(n) for n in re.findall(r"[\d.]+", paper)[:3]]) < 60) == (scheme == "dark")
            page.keyboard.press("s")
            page.keyboard.type("certificate")
            page.wait_for_selector(".md-search-result__item >> text=The certificate")
            assert messages == []
            assert {url.partition(":")[0] for url in requests} <= {"file", "data"}
            page.close()
