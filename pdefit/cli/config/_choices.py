"""Choices in a configuration: another name removes the keys of the former choice."""

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, flag_override
from omegaconf.basecontainer import BaseContainer

from pdefit.cli.runtime.equations import snake_case

_MERGE = BaseContainer._map_merge
# the truth of a twin, and its tolerance, are the experiment's
_KEPT = {"twin": ("system", "steps")}


def replace_by_name(dest: BaseContainer, src: BaseContainer) -> None:
    """Merge a mapping into another one, as OmegaConf does; a mapping with another name replaces it."""
    old, new = _name(dest), _name(src)
    # numbers of a system outlast the system: they are the experiment's
    if old and new and old != new and dest._key() != "system":
        dest._set_value({})
        with flag_override(dest, "struct", False):
            _MERGE(dest, src)
    else:
        _MERGE(dest, src)


def in_order(given: Sequence[Override], sections: Collection[str]) -> list[Override]:
    """Overrides of some sections, ordered so that another name replaces a former choice before keys are added to it.

    **Arguments:**

    - `given`: the typed overrides, changed in place.
    - `sections`: the names of the sections.
    """
    ordered: list[Override] = []
    for override in given:
        section, _, key = str(override.key_or_group).partition(".")
        path, _, last = str(override.key_or_group).rpartition(".")
        typed = section in sections and not override.is_delete()
        if typed and last == "name" and not override.is_sweep_override():
            override.key_or_group, override._value = path, {last: override.value()}
        is_object = isinstance(override.value(), dict)
        # a key of a section that nobody has set yet; the reader of the section knows which ones there are
        if typed and (key or is_object) and override.type == OverrideType.CHANGE:
            override.type = OverrideType.FORCE_ADD
        # an object stands before its keys, which it would remove
        inside = f"{override.key_or_group}."
        keys = [k for k, o in enumerate(ordered) if str(o.key_or_group).startswith(inside) and not o.is_delete()]
        ordered.insert(keys[0] if is_object and keys else len(ordered), override)
    return ordered


def drop_former(experiment: DictConfig, chosen: Mapping[str, Any], last: Mapping[str, Any], typed: Set[str]) -> None:
    """Remove an experiment's keys of choices that the command line replaced.

    **Arguments:**

    - `experiment`: the configuration of the experiment, changed in place.
    - `chosen`, `last`: for each group, the choice to which the experiment's keys belong, and the final choice.
    - `typed`: the groups chosen on the command line; an experiment may also choose by a name in the section.
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
    """The name with which a node makes its choice."""
    content = node._value()
    name = content["name"]._value() if isinstance(content, dict) and "name" in content else content
    # a class may be called by its own name, too
    return snake_case(name) if isinstance(name, str) and name != "???" else None
