"""Launchers and sweepers of Hydra that may run, and where their parameters may be set."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from pdefit._util.errors import PdefitError
from pdefit.cli.config._hydra_values import INTERPOLATED, freeze, keys, resolved_value, texts, unresolved

# launchers and sweepers of Hydra and its plugins; sweepers that optimise a returned number are not there, as runs return none
SHIPPED = {"launcher": ("basic", "joblib", "submitit_local", "submitit_slurm"), "sweeper": ("basic",)}
# values that a launcher's text may refer to: they are checked here, or written by Hydra itself
_OF_HYDRA = re.compile(r"\$\{hydra\.(job\.(name|num|id)|sweep\.(dir|subdir)|run\.dir|runtime\.(cwd|output_dir))\}")
_PARAMETER = re.compile(r"\w[\w./]*")


def check_installed(override: Override) -> None:
    """Refuse a launcher whose package is missing. Hydra has registered those of the others before it composes."""
    name = override.value() if override.key_or_group == "hydra/launcher" else None
    if name in SHIPPED["launcher"] and _stored("launcher", str(name)) is None:
        raise PdefitError(f"The launcher {name} is not installed; install it: ./run uv pip install -e '.[cluster]'")


def judge_plugin(cfg: DictConfig, group: str, node: Any, expected: Any, given: Sequence[Override]) -> None:
    """Refuse a launcher or sweeper that is not one of Hydra's, or whose parameters are set in the wrong place.

    Parameters may be commands and flags. An experiment, which may come from somebody else, sets numbers only. Others
    are typed on the command line, or stand in a file of the user's own that the command line chooses.

    **Arguments:**

    - `cfg`: the composed configuration.
    - `group`: launcher or sweeper; `node` is its part of the configuration.
    - `expected`: that part as it is without the experiment.
    - `given`: overrides of the command line.
    """
    path, names = f"hydra.{group}", SHIPPED[group]
    shipped = {content["_target_"]: content for name in names if (content := _stored(group, name)) is not None}
    target = node.get("_target_") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or target not in shipped:
        raise PdefitError(f"{path} '{target or node}' is not allowed; choose one of {', '.join(names)}")
    chosen = [o.value() for o in given if o.key_or_group == f"hydra/{group}"]
    own_file = bool(chosen) and chosen[-1] not in names and isinstance(expected, Mapping)
    base = expected if own_file else shipped[target]
    typed = {str(o.key_or_group) for o in given}
    for key, value in node.items():
        where = f"{path}.{key}"
        if (key.startswith("_") and key not in shipped[target]) or "_target_" in keys(value):
            raise PdefitError(f"{where} is not allowed; name parameters of the {group} only")
        if where == "hydra.sweeper.params":
            freeze(cfg, where, _parameters(cfg, value))
        elif key in shipped[target] and shipped[target][key] == value:
            continue
        elif (key in base and base[key] == value) or _is_typed(where, typed) and expected.get(key) == value:
            if any(INTERPOLATED in _OF_HYDRA.sub("", text) for text in texts(value)):
                raise PdefitError(f"{where} may take values of hydra only; write what stands for ${{...}} itself")
        else:
            found = resolved_value(cfg, where)
            if found is not None and not isinstance(found, bool | int | float):
                raise PdefitError(
                    f"{where} is no number, so an experiment may not set it; type {where}=... on the command line, or choose "
                    f"a {group} file of your own with hydra/{group}=NAME"
                )
            freeze(cfg, where, found)


def _parameters(cfg: DictConfig, params: Any) -> dict[str, str] | None:
    """Overrides that a sweeper varies; keys of Hydra are refused."""
    if params is None:
        return None
    found = resolved_value(cfg, "hydra.sweeper.params")
    if not isinstance(found, Mapping):
        raise PdefitError(f"hydra.sweeper.params expects a mapping, but got {found!r}")
    for key in found:
        if not _PARAMETER.fullmatch(str(key)) or re.split(r"[./]", str(key))[0] == "hydra":
            raise PdefitError(f"hydra.sweeper.params may vary keys of an experiment only, not '{key}'")
    return {str(k): str(v) for k, v in found.items()}


def _stored(group: str, name: str) -> dict[Any, Any] | None:
    """Parameters of a launcher or sweeper as it was shipped; None if it is not installed."""
    options = ConfigStore.instance().repo["hydra"].get(group, {})
    found = options.get(f"{name}.yaml")
    return None if found is None else unresolved(OmegaConf.structured(found.node))


def _is_typed(path: str, typed: set[str]) -> bool:
    """Whether the command line sets an entry, a mapping that holds it, or a part of it."""
    parts = path.split(".")
    return any(".".join(parts[:n]) in typed for n in range(2, len(parts) + 1)) or any(
        key.startswith(f"{path}.") for key in typed
    )
