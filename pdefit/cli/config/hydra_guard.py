"""Allow list of what a configuration may set in Hydra, which would otherwise call any code that a file names.

Hydra acts on its own node, `hydra`, before a job begins: it makes folders, sets up logging, calls callbacks and starts
launchers. Few of its keys may be set. Every other key must be what pdefit composes without the experiment. The keys
that may be set are checked by the values they resolve to. These values then replace the texts, so that Hydra uses the
values that were checked.
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
from pdefit.cli.config._hydra_launchers import SHIPPED, check_installed, judge_plugin
from pdefit.cli.config._hydra_values import INTERPOLATED, freeze, raw_value, resolved_value, unresolved
from pdefit.cli.config.configuration import readable, register_resolvers

_DIRECTORIES = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
_SETTABLE = (*_DIRECTORIES, "hydra.job.name", "hydra.verbose", *(f"hydra.{group}" for group in SHIPPED))
# keys that Hydra itself writes when it composes; `_check_filled` checks the first two
_FILLED = ("hydra.overrides", "hydra.runtime.choices", "hydra.runtime.config_sources", "hydra.job.override_dirname")
_REMEDIES = {
    "hydra.searchpath": "name the folder of your own configurations with --config-dir FOLDER",
    "hydra.job.env_set": "set environment variables before you start pdefit",
    "hydra.job.env_copy": "set environment variables before you start pdefit",
}

# Hydra knows these only when a job begins; they are plain and need no check
_LATE = re.compile(r"\$\{hydra\.job\.(num|id)\}")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:(\w+)\}")
# a name without signs that a shell interprets, and without a leading dot
_PLAIN = re.compile(r"\w[\w .,=+@%:-]*")
# most entries of a configuration, and deepest nesting, when its interpolations are followed
_MOST_ENTRIES, _DEEPEST = 20_000, 60


@contextmanager
def guarded() -> Iterator[None]:
    """Check every configuration after it is composed, and before Hydra sets up logging, callbacks and launchers from it."""
    # the class is replaced because Hydra has no hook between composing a configuration and acting on it
    setattr(hydra_main, "ConfigLoaderImpl", _Guarded)  # noqa: B010
    try:
        yield
    finally:
        setattr(hydra_main, "ConfigLoaderImpl", ConfigLoaderImpl)  # noqa: B010


class _Guarded(ConfigLoaderImpl):
    def load_configuration(
        self, config_name: Any, overrides: list[str], run_mode: RunMode, *arguments: Any, **named: Any
    ) -> DictConfig:
        # again, because the workers of a launcher are other processes
        register_resolvers()
        given = OverridesParser.create().parse_overrides(overrides)
        # before Hydra composes, because it imports whatever a search path names
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
        """Loader with the configurations of pdefit, Hydra and plugins alone.

        A folder of the user could hold other defaults.
        """
        path = copy.deepcopy(self.config_search_path)
        path.get_path()[:] = [entry for entry in path.get_path() if entry.provider != "command-line"]
        return ConfigLoaderImpl(path)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        cfg = super().load_sweep_config(master_config, sweep_overrides)
        # the name of the directory holds the time, and must be the same for all jobs of a sweep
        freeze(cfg, "hydra.sweep.dir", master_config.hydra.sweep.dir)
        return cfg


def _check_override(override: Override) -> None:
    """Refuse an override of Hydra's own keys that the command line may not set."""
    key = str(override.key_or_group)
    if key != "hydra" and not override.is_hydra_override():
        return
    check_installed(override)
    dotted = key.replace("/", ".")
    settable = dotted in (*_SETTABLE, "hydra.mode") or dotted.startswith(("hydra.launcher.", "hydra.sweeper."))
    if not settable or override.package is not None or override.is_delete():
        raise _refused(dotted)


def _of_plugin(override: Override) -> bool:
    """Whether an override chooses a launcher or sweeper, or sets its parameters."""
    parts = re.split(r"[./]", str(override.key_or_group))
    return len(parts) > 1 and parts[1] in SHIPPED


def _judge(cfg: DictConfig, expected: Mapping[str, Any], given: Sequence[Override], run_mode: RunMode) -> None:
    """Compare the node `hydra` with the one composed without the experiment, and fix the values that may differ."""
    node = unresolved(cfg)["hydra"]
    if path := _difference(node, expected, "hydra"):
        raise _refused(path)
    _check_filled(node, given)
    typed = {str(o.key_or_group) for o in given if o.is_hydra_override()}
    # directories of a job depend on the values of that job, so in a sweep only that of the sweep is fixed here
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
    """The first key that is not as expected, apart from those that may be set or that Hydra writes."""
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
    """Refuse a file that sets the lists of overrides or choices, which Hydra would pass to the jobs of a sweep."""
    lines: dict[str, list[str]] = {"hydra": [], "task": []}
    for override in given:
        lines["hydra" if override.is_hydra_override() else "task"].append(str(override.input_line))
    if node["overrides"] != lines:
        raise _refused("hydra.overrides")
    choices = node["runtime"]["choices"]
    if not isinstance(choices, Mapping) or INTERPOLATED in str(list(choices.values())):
        raise _refused("hydra.runtime.choices")


def _directory(cfg: DictConfig, key: str, typed: bool) -> str:
    """Directory of a run.

    From a file, it must lie below the folder in which pdefit runs. Typed on the command line, it may lie anywhere; then
    values that it interpolates must stay below the part that is typed before them.
    """
    raw = str(raw_value(cfg, key))
    # number and id of a job are unknown yet: placeholders stand for them while the rest is resolved
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
    """Refuse every `_target_` of the experiment that no configuration may name, and entries that cannot be resolved.

    Entries that only a job can resolve are checked when the job uses them.
    """
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
            # resolvers may raise any exception
            except Exception as error:
                if "HydraConfig was not set" in str(error):
                    continue
                raise readable(error) from None
            if key == "_target_":
                _resolve(value, path)
            # resolvers return plain containers, not those of OmegaConf
            elif isinstance(value, Mapping | list | ListConfig) and inside != "hydra":
                walk(value, inside, depth + 1)

    walk(cfg, "", 0)


def _resolve(target: object, path: str) -> None:
    """Check a `_target_`. JAX and plugins are loaded only here, because most configurations hold none."""
    import jax

    from pdefit.cli.config._instantiate import resolve
    from pdefit.cli.runtime.environment import prepare

    # a plugin may make arrays while it is imported; a Python program has prepared JAX by itself
    if not jax.config.read("jax_enable_x64"):
        prepare()
    resolve(target, path)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refused(path: str) -> PdefitError:
    """Error for a key of Hydra that may not be set."""
    remedy = next((text for key, text in _REMEDIES.items() if f"{path}.".startswith(f"{key}.")), None)
    allowed = f"of what is in hydra only these may: {', '.join(_SETTABLE)}"
    return PdefitError(f"{path} may not be set; {remedy or allowed}")
