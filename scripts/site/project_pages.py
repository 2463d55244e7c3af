"""Pages that are files of the repository: benchmarks, changelog, contributing."""

import re
from collections.abc import Iterator
from pathlib import Path

_PAGES = {
    "project/benchmarks": "tests/benchmarks/README.md",
    "project/changelog": "CHANGELOG.md",
    "project/contributing": "CONTRIBUTING.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def write(root: Path) -> Iterator[tuple[str, str | bytes]]:
    """Pages and pictures by their paths in the site.

    **Arguments:**

    - `root`: the repository.
    """
    for page, source in _PAGES.items():
        file = root / source
        pictures: dict[str, bytes] = {}

        def link(found: re.Match[str], file: Path = file, pictures: dict[str, bytes] = pictures) -> str:
            shown, text, target = found.groups()
            if target.startswith(("https:", "http:", "#")):
                return found[0]
            if shown:
                pictures[f"project/{Path(target).name}"] = (file.parent / target).read_bytes()
                return f"![{text}]({Path(target).name})"
            # files that are no pages are named
            return f"`{text}`" if text == Path(target).name else f"{text} (`{target}`)"

        yield f"{page}.md", _LINK.sub(link, file.read_text(encoding="utf-8"))
        yield from pictures.items()
