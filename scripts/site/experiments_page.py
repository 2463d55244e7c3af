"""The reference of the experiments: what each shows and what it costs, from the comments in their files."""

import re
from pathlib import Path

from configuration_page import coded

_INTRODUCTION = """# Experiments

These experiments are installed with pdefit. `pdefit list experiments` shows them, too. Each is one file, which you can copy
into a folder of your own: `pdefit fit --config-dir FOLDER experiment=NAME` takes `FOLDER/experiment/NAME.yaml`.
Pictures are those of the [gallery](../cases/gallery.md), some of smaller runs.
"""
# a line of its own for the cost, which other programs can read: `# cost: 13 s, 640 MB`
_COST = re.compile(r"# cost: (\S+ s), (\S+ MB)")
_COMMAND = re.compile(r"# (pdefit \w+ experiment=\S+.*)")


def write(plugins: Path, pictures: Path) -> str:
    """The page.

    **Arguments:**

    - `plugins`: the folder of the plugins.
    - `pictures`: the folder of the gallery, with a picture of each experiment that is quick.
    """
    parts = [_INTRODUCTION]
    for plugin in sorted(plugins.glob("pdefit_*/conf/experiment")):
        files = sorted(plugin.rglob("*.yaml"))
        parts.append(f"## {files[0].parent.name}")
        parts += [_experiment(str(f.relative_to(plugin).with_suffix("")), f, pictures) for f in files]
    return "\n\n".join(parts) + "\n"


def _experiment(name: str, file: Path, pictures: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    head = lines[: next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))]
    cost = [found.groups() for line in head if (found := _COST.match(line))]
    command = [found[1] for line in head if (found := _COMMAND.match(line))]
    text = [
        line[1:].strip()
        for line in head
        if not line.startswith("# @package") and not _COST.match(line) and not _COMMAND.match(line)
    ]
    parts = [f"### `{name}`", *("\n".join(text).split("\n\n"))]
    parts = [parts[0], *(coded(" ".join(p.split())) for p in parts[1:] if p.strip())]
    parts.append(f"```bash\n{command[0] if command else f'pdefit fit experiment={name}'}\n```")
    parts += [f"The whole command takes {cost[0][0]} and {cost[0][1]} of memory."] if cost else []
    if (picture := pictures / f"{name.replace('/', '_')}.png").exists():
        parts.append(f"![Picture of {name}](../pictures/{picture.name})")
    return "\n\n".join(parts)
