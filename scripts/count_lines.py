"""Lines of code by room, without docstrings, comments, blank lines and the imports at the top of a file.

    ./run python scripts/count_lines.py [FOLDER]
    ./run python scripts/count_lines.py --imported VERB [ARGUMENT ...]

FOLDER is the root of a checkout (default: this one), so that two versions can be compared. With `--imported` the command
`pdefit VERB ...` is run, and the files of pdefit that it has loaded are counted.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]

# rooms that an inversion cannot do without
CORE = ("systems", "data", "integrate", "adjoints") + tuple(
    f"inverse/{room}" for room in ("linear", "problem", "controls", "shooting", "objective", "optimizers", "fit")
)


def code_lines(source: str) -> int:
    """Number of lines with code."""
    tree = ast.parse(source)
    without: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not body:
            continue
        first = body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            without |= _lines(first)
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            without |= _lines(node)
    written = {
        number
        for number, line in enumerate(source.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    return len(written - without)


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def room(file: Path) -> str:
    """Folder of a file in its package: in inverse and cli two levels, elsewhere one."""
    parts = file.parts[:-1]
    depth = 2 if parts and parts[0] in ("inverse", "cli") else 1
    return "/".join(parts[:depth]) or "."


def by_room(root: Path) -> tuple[Counter[str], Counter[str], dict[str, int]]:
    """Code lines and number of files of every room, and the code lines of every file."""
    lines, files, lengths = Counter[str](), Counter[str](), {}
    package = root / "pdefit"
    for file in sorted(package.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        inside = file.relative_to(package)
        lengths[str(inside)] = code_lines(source)
        lines[room(inside)] += lengths[str(inside)]
        files[room(inside)] += 1
    return lines, files, lengths


def count_imported(words: list[str]) -> None:
    """Run a command of pdefit, and print how many lines of pdefit it has loaded."""
    from pdefit.cli.main import main

    sys.argv = ["pdefit", *words]
    try:
        main()
    finally:
        loaded = {Path(file) for m in [*sys.modules.values()] if (file := getattr(m, "__file__", None))}
        counts = [code_lines(file.read_text(encoding="utf-8")) for file in loaded if ROOT / "pdefit" in file.parents]
        print(f"loaded of pdefit: {sum(counts)} lines in {len(counts)} files")


def main() -> None:
    if sys.argv[1:2] == ["--imported"]:
        return count_imported(sys.argv[2:])
    lines, files, lengths = by_room(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    for name in sorted(lines):
        print(f"{name:28s} {lines[name]:6d} lines in {files[name]:3d} files")
    core = sum(lines[name] for name in lines if name.startswith(CORE))
    longest = max(lengths, key=lambda name: lengths[name])
    print(f"{'core':28s} {core:6d} lines: {', '.join(CORE)}")
    print(f"{'pdefit/':28s} {sum(lines.values()):6d} lines in {sum(files.values()):3d} files")
    print(f"longest file: {longest}, {lengths[longest]} lines")


if __name__ == "__main__":
    main()
