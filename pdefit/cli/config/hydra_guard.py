"""Hydra's own node, composed from pdefit's values and the command line.

Hydra acts on this node, `hydra`, before a job begins: it makes folders, sets up logging, calls callbacks and starts
launchers. Entries of files in it could run any code, so they are left out. The command line may set few of its keys.
These may still refer to values of an experiment. So the node is checked by its resolved values, which then replace the
texts.

The guard derives from Hydra's private loader, because the public `hydra.compose` cannot do this:

- It returns the merged configuration, which does not tell which file stated a key of `hydra`, or to which choice a key
  belongs.
- `hydra.main` composes once for each job of a sweep, and acts on the result. It takes no other configuration.
- Run directories, logging, sweepers and launchers are therefore reached through `hydra.main` only.

`test_hydra_guard.py` fails if a release of Hydra changes the four private names that are imported.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import hydra._internal.hydra as hydra_main
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.default_element import GroupDefault, ResultDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, flag_override
from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue

from pdefit._util.errors import PdefitError, sentence
from pdefit.cli.config._choices import drop_former, in_order
from pdefit.cli.config._hydra_node import (
    INTERPOLATED,
    SHIPPED,
    check_installed,
    check_plugin,
    freeze,
    is_own_file,
    resolved_value,
    unresolved,
)
from pdefit.cli.config.catalogue import section_names
from pdefit.cli.config.configuration import MOST_ENTRIES, environment_read, readable, register_resolvers

_DIRECTORIES = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
_SETTABLE = (*_DIRECTORIES, "hydra.job.name", "hydra.verbose", *(f"hydra.{group}" for group in SHIPPED))
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
# deepest nesting of a configuration when its interpolations are followed
_DEEPEST = 60


@contextmanager
def guarded() -> Iterator[None]:
    """Context manager that checks every composed configuration before Hydra acts on it."""
    # the class is replaced because Hydra has no hook between composing a configuration and acting on it
    setattr(hydra_main, "ConfigLoaderImpl", _Guarded)  # noqa: B010
    try:
        yield
    finally:
        setattr(hydra_main, "ConfigLoaderImpl", ConfigLoaderImpl)  # noqa: B010


class _Guarded(ConfigLoaderImpl):
    def __init__(self, config_search_path: Any) -> None:
        super().__init__(config_search_path)
        self._typed: list[Override] = []
        # what is composed without the files of experiments
        self._program: list[ResultDefault] = []
        self._choices: dict[str, Any] = {}
        self._warned: set[str] = set()

    def load_configuration(
        self,
        config_name: Any,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        # again, because the workers of a launcher are other processes
        register_resolvers()
        given = OverridesParser.create().parse_overrides(overrides)
        # before Hydra composes, because it imports whatever a search path names
        for override in given:
            _check_override(override)
        self._typed = [o for o in given if o.is_hydra_override()]
        # Hydra asks for the mode first, which only the command line states
        if not validate_sweep_overrides:
            modes = [RunMode[str(o.value())] for o in self._typed if o.key_or_group == "hydra.mode"]
            return OmegaConf.create({"hydra": {"mode": modes[-1] if modes else None}})
        cfg = super().load_configuration(config_name, overrides, run_mode, from_shell)
        choices = {k: v for k, v in cfg.hydra.runtime.choices.items() if not k.startswith("hydra/")}
        freeze(cfg, "hydra.runtime.choices", {**self._choices, **choices})
        _settle(cfg, self._typed, run_mode)
        if run_mode == RunMode.RUN:
            _check_entries(cfg)
        return cfg

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        given, repo = super()._parse_overrides_and_create_caching_repo(config_name, overrides)
        self._groups = {str(override.key_or_group) for override in given if isinstance(override.value(), str)}
        return in_order(given, section_names()), repo

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        primary = next(d.config_path for d in defaults if d.primary)
        without = create_defaults_list(repo, primary, self._typed, prepend_hydra=True, skip_missing=True)
        self._program, self._choices = without.defaults, without.overrides.known_choices
        # an experiment may have chosen another launcher in place of the one that is meant
        displaced = [d for d in self._program if str(d.config_path).startswith("hydra/") and d not in defaults]
        chosen = dict(str(d.config_path).split("/", 1) for d in defaults if "/" in str(d.config_path))
        self._chosen, self._last = {**self._choices}, {**dict.fromkeys(self._choices), **chosen}
        return super()._compose_config_from_defaults_list([*displaced, *defaults], repo)

    def _load_single_config(self, default: ResultDefault, repo: IConfigRepository) -> ConfigResult:
        loaded, file = super()._load_single_config(default, repo), str(default.config_path)
        if file.startswith("experiment/"):
            read: Any = repo.load_config(file)
            for stated in read.defaults_list or ():
                if isinstance(stated, GroupDefault) and (group := str(stated.group).strip("/")) in self._chosen:
                    self._chosen[group] = stated.value
            drop_former(read.config, self._chosen, self._last, self._groups)
        if not isinstance(loaded.config, DictConfig) or "hydra" not in loaded.config:
            return loaded
        if default not in self._program:
            stated = unresolved(loaded.config)["hydra"]
            with flag_override(loaded.config, ["struct", "readonly"], [False, False]):
                loaded.config.pop("hydra")
            self._warn(file, stated)
        elif loaded.provider == "command-line" and not is_own_file(file):
            raise PdefitError(f"'{file}.yaml' would take the place of Hydra's own; give your file another name")
        return loaded

    def _warn(self, file: str, stated: object) -> None:
        """Report once what a file states about Hydra, and the replacement on the command line."""
        word = "hydra"
        while isinstance(stated, dict) and stated and word.count(".") < 2:
            key, stated = next(iter(stated.items()))
            word = f"{word}.{key}"
        group = next((g for g in SHIPPED if f"{word}.".startswith(f"hydra.{g}.")), None)
        if group is not None:
            remedy = f"type hydra/{group}=NAME, or hydra.{group}.KEY=VALUE"
        else:
            remedy = f"type {word}=VALUE" if word in _SETTABLE else _remedy(word)
        text = f"'{file}' sets {word}, but a file may set nothing in hydra, so it is left out; {remedy}"
        if text not in self._warned:
            self._warned.add(text)
            print(f"warning: {sentence(text)}", file=sys.stderr)

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


def _settle(cfg: DictConfig, typed: Sequence[Override], run_mode: RunMode) -> None:
    """Check and fix the values of Hydra's node that may refer to values of an experiment."""
    environment_read.clear()
    words = {str(o.key_or_group) for o in typed}
    # directories of a job depend on the values of that job, so in a sweep only that of the sweep is fixed here
    for key in _DIRECTORIES if run_mode == RunMode.RUN else ("hydra.sweep.dir",):
        freeze(cfg, key, _directory(cfg, key, key in words))
    name, verbose = (resolved_value(cfg, key) for key in ("hydra.job.name", "hydra.verbose"))
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise PdefitError(f"hydra.job.name expects a plain name, but got {name!r}; use letters, digits, '-' and '_'")
    if not all(isinstance(v, bool | str) for v in (verbose if isinstance(verbose, list) else [verbose])):
        raise PdefitError(f"hydra.verbose expects true, false or names of loggers, but got {verbose!r}")
    freeze(cfg, "hydra.job.name", name)
    freeze(cfg, "hydra.verbose", verbose)
    for group in SHIPPED:
        check_plugin(cfg, group)
    lines = " ".join(str(o.input_line) for o in typed)
    if hidden := {*environment_read} - {*_ENVIRONMENT.findall(lines)}:
        raise PdefitError(
            f"The environment variable {min(hidden)} may not stand in names and directories of a run, which are written into "
            f"its results; type hydra.run.dir=FOLDER on the command line"
        )


def _directory(cfg: DictConfig, key: str, typed: bool) -> str:
    """The directory of a run.

    By default it lies below the working directory, and may be a link of the user, such as `runs`. If typed on the
    command line, it may lie anywhere; values that it interpolates must then stay below the part typed before them.
    """
    _, group, entry = key.split(".")
    raw = str(unresolved(cfg)["hydra"][group][entry])
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
        place = os.path.realpath if typed else os.path.abspath
        root = place(os.path.dirname(text.partition(INTERPOLATED)[0]) if typed else "")
        below = os.path.relpath(place(value), root)
        if any(not _PLAIN.fullmatch(part) for part in below.split(os.sep)):
            raise PdefitError(
                f"{key} is '{value}', which leads out of '{root}' or is no plain name; type {key}=FOLDER on the command line"
            )
    for name, interpolation in late.items():
        value = value.replace(name, interpolation, 1)
    return value


def _check_entries(cfg: DictConfig) -> None:
    """Refuse every forbidden `_target_` of the experiment, and entries that cannot be resolved.

    Entries that only a job can resolve are checked when the job uses them.
    """
    entries = 0

    def walk(node: Any, path: str, depth: int) -> None:
        nonlocal entries
        for key in list(node) if isinstance(node, Mapping) else range(len(node)):
            entries += 1
            if entries > MOST_ENTRIES or depth > _DEEPEST:
                raise PdefitError(
                    f"The configuration has more than {MOST_ENTRIES} entries, or nests deeper than {_DEEPEST} times, once its "
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
    """Check a `_target_`. JAX and plugins are loaded only here, since most configurations have no `_target_`."""
    import jax

    from pdefit.cli.config._registry import resolve
    from pdefit.cli.runtime.environment import prepare

    # a plugin may make arrays while it is imported; a Python program has prepared JAX by itself
    if not jax.config.read("jax_enable_x64"):
        prepare()
    resolve(target, path)


def _refused(path: str) -> PdefitError:
    """The error for a key of Hydra that may not be set."""
    return PdefitError(f"{path} may not be set; {_remedy(path)}")


def _remedy(path: str) -> str:
    remedy = next((text for key, text in _REMEDIES.items() if f"{path}.".startswith(f"{key}.")), None)
    return remedy or f"of what is in hydra only these may be typed: {', '.join(_SETTABLE)}"
