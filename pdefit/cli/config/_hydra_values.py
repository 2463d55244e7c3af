"""Entries of a composed configuration: raw, resolved, and fixed to what they resolve to."""

from collections.abc import Iterator, Mapping
from typing import Any

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
