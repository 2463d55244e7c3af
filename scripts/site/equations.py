r"""Equations as MathML, which browsers show without a script."""

import html as escapes
import re

from latex2mathml.converter import convert

# what pymdownx.arithmatex leaves of `$x$` and `$$x$$`
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def as_mathml(html: str) -> str:
    """A page with its equations in MathML.

    **Arguments:**

    - `html`: the content of a page.
    """
    html = _DISPLAY.sub(lambda found: f'<div class="equation">{_mathml(found[1], "block")}</div>', html)
    return _INLINE.sub(lambda found: _mathml(found[1], "inline"), html)


def _mathml(latex: str, display: str) -> str:
    return convert(escapes.unescape(latex).strip(), display=display)
