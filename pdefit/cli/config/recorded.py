"""Configuration in a run directory, as it was written."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pdefit._util.errors import PdefitError, first_line
from pdefit.cli.config.configuration import readable
from pdefit.output.store.fit_checkpoint import differences

# keys that may change when a run is resumed
_LIMIT, _FREE = "max_iterations", ("max_iterations", "intervals")


def read_recorded(path: Path, overrides: list[str]) -> DictConfig:
    """Configuration in a file, with some entries changed by overrides `key=value`."""
    # checked here, because from_dotlist accepts any text
    for override in overrides:
        if not override.partition("=")[0].strip() or "=" not in override:
            raise PdefitError(f"'{override}' is not of the form key=value")
    try:
        cfg = OmegaConf.load(path)
    except (OmegaConfBaseException, PdefitError) as error:
        raise readable(error) from None
    # YAML raises almost any exception for damaged text
    except Exception as error:
        raise PdefitError(f"'{path}' is damaged ({type(error).__name__}); put it back from a copy") from None
    try:
        # runs that began before there was this key lack it
        cfg = OmegaConf.merge({"intervals": "auto"}, cfg, OmegaConf.from_dotlist(overrides))
    # OmegaConf does so for overrides that do not parse, or whose path leads into a number
    except Exception as error:
        raise PdefitError(f"{' '.join(overrides)} cannot be set in '{path}' ({first_line(error)})") from None
    if not isinstance(cfg, DictConfig) or _LIMIT not in cfg:
        raise PdefitError(f"'{path}' is damaged; put it back from a copy")
    return cfg


def origin(directory: Path) -> dict[str, Any]:
    """Configuration of a run without the keys that may change when it is resumed."""
    return _lasting(OmegaConf.load(directory / ".hydra" / "config.yaml"))


def keep_limit(cfg: DictConfig, limit: int | None, overrides: list[str]) -> None:
    """Put the saved bound on evaluations into a configuration, unless overrides change it."""
    if cfg[_LIMIT] is None or not any(a.startswith(f"{_LIMIT}=") for a in overrides):
        cfg[_LIMIT] = limit


def refuse_changes(before: dict[str, Any], cfg: DictConfig, verb: str) -> None:
    """Refuse a configuration that differs from the one a fit was saved with.

    **Arguments:**

    - `before`: the saved one, by `origin`.
    - `cfg`: the one to compare.
    - `verb`: for errors.
    """
    changed = differences(before, _lasting(cfg))
    if changed:
        listed = ", ".join(f"{path} ({old!r} -> {new!r})" for path, (old, new) in changed.items())
        raise PdefitError(
            f"{verb} goes on with the same fit, of which only {' and '.join(_FREE)} may change; these differ: {listed}; "
            f"start a new run for them"
        )


def _lasting(cfg: Any) -> dict[str, Any]:
    content = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items() if k not in _FREE}
