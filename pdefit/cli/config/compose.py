"""Configurations composed in a running Python program, and experiments in a file."""

import copy
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import omegaconf._utils
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from omegaconf import DictConfig, OmegaConf
from omegaconf.base import Container
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException

from pdefit._util.errors import PdefitError, first_line
from pdefit.cli.config.command_line import split
from pdefit.cli.config.configuration import readable, register_resolvers
from pdefit.cli.config.hydra_guard import guarded
from pdefit.cli.runtime import plugins
from pdefit.cli.runtime.equations import text_of


@contextmanager
def apart() -> Iterator[None]:
    """Context manager with a separate global state of Hydra and separate resolvers.

    Hydra keeps its state in singletons, and pdefit replaces the resolver `oc.env`, the YAML loader and the resolution of
    interpolations. All of them are restored after the block, for notebooks and programs that use Hydra.
    """
    # Hydra's own configuration is in the store of structured ones, and so is an experiment in a file
    store: Any = {ConfigStore: copy.deepcopy(ConfigStore.instance())}
    instances, resolvers = Singleton._instances, BaseContainer._resolvers
    loader, resolve, merge = omegaconf._utils.get_yaml_loader, Container.resolve_parse_tree, BaseContainer._map_merge
    Singleton._instances, BaseContainer._resolvers = store, copy.copy(resolvers)
    try:
        register_resolvers()
        plugins.register()
        yield
    finally:
        Singleton._instances, BaseContainer._resolvers = instances, resolvers
        setattr(omegaconf._utils, "get_yaml_loader", loader)  # noqa: B010
        setattr(Container, "resolve_parse_tree", resolve)  # noqa: B010
        setattr(BaseContainer, "_map_merge", staticmethod(merge))  # noqa: B010


def composed(words: Sequence[str]) -> DictConfig:
    """The configuration that `pdefit fit` composes from these words. Call it inside a block of `apart`.

    **Arguments:**

    - `words`: settings as key=value, `experiment=NAME` among them. Flags are refused.
    """
    flags, overrides = split(words)
    if flags:
        raise PdefitError(f"'{flags[0]}' is a flag of the command line; in Python settings are written key=value")
    try:
        with guarded(), initialize_config_module("pdefit_conf", version_base="1.3"):
            return compose("config", overrides=overrides)
    # Hydra raises almost any exception for a configuration that cannot be composed
    except Exception as error:
        raise readable(error, overrides) from None


def register_experiment(path: Path) -> str:
    """Add the experiment in a file to the experiments of Hydra; returns its name, the name of the file.

    It is checked like an experiment of a plugin, and may name registered classes only.
    """
    name = path.stem
    if not re.fullmatch(r"\w[\w-]*", name):
        raise PdefitError(f"'{path}' expects a name of letters, digits, '_' and '-', since its runs are named after it")
    text = text_of(path, "experiment")
    try:
        content = OmegaConf.load(io.StringIO(text))
    except (OmegaConfBaseException, PdefitError) as error:
        raise readable(error) from None
    # YAML raises almost any exception for a damaged text
    except Exception as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f", line {line + 1}"
        told = getattr(error, "problem", None) or first_line(error)
        raise PdefitError(f"'{path}'{where} is not YAML: {told}; `key: value` is expected in every line") from None
    if not isinstance(content, DictConfig) or not content:
        raise PdefitError(f"'{path}' expects the keys of an experiment, e.g. system, data, controls; it holds none")
    ConfigStore.instance().store(name=name, node=content, group="experiment", package="_global_")
    return name
