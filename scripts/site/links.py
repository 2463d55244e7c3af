"""Links from names in the Python reference to their entries."""

import re

import api_pages

# names in code that are not yet in a link; those without the prefix only if they begin with a capital letter
_CODE = re.compile(r"(?<!>)<code>((?:pdefit\.[\w.]+)|[A-Z]\w+)((?:\(\))?)</code>")


def linked(html: str) -> str:
    """The content of a page of the Python reference, with links.

    **Arguments:**

    - `html`: the content.
    """
    targets: dict[str, str] = {}
    for space, name, path in api_pages.paths():
        targets[path] = f"{space}.html#{path}"
        targets.setdefault(name, targets[path])

    def link(found: re.Match[str]) -> str:
        target = targets.get(found[1])
        return f'<a href="{target}">{found[0]}</a>' if target else found[0]

    return _CODE.sub(link, html)
