"""Settings from a composed configuration. Every key is read and checked here, and nowhere else."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._reader import check_keys, read_section
from pdefit.cli.config._system import merged
from pdefit.cli.config.catalogue import check_names
from pdefit.cli.config.configuration import readable
from pdefit.cli.config.settings import Settings
from pdefit.data.readers.source import RECORDING


def read_settings(cfg: DictConfig) -> Settings:
    """Settings of a configuration, checked as far as possible without data."""
    node = _plain(cfg)
    if node["members"] is not None and node["recordings"] is not None:
        raise PdefitError("members are fits of their own, and recordings share unknowns; set one of them to null")
    key = "recordings" if node["members"] is None else "members"
    each = each_recording(node, key)
    if not each and _holds_recordings(node["data"]):
        each = RECORDING
    node |= {"recordings": {}, "members": {}}
    if isinstance(each, str) or not each:
        return read_section(Settings, {**node, key: each})
    settings = {name: read_section(Settings, one) for name, one in each.items()}
    try:
        return dataclasses.replace(next(iter(settings.values())), **{key: settings})
    except ValueError as error:
        raise PdefitError(str(error)) from None


def _holds_recordings(data: Any) -> bool:
    """True if the section `data` names a column of recordings in a long table, without a selection."""
    long = data.get("long") if isinstance(data, Mapping) else None
    return isinstance(long, Mapping) and RECORDING in long and not data.get("select")


def _plain(cfg: DictConfig) -> dict[str, Any]:
    """The configuration as plain Python objects, with all of its sections."""
    try:
        plain = OmegaConf.to_container(cfg, resolve=True)
    # resolvers, and interpolations that contain themselves, may raise any exception
    except Exception as error:
        raise readable(error) from None
    if not isinstance(plain, dict):
        raise PdefitError("A configuration expects keys and values; this one has none")
    # a missing operator means that all is observed, not nothing
    if plain.get("observe") is None:
        plain["observe"] = "all"
    check_names(plain)
    node = {str(key): value for key, value in plain.items()}
    check_keys(Settings, node)
    return node


# sections in which a recording may differ from the others
SECTIONS = ("data", "twin", "times", "system", "initial", "args", "events", "observe", "holdout")
# names of recordings are those of folders
_NAME = re.compile(r"\w[\w.-]*")
_EXAMPLE = "a list of files, the axis of one file along which they lie, or NAME: {data: {path: FILE}}"
# recordings that are given one by one, at most: the configuration of each takes 20 ms
_MOST = 2000


def each_recording(node: Mapping[str, Any], key: str = "recordings") -> str | dict[str, dict[str, Any]]:
    """Configuration of every recording by name; empty for a single recording.

    The name of an axis is returned unchanged: it stands for recordings along this axis of one file.

    **Arguments:**

    - `node`: the configuration.
    - `key`: `recordings` for one fit of all, `members` for one fit of each.
    """
    given = node[key]
    if given is None:
        return {}
    if isinstance(given, str):
        if node["data"] is None:
            raise PdefitError(f"{key}={given} is the name of an axis of a file, but data.path names none")
        return given
    if isinstance(given, list) and given and all(isinstance(file, str) for file in given):
        files, given = given, {Path(file).stem: {"data": {"path": file}} for file in given}
        if len(given) != len(files):
            raise PdefitError(
                f"{key} expects files of different names; give them names, NAME: {{data: {{path: FILE}}}}"
            )
    if not isinstance(given, Mapping) or not given:
        raise PdefitError(f"{key} expects {_EXAMPLE}, but got {given!r}")
    if len(given) > _MOST:
        raise PdefitError(f"{key} expects up to {_MOST}, but got {len(given)}; write one file of them, {key}: AXIS")
    return {
        str(name): _one(node, key, str(name), changes, number) for number, (name, changes) in enumerate(given.items())
    }


def check_name(name: str) -> None:
    """Refuse a name of a recording that cannot name a folder."""
    if not _NAME.fullmatch(name):
        raise PdefitError(f"A recording expects a name of letters, digits, '_', '-' and '.', but got '{name}'")


def _one(node: Mapping[str, Any], key: str, name: str, changes: Any, number: int) -> dict[str, Any]:
    """Configuration of one recording. Its random numbers differ from the other recordings'."""
    check_name(name)
    changes = {} if changes is None else changes
    if not isinstance(changes, Mapping):
        raise PdefitError(f"{key}.{name} expects sections that differ, {', '.join(SECTIONS)}, but got {changes!r}")
    for section in changes:
        if section not in SECTIONS:
            raise unknown(f"section of {key}.{name}", str(section), SECTIONS)
    one = {**merged(node, changes), "recordings": "", "members": "", "seed": node["seed"] + number}
    if _holds_recordings(one.get("data")):
        raise PdefitError(f"{key}.{name} expects data.select={{recording: NAME}}, one of those in data.long.recording")
    if one["twin"] is None or "seed" in (changes.get("twin") or {}):
        return one
    return merged(one, {"twin": {"seed": node["twin"]["seed"] + number}})
