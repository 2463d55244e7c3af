"""The reference of the configuration: from the comments in conf/, and from the registry of names."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import api_pages

import pdefit
from pdefit.cli.config import _registry

_INTRODUCTION = """# Configuration

All keys of an experiment, with their defaults and meaning. This page is made from `conf/config.yaml` and from the classes
themselves. An experiment sets some of the keys, and the command line overrides both:

```bash
pdefit fit experiment=reaction/fisher_front seed=3 controls.D.guess=2.0 solver=tsit5
pdefit fit experiment=reaction/fisher_front --cfg job     # shows the composed configuration
```

A key that is written as `GROUP=NAME` takes a whole file of settings. Its own keys follow with a dot, as in
`adjoint.levels=3`. Numbers are in the units of the system.
"""
_KEY = re.compile(r"(?P<indent> *)(?P<key>[\w]+):\s*(?P<value>.*?)\s*(?:\s# (?P<comment>.*))?$")
_ITEM = re.compile(r"#   (?P<keys>[a-z_]+(?:, [a-z_]+)*): (?P<text>.*)")
# what stands in code: settings, mappings, names with an underscore or a dot, constants of YAML
_CODE = re.compile(
    r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|[\w./]+=[\w./-]+|(?<![\w/.])[a-z]\w*(?:[_.][A-Za-z]\w*)+\b"
    r"|\b(?:null|true|false|FIELD|NAME|PATH|NUMBER)\b"
)


class Entry(NamedTuple):
    """One key: its default, what is said of it, and what is said of the keys below it."""

    key: str
    value: str
    text: str
    items: list[tuple[str, str]]


def entries(text: str) -> Iterator[Entry]:
    """Keys at the top of a YAML file with their comments.

    **Arguments:**

    - `text`: the content of the file.
    """
    above: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            above.append(line)
            continue
        if (found := _KEY.match(line)) and not found["indent"]:
            words, items = _comments(above)
            yield Entry(found["key"], found["value"], " ".join([*words, found["comment"] or ""]).strip(), items)
        above = []


def _comments(lines: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    words: list[str] = []
    items: list[tuple[str, str]] = []
    for line in lines:
        if item := _ITEM.match(line):
            items.append((item["keys"], item["text"]))
        elif items:
            keys, text = items.pop()
            items.append((keys, f"{text} {line[1:].strip()}"))
        else:
            words.append(line[1:].strip())
    return words, items


def coded(text: str) -> str:
    """A comment with its settings and names in code."""
    return _CODE.sub(lambda found: f"`{found[0]}`", text)


def write(folder: Path) -> str:
    """The page.

    **Arguments:**

    - `folder`: the configurations, conf/.
    """
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    groups = dict(re.findall(r"^  - (\w+): (\w+)$", text, re.MULTILINE))
    groups.pop("experiment")
    described = {e.key: e for e in entries(text) if e.key not in ("defaults", "hydra")}
    parts = [_INTRODUCTION, "## Keys"]
    parts += [_entry(e) for key, e in described.items() if key not in groups]
    parts += ["## Groups", "Each group is chosen by `GROUP=NAME`."]
    parts += [_group(folder / name, default, described.get(name)) for name, default in groups.items()]
    parts += ["## Classes by name", _CLASSES]
    parts += [_kind(kind) for kind in _registry.KINDS]
    return "\n\n".join(part for part in parts if part) + "\n"


_CLASSES = """Wherever an object is expected, a configuration holds a mapping with its `name` and its arguments:
`{name: levenberg_marquardt, max_step: 0.5}`. Only these names are taken, so a configuration runs no other code. An argument
without a default must be given."""


def _entry(entry: Entry) -> str:
    default = "Must be given." if entry.value == "???" else f"Default `{entry.value or 'empty'}`."
    lines = [f"### `{entry.key}`", f"{default} {_sentence(entry.text)}"]
    lines += ["\n".join(f"- {_names(keys)}: {coded(text)}" for keys, text in entry.items)] if entry.items else []
    return "\n\n".join(lines)


def _sentence(text: str) -> str:
    whole = coded(text[:1].upper() + text[1:])
    return whole if whole.endswith((".", ":")) else f"{whole}."


def _names(keys: str) -> str:
    return ", ".join(f"`{key}`" for key in keys.split(", "))


def _group(folder: Path, default: str, described: Entry | None) -> str:
    parts = [f"### `{folder.name}=`", f"Default `{default}`."]
    if described is not None:
        parts[-1] += f" {_sentence(described.text)}"
        parts += (
            ["\n".join(f"- {_names(keys)}: {coded(text)}" for keys, text in described.items)] if described.items else []
        )
    for file in sorted(folder.glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        first = next((line[1:].strip() for line in text.splitlines() if line.startswith("#")), "")
        lines = [f"`{file.stem}`", f":   {coded(first)}"]
        for key, value, comment in _commented(text):
            lines += ["", f"    - `{key}`, default `{value}`: {coded(comment)}"] if value != "???" else [
                "", f"    - `{key}`, must be given: {coded(comment)}"
            ]  # fmt: skip
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _commented(text: str) -> Iterator[tuple[str, str, str]]:
    """Keys of any depth that have a comment at the end of their line."""
    for line in text.splitlines():
        found = _KEY.match(line)
        if found and found["comment"] and not line.startswith("#"):
            yield found["key"], found["value"] or "empty", found["comment"]


def _kind(kind: _registry.Kind) -> str:
    found = _registry.names(kind.base)
    parts = [f"### {kind.word.capitalize()}"]
    for name, target in sorted(found.items()):
        arguments = ", ".join(_argument(p) for p in _parameters(target))
        known = f" ({arguments})" if arguments else ""
        parts.append(f"`{name}`{_link(target)}{known}\n:   {_first_line(target)}")
    return "\n\n".join(parts) if found else ""


def _parameters(target: Callable[..., object]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(target).parameters.values()
    except ValueError:
        return []
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not p.name.startswith("_")]


def _argument(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is parameter.empty:
        return f"`{parameter.name}`"
    if default is None or isinstance(default, bool):
        return f"`{parameter.name}: {str(default).lower().replace('none', 'null')}`"
    if isinstance(default, int | float | str | tuple):
        return f"`{parameter.name}: {list(default) if isinstance(default, tuple) else default}`"
    return f"`{parameter.name}: {_registry.snake_case(type(default).__name__)}`"


def _first_line(target: Callable[..., object]) -> str:
    doc = target.__doc__ if isinstance(target, type) else inspect.getdoc(target)
    paragraph = inspect.cleandoc(doc or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def _link(target: Callable[..., object]) -> str:
    for space, name, path in api_pages.paths():
        module = pdefit if space == "pdefit" else getattr(pdefit, space)
        if getattr(module, name) is target:
            return f" [{name}](api/{space}.md#{path})"
    return ""
