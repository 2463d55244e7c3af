"""Words after a verb that Hydra reads: flags, and settings as key=value."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pdefit._util.errors import PdefitError

# verbs configured by Hydra, which make a run directory
VERBS = ("fit", "simulate", "plan", "compare-adjoints", "sensitivity", "certify", "doctor")
# flags of Hydra that are allowed, and their values; others read pickles or other primary configurations
_ALONE = ("-m", "--multirun", "--resolve", "-h", "--help")
_KINDS = ("job", "hydra", "all")
_WITH = {
    **dict.fromkeys(("-c", "--cfg"), "job, hydra or all"),
    **dict.fromkeys(("-p", "--package"), "a section of the configuration"),
    **dict.fromkeys(("-cd", "--config-dir"), "a folder of configurations"),
}
_SHOWN = "-m (a sweep), --cfg job (shows the configuration), --config-dir FOLDER (your own) and --help"


class NamedFiles(NamedTuple):
    """Files that stand alone on a command line: one of equations, one of an experiment; None where there is none."""

    equations: Path | None
    experiment: Path | None


def files(words: Sequence[str]) -> tuple[NamedFiles, list[str]]:
    """Files named by words that end in `.py` and `.yaml`, and all other words."""
    found: dict[str, list[str]] = {".py": [], ".yaml": []}
    rest = []
    # the word after a flag belongs to that flag
    for before, word in zip(["", *words], words, strict=False):
        ending = Path(word).suffix.replace(".yml", ".yaml")
        plain = "=" not in word and not word.startswith("-") and before not in _WITH
        found[ending].append(word) if plain and ending in found else rest.append(word)
    for ending, what in ((".py", "of equations"), (".yaml", "of an experiment")):
        if len(found[ending]) > 1:
            raise PdefitError(f"One file {what} is expected, but got {' and '.join(found[ending])}")
    return NamedFiles(*(Path(found[e][0]) if found[e] else None for e in (".py", ".yaml"))), rest


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags with their values, and settings."""
    flags: list[str] = []
    settings: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            settings.append(_setting(word))
            continue
        flag, equals, value = word.partition("=")
        if flag not in (*_ALONE, *_WITH) or (equals and flag in _ALONE):
            raise _unknown(flag, value or (rest[0] if rest else ""))
        flags.append(flag)
        if flag in _WITH:
            value = value if equals or not rest else rest.pop(0)
            if not value or value.startswith("-") or (flag in ("-c", "--cfg") and value not in _KINDS):
                raise PdefitError(f"{flag} expects {_WITH[flag]}, but got '{value}'")
            flags.append(value)
    return flags, settings


def folders(flags: Sequence[str]) -> list[str]:
    """Folders of configurations that flags name."""
    return [value for flag, value in zip(flags, flags[1:], strict=False) if flag in ("-cd", "--config-dir")]


def _setting(word: str) -> str:
    if re.fullmatch(r"\+*experiment=\[.*\]", word):
        raise PdefitError(
            f"experiment expects one name, but got '{word}'; -m experiment=NAME,NAME runs one after the other"
        )
    # Hydra refuses null for a group; here it can only mean that nothing is left out
    return "observe=all" if word == "observe=null" else word


def _unknown(flag: str, value: str) -> PdefitError:
    name = flag.lstrip("-")
    plain = flag.startswith("--") and re.fullmatch(r"[a-z_]+", name) and not value.startswith("-")
    meant = f"did you mean {name}={value or 'VALUE'}? S" if plain else "s"
    return PdefitError(f"There is no flag '{flag}'; {meant}ettings are written key=value, and the flags are {_SHOWN}")
