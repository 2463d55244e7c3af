"""The configuration that a run directory holds, as it was written."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pdefit._util.errors import PdefitError, first_line
from pdefit.cli.config.configuration import readable
from pdefit.output.store.fit_checkpoint import differences

# may change when a run goes on
_FREE = "max_iterations"


def read_recorded(path: Path, overrides: list[str]) -> DictConfig:
    """The configuration in a file, with entries set anew as `key=value`."""
    # from_dotlist takes anything; `key=value` is what was promised
    for override in overrides:
        if not override.partition("=")[0].strip() or "=" not in override:
            raise PdefitError(f"'{override}' is not of the form key=value")
    try:
        cfg = OmegaConf.load(path)
    except OmegaConfBaseException as error:
        raise readable(error) from None
    # YAML answers damaged text with almost any exception
    except Exception as error:
        raise PdefitError(f"'{path}' is damaged ({type(error).__name__}); put it back from a copy") from None
    try:
        cfg = OmegaConf.merge(cfg, OmegaConf.from_dotlist(overrides))
    # and OmegaConf overrides that lead into a number, or that do not parse
    except Exception as error:
        raise PdefitError(f"{' '.join(overrides)} cannot be set in '{path}' ({first_line(error)})") from None
    if not isinstance(cfg, DictConfig) or _FREE not in cfg:
        raise PdefitError(f"'{path}' is damaged; put it back from a copy")
    return cfg


def origin(directory: Path) -> dict[str, Any]:
    """The configuration of a run without what may change when it goes on."""
    return _lasting(OmegaConf.load(directory / ".hydra" / "config.yaml"))


def keep_limit(cfg: DictConfig, limit: int | None, overrides: list[str]) -> None:
    """Leave the run its bound on evaluations, unless it is set anew."""
    if cfg[_FREE] is None or not any(a.startswith(f"{_FREE}=") for a in overrides):
        cfg[_FREE] = limit


def refuse_changes(before: dict[str, Any], cfg: DictConfig, verb: str) -> None:
    """Refuse another configuration than the one a fit was saved with."""
    changed = differences(before, _lasting(cfg))
    if changed:
        listed = ", ".join(f"{path} ({old!r} -> {new!r})" for path, (old, new) in changed.items())
        raise PdefitError(
            f"{verb} goes on with the same fit, of which only {_FREE} may change; these differ: {listed}; "
            f"start a new run for them"
        )


def _lasting(cfg: Any) -> dict[str, Any]:
    content = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items() if k != _FREE}
