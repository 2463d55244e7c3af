"""Hydra's own node: its entries fixed to their resolved values, and the permitted launchers and sweepers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, ListConfig, OmegaConf, flag_override

from pdefit._util.errors import PdefitError
from pdefit.cli.config.configuration import readable

INTERPOLATED = "${"


def resolved_value(cfg: DictConfig, path: str) -> Any:
    """Value of an entry with all interpolations resolved."""
    try:
        found = OmegaConf.select(cfg, path, throw_on_missing=True)
        found = OmegaConf.to_container(found, resolve=True) if isinstance(found, DictConfig | ListConfig) else found
    # resolvers may raise any exception
    except Exception as error:
        raise PdefitError(f"{path} cannot be resolved: {readable(error)}") from None
    if any(INTERPOLATED in text for text in texts(found)):
        raise PdefitError(f"{path} resolves to '{found}', which would be resolved again; write the value itself")
    return found


def freeze(cfg: DictConfig, path: str, value: Any) -> None:
    """Replace the text of an entry by a value."""
    with flag_override(cfg, ["struct", "readonly"], [False, False]):
        OmegaConf.update(cfg, path, value, merge=False)


def unresolved(cfg: Any) -> dict[Any, Any]:
    content = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(content, dict)
    return content


def keys(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield str(key)
            yield from keys(value)
    elif isinstance(node, list):
        for value in node:
            yield from keys(value)


def texts(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from (*texts(key), *texts(value))
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)
    elif isinstance(node, str):
        yield node


# launchers and sweepers of Hydra and its plugins; sweepers that optimise a returned number are not there, as runs return none
SHIPPED = {"launcher": ("basic", "joblib", "submitit_local", "submitit_slurm"), "sweeper": ("basic",)}
# values that a launcher's text may refer to: they are checked here, or written by Hydra itself
_OF_HYDRA = re.compile(r"\$\{hydra\.(job\.(name|num|id)|sweep\.(dir|subdir)|run\.dir|runtime\.(cwd|output_dir))\}")


def check_installed(override: Override) -> None:
    """Refuse a launcher whose package is missing. Hydra registers all other launchers before it composes."""
    name = override.value() if override.key_or_group == "hydra/launcher" else None
    if name in SHIPPED["launcher"] and _stored("launcher", str(name)) is None:
        raise PdefitError(f"The launcher {name} is not installed; install it: ./run uv pip install -e '.[cluster]'")


def is_own_file(file: str) -> bool:
    """True for a launcher or sweeper file of the user, beside the shipped ones."""
    group, _, name = file.removeprefix("hydra/").rpartition("/")
    return group in SHIPPED and name not in SHIPPED[group]


def check_plugin(cfg: DictConfig, group: str) -> None:
    """Refuse a launcher or sweeper that is not Hydra's, or whose parameters take values of an experiment.

    Parameters may be commands and flags, so they must be typed or stand in a file that the command line chooses.
    """
    path, node = f"hydra.{group}", unresolved(cfg)["hydra"][group]
    shipped = {content["_target_"]: content for name in SHIPPED[group] if (content := _stored(group, name)) is not None}
    target = node.get("_target_") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or target not in shipped:
        raise PdefitError(f"{path} '{target or node}' is not allowed; choose one of {', '.join(SHIPPED[group])}")
    for key, value in node.items():
        if (key.startswith("_") and key not in shipped[target]) or "_target_" in keys(value):
            raise PdefitError(f"{path}.{key} is not allowed; name parameters of the {group} only")
        changed = key not in shipped[target] or shipped[target][key] != value
        if changed and any(INTERPOLATED in _OF_HYDRA.sub("", text) for text in texts(value)):
            raise PdefitError(f"{path}.{key} may take values of hydra only; write what stands for ${{...}} itself")


def _stored(group: str, name: str) -> dict[Any, Any] | None:
    """Shipped parameters of a launcher or sweeper; None if it is not installed."""
    options = ConfigStore.instance().repo["hydra"].get(group, {})
    found = options.get(f"{name}.yaml")
    return None if found is None else unresolved(OmegaConf.structured(found.node))
