"""Settings from a composed configuration. Every key is read and checked here, and nowhere else."""

import dataclasses
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pdefit._util.errors import PdefitError
from pdefit.cli.config._reader import check_keys, read_section
from pdefit.cli.config._sections import check_names
from pdefit.cli.config.configuration import readable
from pdefit.cli.config.recordings import each_recording, read_gauge
from pdefit.cli.config.settings import Settings


def read_settings(cfg: DictConfig) -> Settings:
    """Settings of a configuration, checked as far as that is possible without data."""
    node = _plain(cfg)
    gauge, each = read_gauge(node), each_recording(node)
    if isinstance(each, str) or not each:
        return read_section(Settings, {**node, "recordings": each, "gauge": gauge})
    settings = {name: read_section(Settings, one) for name, one in each.items()}
    return dataclasses.replace(next(iter(settings.values())), recordings=settings, gauge=gauge)


def _plain(cfg: DictConfig) -> dict[str, Any]:
    """Configuration as plain Python objects, with all of its sections."""
    try:
        plain = OmegaConf.to_container(cfg, resolve=True)
    # resolvers, and interpolations that contain themselves, may raise any exception
    except Exception as error:
        raise readable(error) from None
    if not isinstance(plain, dict):
        raise PdefitError("A configuration expects keys and values; this one has none")
    # a missing operator means that all is observed, not nothing
    if plain.get("observe") is None:
        plain["observe"] = "all"
    check_names(plain)
    node = {str(key): value for key, value in plain.items()}
    check_keys(Settings, node)
    return node
