"""What a configuration may say to Hydra itself, which would otherwise call anything that a file names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import hydra._internal.hydra as hydra_main
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig, OmegaConf

from pdefit.errors import PdefitError

_PACKAGES = ("hydra", "hydra_plugins")
_LOGGING = ("logging", "colorlog")


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
    def load_configuration(self, *arguments: Any, **named: Any) -> DictConfig:
        cfg = super().load_configuration(*arguments, **named)
        hydra = OmegaConf.to_container(cfg, resolve=False)
        check_hydra(hydra.get("hydra") if isinstance(hydra, dict) else None)
        return cfg


def check_hydra(node: Any) -> None:
    """Refuse code from outside Hydra, variables for other processes, and logs outside the run directory."""
    if not isinstance(node, Mapping):
        raise PdefitError("hydra expects a mapping; remove it from the configuration")
    for path, value in _leaves(node, "hydra"):
        key = path.rpartition(".")[2]
        if key == "_target_" and not _inside(value, _PACKAGES):
            raise PdefitError(f"{path} '{value}' is not allowed; only Hydra and its plugins may be named there")
        if not path.startswith(("hydra.job_logging.", "hydra.hydra_logging.")):
            continue
        if (
            key == "()"
            or (key == "class" and not _inside(value, _LOGGING))
            or "ext://" in str(value).replace(_STREAMS, "")
        ):
            raise PdefitError(f"{path} '{value}' is not allowed; only classes of logging may be named there")
        if key == "filename" and (not str(value).startswith("${hydra.runtime.output_dir}/") or ".." in str(value)[2:]):
            raise PdefitError(f"{path} '{value}' is outside the run directory; logs belong inside it")
    job = node.get("job")
    if isinstance(job, Mapping) and job.get("env_set"):
        raise PdefitError("hydra.job.env_set is not allowed; set environment variables before you start pdefit")


# sys.stdout and sys.stderr, of the logging that comes with Hydra
_STREAMS = "ext://sys.std"


def _leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _leaves(value, f"{path}.{i}")
    else:
        yield path, node


def _inside(name: Any, packages: tuple[str, ...]) -> bool:
    return isinstance(name, str) and name.split(".")[0] in packages and "${" not in name
