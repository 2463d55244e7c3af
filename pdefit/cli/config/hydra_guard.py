"""Allow list of what a configuration may set in Hydra, which would otherwise call anything that a file names.

Hydra acts on its own node, `hydra`, before a job begins: it makes folders, sets up logging, calls callbacks and starts
launchers. Few of its keys may be set. Every other key must be what pdefit composes without the experiment. The keys that
may be set are judged by the values they resolve to, and these values replace their texts: Hydra uses what was judged.
"""

import copy
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import hydra._internal.hydra as hydra_main
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig
from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue

from pdefit._util.errors import PdefitError
from pdefit.cli.config._hydra_launchers import SHIPPED, judge_plugin
from pdefit.cli.config._hydra_values import INTERPOLATED, freeze, raw_value, resolved_value, unresolved
from pdefit.cli.config.configuration import readable, register_resolvers

_DIRECTORIES = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
_SETTABLE = (*_DIRECTORIES, "hydra.job.name", "hydra.verbose", *(f"hydra.{group}" for group in SHIPPED))
# what Hydra itself writes whenever it composes; `_check_filled` looks at the first two
_FILLED = ("hydra.overrides", "hydra.runtime.choices", "hydra.runtime.config_sources", "hydra.job.override_dirname")
_REMEDIES = {
    "hydra.searchpath": "name the folder of your own configurations with --config-dir FOLDER",
    "hydra.job.env_set": "set environment variables before you start pdefit",
    "hydra.job.env_copy": "set environment variables before you start pdefit",
}

# known to Hydra only when a job begins, and the same whoever asks
_LATE = re.compile(r"\$\{hydra\.job\.(num|id)\}")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:(\w+)\}")
# a name that means nothing to a shell, and does not hide itself
_PLAIN = re.compile(r"\w[\w .,=+@%:-]*")
# entries of a configuration, its interpolations followed, and how deep they nest
_MOST_ENTRIES, _DEEPEST = 20_000, 60


@contextmanager
def guarded() -> Iterator[None]:
    """Check every configuration after it is composed, and before Hydra sets up logging, callbacks and launchers from it."""
    # Hydra offers no place between composing a configuration and acting on it
    setattr(hydra_main, "ConfigLoaderImpl", _Guarded)  # noqa: B010
    try:
        yield
    finally:
        setattr(hydra_main, "ConfigLoaderImpl", ConfigLoaderImpl)  # noqa: B010


class _Guarded(ConfigLoaderImpl):
    def load_configuration(
        self, config_name: Any, overrides: list[str], run_mode: RunMode, *arguments: Any, **named: Any
    ) -> DictConfig:
        # the workers of a launcher are processes of their own
        register_resolvers()
        given = OverridesParser.create().parse_overrides(overrides)
        # before Hydra composes: it imports what a search path names
        for override in given:
            _check_override(override)
        cfg = super().load_configuration(config_name, overrides, run_mode, *arguments, **named)
        typed = [str(o.input_line) for o in given if o.is_hydra_override()]
        expected = unresolved(super().load_configuration(config_name, typed, run_mode))["hydra"]
        plain = [str(o.input_line) for o in given if o.is_hydra_override() and not _of_plugin(o)]
        pristine = unresolved(self._without_own_folder().load_configuration(config_name, plain, run_mode))["hydra"]
        _judge(cfg, {**pristine, **{group: expected[group] for group in SHIPPED}}, given, run_mode)
        if run_mode == RunMode.RUN:
            _check_entries(cfg)
        return cfg

    def _without_own_folder(self) -> ConfigLoaderImpl:
        """A loader that knows pdefit, Hydra and plugins alone: a folder of the user's own could hold other defaults."""
        path = copy.deepcopy(self.config_search_path)
        path.get_path()[:] = [entry for entry in path.get_path() if entry.provider != "command-line"]
        return ConfigLoaderImpl(path)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        cfg = super().load_sweep_config(master_config, sweep_overrides)
        # the jobs of a sweep share its directory, whose name holds the time
        freeze(cfg, "hydra.sweep.dir", master_config.hydra.sweep.dir)
        return cfg


def _check_override(override: Override) -> None:
    """Refuse an override of Hydra's own keys that the command line may not set."""
    key = str(override.key_or_group)
    if key != "hydra" and not override.is_hydra_override():
        return
    dotted = key.replace("/", ".")
    settable = dotted in (*_SETTABLE, "hydra.mode") or dotted.startswith(("hydra.launcher.", "hydra.sweeper."))
    if not settable or override.package is not None or override.is_delete():
        raise _refused(dotted)


def _of_plugin(override: Override) -> bool:
    """True for an override that chooses a launcher or sweeper, or sets its parameters."""
    parts = re.split(r"[./]", str(override.key_or_group))
    return len(parts) > 1 and parts[1] in SHIPPED


def _judge(cfg: DictConfig, expected: Mapping[str, Any], given: Sequence[Override], run_mode: RunMode) -> None:
    """Compare the node `hydra` with the one composed without the experiment, and fix the values that may differ."""
    node = unresolved(cfg)["hydra"]
    if path := _difference(node, expected, "hydra"):
        raise _refused(path)
    _check_filled(node, given)
    typed = {str(o.key_or_group) for o in given if o.is_hydra_override()}
    # the job's own directories need the job's own values
    for key in _DIRECTORIES if run_mode == RunMode.RUN else ("hydra.sweep.dir",):
        freeze(cfg, key, _directory(cfg, key, key in typed))
    name = resolved_value(cfg, "hydra.job.name")
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise PdefitError(f"hydra.job.name expects a plain name, but got {name!r}; use letters, digits, '-' and '_'")
    freeze(cfg, "hydra.job.name", name)
    verbose = resolved_value(cfg, "hydra.verbose")
    if not isinstance(verbose, bool | str) and not all(isinstance(v, str) for v in _listed(verbose)):
        raise PdefitError(f"hydra.verbose expects true, false or names of loggers, but got {verbose!r}")
    freeze(cfg, "hydra.verbose", verbose)
    for group in SHIPPED:
        judge_plugin(cfg, group, node[group], expected[group], given)


def _difference(node: Any, expected: Any, path: str) -> str | None:
    """The first key that is not as expected, but for those that may be set or that Hydra fills."""
    if path in (*_SETTABLE, *_FILLED) or (not isinstance(node, Mapping) and node == expected):
        return None
    if not isinstance(node, Mapping) or not isinstance(expected, Mapping):
        return path
    for key in [*node, *(k for k in expected if k not in node)]:
        inside = f"{path}.{key}"
        if (key in node) != (key in expected):
            return inside
        if found := _difference(node[key], expected[key], inside):
            return found
    return None


def _check_filled(node: Mapping[str, Any], given: Sequence[Override]) -> None:
    """Refuse a file that slips in overrides, which Hydra would give to the jobs of a sweep, or choices."""
    lines: dict[str, list[str]] = {"hydra": [], "task": []}
    for override in given:
        lines["hydra" if override.is_hydra_override() else "task"].append(str(override.input_line))
    if node["overrides"] != lines:
        raise _refused("hydra.overrides")
    choices = node["runtime"]["choices"]
    if not isinstance(choices, Mapping) or INTERPOLATED in str(list(choices.values())):
        raise _refused("hydra.runtime.choices")


def _directory(cfg: DictConfig, key: str, typed: bool) -> str:
    """The directory of a run. What a file says, or what a file's values make of it, stays below the folder pdefit runs in;
    what is typed may be anywhere, and values that it interpolates stay below what is typed before them."""
    raw = str(raw_value(cfg, key))
    # number and id of a job are put back afterwards
    late = {f"late-{i}": m.group() for i, m in enumerate(_LATE.finditer(raw))}
    text = raw
    for name, interpolation in late.items():
        text = text.replace(interpolation, name, 1)
    freeze(cfg, key, text)
    value = resolved_value(cfg, key)
    if not isinstance(value, str) or not value.strip():
        raise PdefitError(f"{key} expects a directory, but got {value!r}; name one, or leave {key} out")
    if typed:
        text = _ENVIRONMENT.sub(lambda m: os.environ.get(m.group(1), m.group()), text)
    if not typed or INTERPOLATED in text:
        root = os.path.abspath(os.path.dirname(text.partition(INTERPOLATED)[0]) if typed else "")
        below = os.path.relpath(os.path.abspath(value), root)
        if any(not _PLAIN.fullmatch(part) for part in below.split(os.sep)):
            raise PdefitError(
                f"{key} is '{value}', which leads out of '{root}' or is no plain name; type {key}=FOLDER on the command line"
            )
    for name, interpolation in late.items():
        value = value.replace(name, interpolation, 1)
    return value


def _check_entries(cfg: DictConfig) -> None:
    """Refuse every `_target_` of the experiment that no configuration may name, and what cannot be resolved. What only a job
    knows waits until it is used, when it is checked again."""
    entries = 0

    def walk(node: Any, path: str, depth: int) -> None:
        nonlocal entries
        for key in list(node) if isinstance(node, Mapping) else range(len(node)):
            entries += 1
            if entries > _MOST_ENTRIES or depth > _DEEPEST:
                raise PdefitError(
                    f"The configuration has more than {_MOST_ENTRIES} entries, or nests deeper than {_DEEPEST} times, once its "
                    f"interpolations are followed; look for a ${{...}} that points to what it stands in"
                )
            inside = f"{path}.{key}" if path else str(key)
            try:
                value = node[key]
            except (MissingMandatoryValue, InterpolationToMissingValueError):
                continue
            # resolvers fail in any way
            except Exception as error:
                if "HydraConfig was not set" in str(error):
                    continue
                raise readable(error) from None
            if key == "_target_":
                _resolve(value, path)
            # resolvers give plain containers
            elif isinstance(value, Mapping | list | ListConfig) and inside != "hydra":
                walk(value, inside, depth + 1)

    walk(cfg, "", 0)


def _resolve(target: Any, path: str) -> None:
    """Judge a `_target_`. Most configurations hold none, so JAX and the plugins are loaded only for one that does."""
    from pdefit.cli.config._instantiate import resolve
    from pdefit.cli.runtime.environment import prepare

    # a plugin may make arrays while it is imported
    prepare()
    resolve(target, path)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refused(path: str) -> PdefitError:
    """The error for a key of Hydra's own that nobody may set."""
    remedy = next((text for key, text in _REMEDIES.items() if f"{path}.".startswith(f"{key}.")), None)
    allowed = f"of what is in hydra only these may: {', '.join(_SETTABLE)}"
    return PdefitError(f"{path} may not be set; {remedy or allowed}")
