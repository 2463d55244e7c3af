"""An executed notebook as a page: its text, its code and the outputs that it holds."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_STYLE = re.compile(r"<style.*?</style>", re.DOTALL)


def write(notebook: Path, page: str) -> Iterator[tuple[str, str | bytes]]:
    """The page and its pictures, by their paths in the site.

    **Arguments:**

    - `notebook`: the file.
    - `page`: path of the page in the site, without a suffix.
    """
    parts: list[str] = []
    folder, _, stem = page.rpartition("/")
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        source = _text(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source:
            parts.append(f"```python\n{source}\n```")
            for place, output in enumerate(cell["outputs"]):
                picture = f"{stem}_{number}_{place}.png"
                text, content = _output(output, picture)
                parts.append(text)
                if content is not None:
                    yield f"{folder}/{picture}", content
    parts.append(f"This page is `{notebook.parent.name}/{notebook.name}` of the repository, as it was executed.")
    yield f"{page}.md", "\n\n".join(part for part in parts if part) + "\n"


def _output(output: dict[str, Any], picture: str) -> tuple[str, bytes | None]:
    """Markdown of an output, and the picture that it refers to."""
    if output["output_type"] == "stream":
        return _block(_text(output["text"])), None
    if output["output_type"] == "error":
        raise ValueError(f"The notebook ends in an error: {output['ename']}: {output['evalue']}")
    data = output["data"]
    if "image/png" in data:
        return f"![Output]({picture})", base64.b64decode(_text(data["image/png"]))
    html = _text(data.get("text/html", ""))
    # the tables of xarray bring colours of their own, which are not those of a dark page
    if html and "xr-wrap" not in html:
        html = _STYLE.sub("", html).replace(' border="1"', "")
        # an empty line would end a block of HTML in Markdown
        html = "\n".join(line for line in html.splitlines() if line.strip())
        return f'<div class="notebook-output">\n{html}\n</div>', None
    return _block(_text(data.get("text/plain", ""))), None


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
