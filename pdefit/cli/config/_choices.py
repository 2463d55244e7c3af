"""Choices in a configuration: where another name is chosen, the keys of the former choice go."""

from collections.abc import Mapping, Set
from typing import Any

from omegaconf import DictConfig, flag_override
from omegaconf.basecontainer import BaseContainer

_MERGE = BaseContainer._map_merge
# the truth of a twin, and its tolerance, are the experiment's
_KEPT = {"twin": ("system", "steps")}


def replace_by_name(dest: BaseContainer, src: BaseContainer) -> None:
    """Merge a mapping into another one, as OmegaConf does; one of another name takes its place."""
    old, new = _name(dest), _name(src)
    # numbers of a system outlast the system: they are the experiment's
    if old and new and old != new and dest._key() != "system":
        dest._set_value({})
        with flag_override(dest, "struct", False):
            _MERGE(dest, src)
    else:
        _MERGE(dest, src)


def drop_former(experiment: DictConfig, chosen: Mapping[str, Any], last: Mapping[str, Any], typed: Set[str]) -> None:
    """Remove the keys that an experiment gives to other choices of groups than the last ones.

    **Arguments:**

    - `experiment`: its configuration.
    - `chosen`, `last`: by group the choice that its keys belong to, and the choice of the whole configuration.
    - `typed`: the groups that the command line chooses; an experiment may also choose by a name in the section.
    """
    for group in sorted({*map(str, experiment)} & {*chosen}):
        section: Any = experiment._get_node(group)
        name = _name(section)
        if last[group] != (name or chosen[group]) and (group in typed or last[group] != chosen[group]):
            content = section._value() if isinstance(section, DictConfig) else None
            kept = {key: content[key] for key in _KEPT.get(group, ()) if isinstance(content, dict) and key in content}
            experiment.pop(group)
            experiment.update({group: kept} if kept else {})


def _name(node: Any) -> str | None:
    """The name by which a node chooses, as it is written."""
    content = node._value()
    name = content["name"]._value() if isinstance(content, dict) and "name" in content else content
    return name if isinstance(name, str) and name != "???" else None
