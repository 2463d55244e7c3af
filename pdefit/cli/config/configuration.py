"""Resolvers of interpolations, and errors of Hydra in one sentence."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._sections import CONTROL_KEYS
from pdefit.cli.config.catalogue import choices, experiments
from pdefit.cli.runtime import run_directory
from pdefit.cli.runtime.plugins import configurations
from pdefit.data.readers.locate import locate


def register_resolvers() -> None:
    """Define `${data:NAME}`, the path of a data file, and `${run_name:}`, a new name for a run."""
    OmegaConf.register_new_resolver("data", lambda name: str(locate(name)), replace=True)
    OmegaConf.register_new_resolver("run_name", run_directory.run_name, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("oc.env", _environment, replace=True)


def _environment(name: str, default: str | None = None, *, _node_: Any) -> str | None:
    """Environment variable, for paths only.

    Anywhere else a configuration from somebody else could write a secret into results.
    """
    if _node_ is None or str(_node_._key()) not in ("path", "dir"):
        raise PdefitError(
            f"The environment variable {name} may stand in a path or dir only, e.g. data.path=${{oc.env:{name}}}/x.h5"
        )
    found = os.environ.get(name, default)
    if found is None:
        raise PdefitError(f"The environment variable {name} is not set; set it, or write the path itself")
    return found


def readable(error: BaseException, overrides: Sequence[str] = (), own: Sequence[str] = ()) -> PdefitError:
    """Error of Hydra or OmegaConf in one sentence; an error of pdefit inside a resolver is passed on.

    **Arguments:**

    - `error`: the error.
    - `overrides`: of the command line, among which a misspelled key is looked for.
    - `own`: folders of configurations that the command line names.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PdefitError):
            return cause
        cause = cause.__cause__ or cause.__context__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [x for x in lines if not x.startswith(("full_key", "object_type", "reference_type", "Set the environment"))]
    sentence = " ".join(lines) or type(error).__name__
    if isinstance(error, RecursionError):
        sentence = "an entry contains itself, or nests without end; look for a ${...} that points to what it stands in"
    if "Config group override must be" in sentence:
        sentence = "a group cannot be set to null; remove it with ~NAME, e.g. ~twin"
    if key := re.search(r"Could not override '([^']+)'", sentence):
        return _wrong_key(key.group(1), overrides)
    if isinstance(error, OverrideParseException):
        return _unreadable(str(error.override))
    if isinstance(error, UnicodeDecodeError) and (file := _not_utf8(own)):
        return PdefitError(f"'{file}' is not in UTF-8; save it as UTF-8, or write its comments in plain letters")
    if several := re.search(r"Ambiguous value for argument '(.+?)' 1\. ", sentence):
        key, _, value = several.group(1).partition("=")
        return PdefitError(
            f"{key}={value} is more than one value: -m runs them one after the other, '{key}=[{value}]' is a list, and "
            f"{_quoted(several.group(1))} one text"
        )
    if merged := re.fullmatch(r"Error merging override ([^=]+)=(.*)", sentence):
        key, value = merged.groups()
        plain = key.lstrip("+")
        return PdefitError(
            f"{key}={value} cannot take the place of {_standing(plain, overrides)}, which is of another kind; replace it by "
            f"'~{plain}' '+{plain}={value}'"
        )
    if missing := re.search(r"Could not find '(\w+)/([^']+)'", sentence):
        group, name = missing.groups()
        if group == "adjoint" and name in choices("driver"):
            return PdefitError(
                f"'{name}' is a driver, not an adjoint; write driver={name} (and driver.KEY for its keys)"
            )
        options = sentence.partition("Available options in")[2].partition("Config search path")[0].split()[1:]
        return unknown(group, name, experiments() if group == "experiment" else options)
    return PdefitError(f"Configuration: {sentence}")


def _unreadable(override: str) -> PdefitError:
    """The error for an override that Hydra cannot parse, with what to type instead."""
    key, equals, _ = override.partition("=")
    if not equals and override in experiments():
        return PdefitError(f"'{override}' is not of the form key=value; did you mean experiment={override}?")
    try:
        OverridesParser.create().parse_override(shlex.split(_quoted(override))[0])
    except (HydraException, ValueError, IndexError):
        return PdefitError(
            f"'{override}' is not of the form key=value; settings look like seed=3 or controls.D.guess=2.0"
        )
    return PdefitError(f"'{override}' holds a sign that means something to Hydra; quote it: {_quoted(override)}")


def _quoted(override: str) -> str:
    """An override whose value is one text, for Hydra and for the shell."""
    key, _, value = override.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return shlex.quote(f'{key}="{escaped}"')


def _not_utf8(own: Sequence[str]) -> Path | None:
    """The first configuration that is not in UTF-8, in the folders of the command line and of plugins."""
    for folder in (*map(Path, own), *(path for _, path in configurations())):
        for file in sorted(folder.rglob("*.yaml")):
            try:
                file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                return file
            except OSError:
                continue
    return None


def _standing(path: str, overrides: Sequence[str]) -> Any:
    """Entry of a configuration without one override, interpolations unresolved."""
    found = OmegaConf.select(_without(path, overrides), path, throw_on_missing=False)
    return OmegaConf.to_container(found, resolve=False) if OmegaConf.is_config(found) else found


def _wrong_key(path: str, overrides: Sequence[str]) -> PdefitError:
    """The error for an override of a key that is not there, with the nearest keys that are."""
    node: Any = _without(path, overrides)
    walked: list[str] = []
    for name in path.split("."):
        if not isinstance(node, DictConfig):
            return PdefitError(
                f"'{'.'.join(walked)}' is a value and holds no '{name}'; set '{'.'.join(walked)}' itself"
            )
        if name not in node:
            inside = [*map(str, node), *(CONTROL_KEYS if walked[:1] == ["controls"] and len(walked) > 1 else ())]
            if name in inside:
                return PdefitError(f"'{path}' is not set yet; add it with +{path}=...")
            return unknown(f"key in {'.'.join(walked)}" if walked else "key", name, inside)
        walked, node = [*walked, name], OmegaConf.select(node, name, throw_on_missing=False)
    return PdefitError(f"'{path}' does not hold these entries yet; add each with +{path}.NAME=...")


def _without(path: str, overrides: Sequence[str]) -> Any:
    """Configuration of the other overrides, as far as they can be composed."""
    rest = [o for o in overrides if not o.startswith((f"{path}=", "-", "hydra"))]
    while True:
        try:
            with initialize_config_module("pdefit_conf", version_base="1.3"):
                return compose("config", overrides=rest)
        except (HydraException, OmegaConfBaseException):
            # drop the last override: those that change values usually follow the experiment
            rest = rest[:-1]
            if not rest:
                return OmegaConf.create()
