"""The Python reference: one page for each public namespace, with every public name."""

import inspect
from collections.abc import Iterator

import pdefit

# topics of the page of pdefit itself, by the rooms in which the names are defined; the first that fits counts
_TOPICS = (
    ("Equations and grids", ("pdefit.systems",)),
    ("Problems, data and twins", ("pdefit.inverse.problem", "pdefit.data")),
    ("Solving in time", ("pdefit.integrate",)),
    ("Controls and objectives", ("pdefit.inverse.controls", "pdefit.inverse.objective")),
    ("Fitting", ("pdefit.inverse.fit", "pdefit.inverse.optimizers")),
    ("Certificates and intervals", ("pdefit.inverse.certify", "pdefit.inverse.uncertainty")),
    ("Analysis", ("pdefit.analysis", "pdefit.lab")),
    ("Verification of a system", ("pdefit.conformance",)),
    ("Runs and experiments", ("pdefit.cli", "pdefit.output")),
    ("Safe operations and errors", ("pdefit._util",)),
)
_OTHERS = "More"


def names() -> dict[str, list[str]]:
    """Public names of each namespace. The modules among the names of `pdefit` are the namespaces."""
    top = {name: getattr(pdefit, name) for name in dir(pdefit)}
    spaces = {name: module for name, module in top.items() if inspect.ismodule(module)}
    found = {"pdefit": [name for name in top if name not in spaces]}
    return found | {name: sorted(n for n in dir(m) if _is_public(m, n)) for name, m in sorted(spaces.items())}


def _is_public(module: object, name: str) -> bool:
    return name[:1].isupper() or (not name.startswith("_") and inspect.isfunction(getattr(module, name)))


def paths() -> Iterator[tuple[str, str, str]]:
    """Namespace, name and dotted path of every public name."""
    for space, members in names().items():
        yield from (
            (space, name, f"pdefit.{name}" if space == "pdefit" else f"pdefit.{space}.{name}") for name in members
        )


def write() -> Iterator[tuple[str, str]]:
    """Name and Markdown of every page."""
    for space, members in names().items():
        yield space, _top(members, [*names()][1:]) if space == "pdefit" else _namespace(space, members)


def _namespace(space: str, members: list[str]) -> str:
    title = (inspect.getdoc(getattr(pdefit, space)) or "").splitlines()[0]
    parts = [f"# pdefit.{space}", title]
    return "\n\n".join([*parts, *(_entry(f"pdefit.{space}.{name}", 2) for name in _abstract_last(members))]) + "\n"


def _top(members: list[str], spaces: list[str]) -> str:
    topics: dict[str, list[str]] = {title: [] for title, _ in _TOPICS} | {_OTHERS: []}
    for name in members:
        module = getattr(getattr(pdefit, name), "__module__", "")
        topics[next((t for t, rooms in _TOPICS if module.startswith(rooms)), _OTHERS)].append(name)
    parts = [
        # a search finds this page before those that only mention a name
        "---\nsearch: {boost: 1.2}\n---",
        "# pdefit",
        "The names of `pdefit` itself, by topic. " + _spaces(spaces),
        "Importing pdefit changes nothing in JAX. Sums of squares need double precision, so a script begins with",
        '```python\nimport jax, pdefit\n\njax.config.update("jax_enable_x64", True)\n```',
    ]
    for title, found in topics.items():
        if found:
            parts += [f"## {title}", *(_entry(f"pdefit.{name}", 3) for name in sorted(found, key=str.lower))]
    return "\n\n".join(parts) + "\n"


def _spaces(spaces: list[str]) -> str:
    return f"What there is to choose from has namespaces of its own: {', '.join(f'[{s}]({s}.md)' for s in spaces)}."


def _abstract_last(members: list[str]) -> list[str]:
    return sorted(members, key=lambda name: (name.startswith("Abstract"), name.lower()))


def _entry(path: str, level: int) -> str:
    options = {"heading_level": level, "heading": path, "toc_label": path.rpartition(".")[2]}
    return "\n".join([f"::: {path}", "    options:", *(f"      {key}: {value}" for key, value in options.items())])
