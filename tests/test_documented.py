"""The commands of the pages run: those of ten pages a day, in their order, in a folder that holds the files of the page.

The date of the commit says which ten, so that a commit has its own, and all pages have their turn within a week. `RUN` and its
like stand for the last fit of the page. What costs more than a minute by docs/measured.json is left to the acceptance runs.
"""

import ast
import functools
import inspect
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = {str(p.relative_to(ROOT)): p.read_text() for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))}
MEASURED = json.loads((ROOT / "docs" / "measured.json").read_text())
SHIPPED = {
    re.sub(r".*/conf/experiment/", "", str(f.with_suffix(""))) for f in ROOT.glob("plugins/*/conf/experiment/**/*.yaml")
}
A_DAY = 10
# seconds on an idle machine; ten pages take five minutes then
MOST = 55.0
# the run of pages that make none
SMALL = "experiment=reaction/fisher_front system.grid.shape=[80] times.count=13 max_iterations=3"

# commands that take settings: they run without pictures and on one core, which are for other tests
_EXPERIMENT = re.compile(
    r"pdefit (fit|plan|certify|design|identify|doctor|simulate) .*(experiment=|\.yaml)(?!.* --cfg)"
)

# what a reader puts in the place of words in capitals
PLACEHOLDERS = {
    "experiment=NAME": "experiment=reaction/fisher_front",
    "solver=NAME": "solver=tsit5",
    "RUN RUN": "RUN:1 RUN:0",
    "runs/A runs/B": "RUN:1 RUN:0",
    "RUN alpha beta": "RUN D r",
    "RUN alpha,beta": "RUN D,r",
    "runs/reaction/fisher_front/...": "RUN:0",
}
# shipped files in the place of those that a reader has
STAND_INS = {"cells.tif": "data/reaction/spiral_film.tif"}

# commands that are not run, by page and beginning
NOT_RUN = {
    "a queue, or several processes at once; tests/slurm and tests/cli/sweeps run them": (
        "docs/how-to/cluster.md: pdefit",
        "docs/how-to/sweep.md: pdefit fit -m hydra/launcher=joblib",
    ),
    "a package is installed before it; tests/cli/commands/test_new.py does that": (
        "docs/tutorials/your-equation.md: pdefit verify my_fronts",
        "docs/tutorials/your-equation.md: pdefit fit experiment=my_fronts",
        "docs/project/write-a-plugin.md: pdefit verify my_fronts",
        "docs/project/write-a-plugin.md: pdefit fit experiment=my_fronts",
    ),
    "data that only the reader has": (
        "docs/cases/convection.md: pdefit check piv.h5",
        "docs/cases/convection.md: pdefit fit --config-dir my_folder",
        "docs/how-to/complex-fields.md: pdefit fit wave.py",
        "docs/how-to/import-piv.md: pdefit",
        "docs/how-to/import-tracks.md: pdefit",
        "docs/how-to/import-film.md: pdefit import film cells.tif --out data.h5 pixel=0.65um frame=2s dark=dark.npy",
        "docs/tutorials/your-film.md: pdefit import film",
    ),
    "openpiv, which is an extra": (
        "docs/how-to/import-film.md: pdefit import piv",
        "docs/cases/windows.md: pdefit import piv",
        "docs/cases/windows.md: pdefit check nematic.h5",
    ),
    "the camera of the page on cases/spots, which takes longer than a minute": (
        "docs/how-to/import-film.md: pdefit fit film.yaml",
    ),
    "the fits before it take longer than a minute": (
        "docs/how-to/which-model.md: pdefit compare runs/fisher runs/lag",
    ),
    "repetitions that take minutes; tests/cli/run/test_discover.py does fewer": (
        "docs/how-to/discover.md: pdefit discover RUN functions=[saturation,hill]",
    ),
    "a run with a learned term, which only docs/how-to/discover.md makes": ("README.md: pdefit discover RUN",),
    "every equation, for minutes; tests/conformance tests them": ("docs/project/referee.md: pdefit verify",),
    "the form of all commands": ("docs/reference/command-line.md: pdefit VERB",),
}


def _blocks(page: str) -> list[str]:
    return re.findall(r"^ *```bash$(.*?)^ *```$", page, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """Commands of pdefit in a text, each in one line, without comments."""
    lines = [line.strip() for block in _blocks(page) for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    return [re.sub(r"^\./run |\s+#\s[^'\"]*$", "", line) for line in lines if re.match(r"(\./run )?pdefit ", line)]


def cost(command: str) -> float:
    """Recorded seconds of a command: those of its experiment for every job."""
    (name,) = re.findall(r"\sexperiment=(\S+)", command) or [""]
    jobs = [len(v.split(",")) for v in re.findall(r"=(\S+)", command)] if " -m " in command else [1]
    known = MEASURED.get(f"{name}: whole command", {"value": math.inf if name in SHIPPED else 0.0})
    return known["value"] * math.prod(jobs)


def _left_out(page: str, command: str) -> bool:
    entries = [entry for them in NOT_RUN.values() for entry in them]
    return cost(command) > MOST or any(f"{page}: {command}".startswith(entry) for entry in entries)


def runnable(page: str) -> list[str]:
    return [command for command in commands(PAGES[page]) if not _left_out(page, command)]


def turn(pages: list[str], day: int) -> list[str]:
    """Pages of a day: the next ten, from the first again after the last."""
    return [pages[(A_DAY * day + i) % len(pages)] for i in range(min(A_DAY, len(pages)))]


@functools.cache
def _day() -> int:
    """The day of the last commit, counted from 1970; 0 outside a checkout."""
    words = ["git", "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout) // 86_400
    except (OSError, subprocess.CalledProcessError):
        return 0


def _example(page: str) -> str:
    """The program that a page shows as a whole."""
    (name,) = re.findall(r'--8<-- "(examples/\w+\.py)"', page) or ["examples/your_film.py"]
    return (ROOT / name).read_text()


def _classes(program: str) -> str:
    """Imports and classes of a program, without data and fit."""
    kept = (ast.Import, ast.ImportFrom, ast.ClassDef)
    return "\n\n".join(ast.unparse(node) for node in ast.parse(program).body if isinstance(node, kept))


def _data(program: str, file: Path, variables: dict[str, str]) -> None:
    """Write the observations of a program, which run no further than to them."""
    names: dict = {}
    for node in ast.parse(program).body:
        exec(compile(ast.Module([node], []), "example", "exec"), names)
        film = names.get("data", names.get("film"))
        if hasattr(film, "ts"):
            break
    # the program may have written a file by itself
    if "path" in names:
        shutil.copy(names["path"], file)
        return
    with h5py.File(file, "w") as made:
        made["time"] = np.asarray(film.ts)
        for field, name in variables.items():
            made[name] = np.asarray(film.values[field])


def _write_files(page: str, folder: Path, words: list[str]) -> None:
    """Write the files that the words of a command name, as the page shows them."""
    text = PAGES[page]
    for name in words:
        path = folder / name
        if not re.fullmatch(r"[\w/]+\.(py|yaml|h5|tif)", name) or path.exists():
            continue
        kind = {".py": "python", ".yaml": "yaml"}.get(path.suffix, "none")
        blocks = re.findall(rf"^```{kind}\n(.*?)^```$", text.partition(f" {name}")[0], re.DOTALL | re.MULTILINE)
        named = [block for block in blocks if block.startswith(f"# {name}\n")]
        path.parent.mkdir(parents=True, exist_ok=True)
        shipped = [f for f in (ROOT / "examples" / name, ROOT / STAND_INS.get(name, name)) if f.exists()]
        if named:
            path.write_text(named[0])
        elif shipped:
            shutil.copy(shipped[0], path)
        elif kind == "yaml":
            path.write_text(blocks[-1])
        elif kind == "python":
            path.write_text(_classes(_example(text)))
        elif path.suffix == ".h5" and "--out" not in words:
            _data(_example(text), path, {})
        if kind == "yaml" and (data := yaml.safe_load(path.read_text()).get("data")):
            _data(_example(text), folder / data["path"], data["variables"])


def _fits(folder: Path) -> list[str]:
    """Folders of fits, the last one first, and those of the front, which every command takes, before all."""
    done = sorted(folder.glob("runs/**/summary.json"), key=lambda f: ("fisher_front" in f.parts, f.stat().st_mtime_ns))
    return [str(file.parent.relative_to(folder)) for file in reversed(done)]


def filled(command: str, fits: list[str], sweeps: list[str]) -> str:
    """A command with folders in the place of RUN and its like."""
    for word, meant in PLACEHOLDERS.items():
        command = command.replace(word, meant)
    command = re.sub(r"\bRUN(:\d)?", lambda m: fits[int((m[1] or ":0")[1:])], command)
    # the last sweep of the same experiment, if the page has made one
    return re.sub(
        r"(\S+)/TIME-sweep", lambda m: next((s for s in reversed(sweeps) if f"/{m[1]}/" in s), sweeps[-1]), command
    )


def _missing(command: str, fits: list[str]) -> tuple[str, ...]:
    """Solvers of the small fits that a command needs beside those of its page: two of the same data to compare them."""
    if "RUN RUN" in command or "runs/A" in command:
        return ("rkc", "tsit5")
    return () if fits or not re.search(r"\bRUN\b|\.\.\.", command) else ("rkc",)


def _run(command: str, folder: Path) -> None:
    if _EXPERIMENT.match(command):
        command += " render=false cores=1"
    # the shell of the reader, who types quotes and braces as the page has them
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    words = ["bash", "-c", command]
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", turn([page for page in PAGES if runnable(page)], _day()))
def test_the_commands_of_a_page_run(page, tmp_path):
    for command in runnable(page):
        for solver in _missing(command, _fits(tmp_path)):
            _run(f"pdefit fit {SMALL} solver={solver}", tmp_path)
        sweeps = sorted(map(str, tmp_path.glob("runs/**/*-sweep")))
        command = filled(command, _fits(tmp_path), sweeps)
        words = shlex.split(command)
        # the same file is made in other ways, or written by the command
        for made in re.findall(r"--out (\S+)|pdefit new (\S+)", command):
            (tmp_path / "".join(made)).unlink(missing_ok=True)
        _write_files(page, tmp_path, [] if words[1] == "new" else words)
        _run(command, tmp_path)


def test_the_table_of_commands_that_are_not_run_is_needed():
    there = [f"{page}: {command}" for page in PAGES for command in commands(PAGES[page]) if cost(command) <= MOST]
    entries = [entry for them in NOT_RUN.values() for entry in them]
    assert [entry for entry in entries if not any(line.startswith(entry) for line in there)] == []
    texts = "\n".join(PAGES.values())
    assert [word for word in (*PLACEHOLDERS, *STAND_INS) if word not in texts] == []


def test_every_page_has_its_turn():
    pages = [page for page in PAGES if runnable(page)]
    days = range(_day(), _day() + math.ceil(len(pages) / A_DAY))
    assert len(pages) > 30 and {page for day in days for page in turn(pages, day)} == {*pages}


def test_blocks_of_commands_are_read_by_the_shell():
    # which shows the line that it cannot read
    assert _of_the_shell("\n".join(block for text in PAGES.values() for block in _blocks(text))) == ""
    assert "syntax error" in _of_the_shell("pdefit discover RUN formulas=[a / (b + c)]")


def _of_the_shell(text: str) -> str:
    return subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True).stderr


def test_commands_are_joined_and_stripped():
    page = "```bash\n./run pdefit fit a=[1,2] \\\n    b=c    # 3 s\nls\npdefit check 'a # b'\n```\n```yaml\npdefit x\n```\n"
    assert commands(page) == ["pdefit fit a=[1,2] b=c", "pdefit check 'a # b'"]
    assert cost("pdefit fit -m experiment=reaction/fisher_front seed=0,1") == pytest.approx(25, rel=0.1)
    assert cost("pdefit fit experiment=cardiac/voltage_only") == math.inf and cost("pdefit check film.h5") == 0
    assert filled("pdefit compare RUN RUN", ["b", "a"], []) == "pdefit compare a b"
    assert filled("pdefit fit RUN/formulas.yaml", ["b", "a"], []) == "pdefit fit b/formulas.yaml"


def test_a_program_gives_its_classes_alone():
    program = inspect.cleandoc("""
        import numpy as np
        class A:
            x = np.pi
        data = A()
    """)
    assert _classes(program) == "import numpy as np\n\nclass A:\n    x = np.pi"
