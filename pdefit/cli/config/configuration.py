"""Resolvers of interpolations, and errors of Hydra in one sentence."""

import contextlib
import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import omegaconf._utils
import yaml
from hydra import compose, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.base import Container
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException

from pdefit._util.errors import PdefitError, unknown
from pdefit.cli.config._choices import replace_by_name
from pdefit.cli.config.catalogue import choices, experiments, section_names
from pdefit.cli.runtime import run_directory
from pdefit.cli.runtime.plugins import configurations
from pdefit.data.readers.locate import locate

# most entries of a configuration once its aliases, or its interpolations, are followed
MOST_ENTRIES = 20_000
# most interpolations that one entry follows, and most characters before and after they are followed
_MOST_FOLLOWED, _LONGEST_BEFORE, _LONGEST_AFTER = 1_000, 2_000, 100_000
_ENDLESS = (
    f"An entry of the configuration follows more than {_MOST_FOLLOWED} interpolations ${{...}}, or is longer than "
    f"{_LONGEST_AFTER} characters; write fewer of them"
)
_RESOLVE = Container.resolve_parse_tree
# names of the environment variables that interpolations have read
environment_read: list[str] = []


def register_resolvers() -> None:
    """Define `${data:NAME}` (path of a data file) and `${run_name:}` (a new name for a run), and bound the size of YAML.

    If mappings are merged, a mapping with another name replaces the former one.
    """
    OmegaConf.register_new_resolver("data", lambda name: str(locate(name)), replace=True)
    OmegaConf.register_new_resolver("run_name", run_directory.run_name, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("oc.env", _environment, replace=True)
    # OmegaConf and Hydra ask for it whenever they read YAML
    setattr(omegaconf._utils, "get_yaml_loader", _bounded_loader)  # noqa: B010
    setattr(Container, "resolve_parse_tree", _bounded_resolution())  # noqa: B010
    setattr(BaseContainer, "_map_merge", staticmethod(replace_by_name))  # noqa: B010


def _bounded_loader() -> type:
    """YAML loader that refuses a few lines of aliases that expand to millions of entries."""

    class Bounded(get_yaml_loader()):
        def compose_document(self) -> Any:
            document = super().compose_document()
            if _entries(document, {}) > MOST_ENTRIES:
                raise PdefitError(
                    f"A configuration holds more than {MOST_ENTRIES} entries once its aliases (&NAME, *NAME) are followed; "
                    f"write fewer of them"
                )
            return document

    return Bounded


def _entries(node: yaml.Node, known: dict[int, float]) -> float:
    """Number of entries of a node with all aliases followed; a long text counts as several."""
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value) // 100
    if id(node) not in known:
        # a node that contains itself has no end
        known[id(node)] = math.inf
        inside = [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
        known[id(node)] = 1 + sum(_entries(part, known) for part in inside)
    return known[id(node)]


def _bounded_resolution() -> Callable[..., Any]:
    """Resolver of interpolated texts that refuses nested doubling to millions of characters."""
    # how many interpolations the present one stands in, and how many were followed for the outermost of them
    depth = followed = 0

    def resolve(container: Container, parse_tree: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal depth, followed
        depth, followed = depth + 1, followed + 1 if depth else 0
        try:
            if followed > _MOST_FOLLOWED or len(parse_tree.getText()) > _LONGEST_BEFORE:
                raise PdefitError(_ENDLESS)
            found = _RESOLVE(container, parse_tree, *arguments, **named)
        finally:
            depth -= 1
        if isinstance(found, str) and len(found) > _LONGEST_AFTER:
            raise PdefitError(_ENDLESS)
        return found

    return resolve


def _environment(name: str, default: str | None = None, *, _node_: Any) -> str | None:
    """An environment variable, for paths only.

    Elsewhere a foreign configuration could write a secret into results. Since errors repeat paths, the path of a file
    must exist, which a secret does not.
    """
    key = "" if _node_ is None else str(_node_._get_full_key(None))
    is_path = key.rpartition(".")[2] == "path"
    if not is_path and key not in ("hydra.run.dir", "hydra.sweep.dir"):
        raise PdefitError(
            f"The environment variable {name} may stand in a path, or in the directory of a run, only, e.g. "
            f"data.path=${{oc.env:{name}}}/x.h5"
        )
    environment_read.append(name)
    found = os.environ.get(name, default)
    if found is None:
        raise PdefitError(f"The environment variable {name} is not set; set it, or write the path itself")
    if is_path and name in os.environ and not os.path.exists(found):
        raise PdefitError(f"{key} expects the environment variable {name} to name a file or folder, which it does not")
    return found


def readable(error: BaseException, overrides: Sequence[str] = (), own: Sequence[str] = ()) -> PdefitError:
    """Error of Hydra or OmegaConf in one sentence; an error of pdefit inside a resolver is passed on.

    **Arguments:**

    - `error`: the error.
    - `overrides`: the overrides of the command line, in which a misspelled key is searched.
    - `own`: configuration folders named on the command line.
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
    absent = re.search(r"Could not override '([^'.]+)", sentence)
    if absent and absent[1] not in section_names():
        return unknown("key", absent[1], section_names())
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
            f"{key}={value} cannot take the place of {_standing(plain, overrides, own)}, which is of another kind; replace "
            f"it by '~{plain}' '+{plain}={value}'"
        )
    if "Cannot merge DictConfig with ListConfig" in sentence or "can only concatenate str" in sentence:
        where = re.search(r"In '([^']+)'", sentence)
        return PdefitError(
            f"{where[1] if where else 'The configuration'} has a list where a section has entries with names; give each a "
            f"name, e.g. stages: {{near: {{optimizer: lbfgs}}, whole: {{optimizer: lbfgs}}}}"
        )
    if missing := re.search(r"Could not (?:find|load) '(\w+)/([^']+)'", sentence):
        group, name = missing.groups()
        if group == "adjoint" and name in choices("driver"):
            return PdefitError(
                f"'{name}' is a driver, not an adjoint; write driver={name} (and driver.KEY for its keys)"
            )
        options = sentence.partition("Available options in")[2].partition("Config search path")[0].split()[1:]
        return unknown(group, name, experiments() if group == "experiment" else options or choices(group))
    return PdefitError(f"Configuration: {sentence}")


def _unreadable(override: str) -> PdefitError:
    """The error for an override that Hydra cannot parse, with the right form."""
    key, equals, _ = override.partition("=")
    if not equals and override in experiments():
        return PdefitError(f"'{override}' is not of the form key=value; did you mean experiment={override}?")
    with contextlib.suppress(HydraException, ValueError, IndexError):
        if equals:
            OverridesParser.create().parse_override(shlex.split(_quoted(override))[0])
            return PdefitError(
                f"'{override}' holds a sign that means something to Hydra; quote it: {_quoted(override)}"
            )
    return PdefitError(f"'{override}' is not of the form key=value; settings look like seed=3 or controls.D.guess=2.0")


def _quoted(override: str) -> str:
    """An override whose value is one text, quoted for Hydra and the shell."""
    key, _, value = override.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return shlex.quote(f'{key}="{escaped}"')


def _not_utf8(own: Sequence[str]) -> Path | None:
    """The first configuration file that is not UTF-8, in the folders of the command line and of plugins."""
    for folder in (*map(Path, own), *(path for _, path in configurations())):
        for file in sorted(folder.rglob("*.yaml")):
            try:
                file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                return file
            except OSError:
                continue
    return None


def _standing(path: str, overrides: Sequence[str], own: Sequence[str]) -> Any:
    """An entry of a configuration without one override, interpolations unresolved."""
    found = OmegaConf.select(_without(path, overrides, own), path, throw_on_missing=False)
    return OmegaConf.to_container(found, resolve=False) if OmegaConf.is_config(found) else found


def _without(path: str, overrides: Sequence[str], own: Sequence[str]) -> Any:
    """The configuration without one override, as far as it can be composed."""
    folders = [f"hydra.searchpath=[{','.join(f'file://{Path(folder).absolute()}' for folder in own)}]"] if own else []
    rest = [o for o in overrides if not o.startswith((f"{path}=", "-", "hydra"))]
    while True:
        try:
            with initialize_config_module("pdefit_conf", version_base="1.3"):
                return compose("config", overrides=[*rest, *folders])
        except (HydraException, OmegaConfBaseException):
            # drop the last override: those that change values usually follow the experiment
            rest = rest[:-1]
            if not rest:
                return OmegaConf.create()
