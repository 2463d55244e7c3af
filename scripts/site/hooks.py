"""Hooks of the documentation: pages made from the code, pictures from elsewhere, and equations as MathML."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

# importing pdefit loads JAX, which must not look for other devices while pages are written
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import api_pages
import configuration_page
import equations
import experiments_page
import links
import notebook_page
import pairs_page
import papers_page
import project_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that are not in docs/."""
    for uri, content in _generated():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Equations without a script, and links between the pages of the Python reference."""
    html = equations.as_mathml(html)
    return links.linked(html) if page.file.src_uri.startswith("reference/api/") else html


def _generated() -> Iterator[tuple[str, str | bytes]]:
    yield "reference/configuration.md", configuration_page.write(ROOT / "conf")
    yield "reference/pairs.md", pairs_page.write(ROOT / "tests")
    yield "reference/experiments.md", experiments_page.write(ROOT / "plugins", ROOT / ".pictures")
    papers, measured = (json.loads((ROOT / "docs" / f"{name}.json").read_text()) for name in ("papers", "measured"))
    yield "cases/reproduce-the-papers.md", papers_page.write(papers, measured)
    for name, text in api_pages.write():
        yield f"reference/api/{name}.md", text
    for picture in sorted((ROOT / ".pictures").glob("*.png")):
        yield f"pictures/{picture.name}", picture.read_bytes()
    yield from project_pages.write(ROOT)
    yield from notebook_page.write(ROOT / "examples" / "notebook.ipynb", "tutorials/notebook")
