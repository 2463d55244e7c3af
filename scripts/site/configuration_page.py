"""The reference of the configuration: from the classes of its sections, the comments in conf/, and the registry of names."""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import api_pages

import pdefit
from pdefit._util.expected import Read
from pdefit.cli.config import _registry
from pdefit.cli.config._reader import described
from pdefit.cli.config.settings import Settings

_INTRODUCTION = """# Configuration

All keys of an experiment, with their defaults and meaning. This page is made from the classes that read them, and from
`conf/config.yaml`. An experiment sets some of the keys, and the command line overrides both:

```bash
pdefit fit experiment=reaction/fisher_front seed=3 controls.D.guess=2.0 solver=tsit5
pdefit fit experiment=reaction/fisher_front --cfg job     # shows the composed configuration
```

A key that is written as `GROUP=NAME` takes a whole file of settings. Its own keys follow with a dot, as in
`adjoint.levels=3`. Numbers are in the units of the system.
"""
_KEY = re.compile(r"(?P<indent> *)(?P<key>[\w]+):\s*(?P<value>.*?)\s*(?:\s# (?P<comment>.*))?$")
_ARGUMENT = re.compile(r"^- (?P<keys>`\w+`(?:, `\w+`)*): (?P<text>.*?)(?=^- `|\Z)", re.MULTILINE | re.DOTALL)
# what stands in code: settings, mappings, names with an underscore or a dot, constants of YAML
_CODE = re.compile(
    r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|[\w./]+=[\w./-]+|(?<![\w/.])[a-z]\w*(?:[_.][A-Za-z]\w*)+\b"
    r"|\b(?:null|true|false|FIELD|NAME|PATH|NUMBER)\b"
)


class Entry(NamedTuple):
    """One key: its default, and what is said of it."""

    key: str
    value: str
    text: str


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
            words = [line[1:].strip() for line in above]
            yield Entry(found["key"], found["value"], " ".join([*words, found["comment"] or ""]).strip())
        above = []


def section_of(hint: Any) -> type | None:
    """The section whose keys a value of this type has, or each of its entries; None where it has none."""
    for part in (*getattr(hint, "__metadata__", ()), *typing.get_args(hint), hint):
        if isinstance(part, Read) and isinstance(part.expected, type):
            return part.expected
        if inspect.isclass(part) and dataclasses.is_dataclass(part) and part.__module__.startswith("pdefit.cli.config"):
            return part
    return None


def keys_of(section: type, without: Collection[str] = ()) -> list[str]:
    """Lines about the keys of a section: their types and defaults, and what the docstring of its class says.

    **Arguments:** `section`: its class; `without`: keys that are explained elsewhere.
    """
    hints = typing.get_type_hints(section, include_extras=True)
    defaults = {
        f.name: f.default for f in dataclasses.fields(section) if f.default not in (dataclasses.MISSING, None, ())
    }
    # a section says what it adds to the one that it is derived from
    docs = [inspect.cleandoc(of.__doc__ or "") for of in reversed(section.__mro__) if dataclasses.is_dataclass(of)]
    told = {
        found["keys"]: found["text"]
        for doc in docs
        for found in _ARGUMENT.finditer(doc.partition("**Arguments:**")[2].partition("\n\n**")[0])
    }
    lines = []
    for keys, words in told.items():
        names = re.findall(r"\w+", keys)
        if names[0] in without:
            continue
        stated = f", default `{_plain(defaults[names[0]])}`" if names[0] in defaults else ""
        text = _nulls(" ".join(words.split()))
        lines.append(f"- {keys}: {text} Expects {_typed(hints[names[0]])}{stated}.")
    return lines


def _nulls(text: str) -> str:
    """A text whose `null` is in code wherever it is not yet."""
    return "`".join(part if n % 2 else re.sub(r"\bnull\b", "`null`", part) for n, part in enumerate(text.split("`")))


def _plain(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, int | float | str) else _registry.snake_case(type(default).__name__)


def _typed(hint: Any) -> str:
    return _nulls(re.sub(r"\{.*?\}|\[\[.*\]\]", lambda found: f"`{found[0]}`", described(hint)))


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
    stated = {e.key: e for e in entries(text) if e.key not in ("defaults", "hydra")}
    parts = [_INTRODUCTION, "## Keys"]
    parts += [_entry(e) for key, e in stated.items() if key not in groups]
    parts += ["## Groups", "Each group is chosen by `GROUP=NAME`."]
    parts += [_group(folder / name, default, stated.get(name)) for name, default in groups.items()]
    parts += ["## Classes by name", _CLASSES]
    parts += [_kind(kind) for kind in _registry.KINDS]
    return "\n\n".join(part for part in parts if part) + "\n"


_CLASSES = """Wherever an object is expected, a configuration holds a mapping with its `name` and its arguments:
`{name: levenberg_marquardt, max_step: 0.5}`. Only these names are taken, so a configuration runs no other code. An argument
without a default must be given."""


def _entry(entry: Entry) -> str:
    default = "Must be given." if entry.value == "???" else f"Default `{entry.value or 'empty'}`."
    lines = [f"### `{entry.key}`", f"{default} {_sentence(entry.text)}"]
    hint = typing.get_type_hints(Settings, include_extras=True).get(entry.key)
    section = section_of(hint)
    if section is not None:
        lines.append("\n".join(keys_of(section)))
    return "\n\n".join(lines)


def _sentence(text: str) -> str:
    whole = coded(text[:1].upper() + text[1:])
    return whole if whole.endswith((".", ":")) else f"{whole}."


def _group(folder: Path, default: str, entry: Entry | None) -> str:
    parts = [f"### `{folder.name}=`", f"Default `{default}`."]
    if entry is not None:
        parts[-1] += f" {_sentence(entry.text)}"
    files = {file: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.yaml"))}
    section = section_of(typing.get_type_hints(Settings, include_extras=True).get(folder.name))
    explained = {key for text in files.values() for key, _, _ in _commented(text)}
    if section is not None and (lines := keys_of(section, explained)):
        parts.append("\n".join(lines))
    for file, text in files.items():
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
    for name in sorted(found):
        target = _registry.lookup(name, kind.base, "")
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
