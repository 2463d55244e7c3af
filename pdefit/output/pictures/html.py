"""Pieces of HTML; every text that comes from a file is escaped here."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any


def text(x: Any) -> str:
    """A value as text: numbers in five digits, what is unknown as a dash."""
    if x is None or x == "":
        return "&ndash;"
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, float):
        return f"{x:.5g}".replace("-", "&minus;")
    return escape(str(x))


def element(tag: str, *content: str, **attributes: str) -> str:
    """`<tag attributes>content</tag>`; the content is HTML, attributes are text. `class_` is written `class`."""
    named = "".join(f' {k.rstrip("_").replace("_", "-")}="{escape(v)}"' for k, v in attributes.items())
    return f"<{tag}{named}>{''.join(content)}</{tag}>"


def paragraph(content: str, **attributes: str) -> str:
    return element("p", content, **attributes) + "\n"


def section(title: str, *content: str) -> str:
    """A heading with what follows; nothing without content."""
    inside = "".join(content)
    return f"<section>\n{element('h2', escape(title))}\n{inside}</section>\n" if inside else ""


def table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], words: Sequence[int] = (), wide: Sequence[int] = ()
) -> str:
    """A table that scrolls sideways on small screens; columns `words` are set left, `wide` ones may break lines."""

    def cell(tag: str, i: int, content: str) -> str:
        kind = "wide" if i in wide else "text" if i in words else ""
        return element(tag, content, **({"class_": kind} if kind else {}))

    body = [element("tr", *(cell("td", i, text(x)) for i, x in enumerate(row))) for row in rows]
    top = element("tr", *(cell("th", i, escape(name)) for i, name in enumerate(header)))
    return _scrolling(element("table", element("thead", top), "\n", element("tbody", "\n".join(body)))) if body else ""


def pairs(rows: Iterable[tuple[str, Any]]) -> str:
    """Names and values, without those that are not known."""
    body = [
        element("tr", element("td", escape(name)), element("td", text(value), class_="wide"))
        for name, value in rows
        if value is not None
    ]
    return _scrolling(element("table", element("tbody", "\n".join(body)), class_="pairs")) if body else ""


def _scrolling(content: str) -> str:
    return element("div", content, class_="scroll", role="region", aria_label="table", tabindex="0") + "\n"


def picture(path: Path, alternative: str, caption: str) -> str:
    """A PNG inside the page."""
    image = f'<img src="data:image/png;base64,{_encoded(path)}" alt="{escape(alternative)}">'
    return element("figure", image, element("figcaption", escape(caption))) + "\n"


def movie(path: Path, alternative: str, caption: str, largest: int) -> str:
    """A movie inside the page, or beside it where it takes more than `largest` bytes."""
    if path.stat().st_size > largest:
        size = path.stat().st_size / 1e6
        link = element("a", escape(path.name), href=path.name)
        return paragraph(f"{escape(caption)} {link} ({size:.0f} MB) lies beside this page.")
    if path.suffix == ".gif":
        shown = f'<img src="data:image/gif;base64,{_encoded(path)}" alt="{escape(alternative)}">'
    else:
        source = f'<source src="data:video/mp4;base64,{_encoded(path)}" type="video/mp4">'
        told = f'controls loop muted playsinline preload="metadata" aria-label="{escape(alternative)}"'
        shown = f"<video {told}>{source}{escape(alternative)}</video>"
    return element("figure", shown, element("figcaption", escape(caption))) + "\n"


def code(content: str) -> str:
    return element("pre", element("code", escape(content))) + "\n"


def folded(title: str, *content: str) -> str:
    """What is there for those who ask."""
    inside = "".join(content)
    return element("details", element("summary", escape(title)), "\n", inside) + "\n" if inside else ""


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
