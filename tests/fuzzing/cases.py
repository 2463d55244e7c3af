"""Cases by number: what is damaged, what is asked, and what is wrong with the answer."""

import contextlib
import copy
import functools
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import hydra
import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from fuzzing.command import answer, complaint
from fuzzing.configurations import damaged, damaged_text, flipped
from fuzzing.data_files import CELLS, FILM, damage, damaged_foreign, damaged_table, film
from fuzzing.run_directories import SHOWN, SWAPPED, contents, odd, spoiled, swapped, with_more, worse
from pdefit import PdefitError, load_run
from pdefit.cli.config.configuration import register_resolvers
from pdefit.cli.runtime import plugins
from pdefit.data.readers.locate import locate
from pdefit.output.pictures.drawn import Drawn

_FRONT = ("experiment=reaction/fisher_front", f"system.grid.shape=[{CELLS}]", "times.count=7", "max_iterations=1")
# small enough to be built in a tenth of a second
EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "front": _FRONT,
    "dish": ("experiment=reaction/fisher_front_2d", "system.grid.shape=[20, 4]", "times.count=7", "max_iterations=1"),
    "planets": (
        "experiment=particles/solar_system",
        "times.stop=800",
        "times.fit_until=500",
        "dt=10",
        "max_iterations=1",
    ),
    "film": (*_FRONT, *FILM),
}


@functools.cache
def configuration(name: str) -> dict[str, Any]:
    """What Hydra would write for one of the experiments, interpolations kept."""
    plugins.register()
    register_resolvers()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_module("pdefit_conf", version_base="1.3"):
        content = OmegaConf.to_container(hydra.compose("config", overrides=list(EXPERIMENTS[name])), resolve=False)
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items()}


def run_directory(folder: Path, config: bytes, name: str = "run") -> Path:
    """A run that was stopped before it saved a state."""
    run = folder / name
    (run / ".hydra").mkdir(parents=True)
    (run / ".hydra" / "config.yaml").write_bytes(config)
    (run / "provenance.json").write_text(json.dumps({"command": ["pdefit", "fit"], "experiment": "fuzz"}))
    (run / "certificate.json").write_text(json.dumps({"start": {"hashes": {}}}))
    return run


def written(content: Any) -> bytes:
    """YAML that reads back as it was."""
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode()


# --- the kinds of cases: each damages something in a folder, asks, and yields (what was done, the answer's complaint) --------


def entries(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Mistakes in the entries of a configuration of every experiment."""
    name = rng.choice(sorted(EXPERIMENTS))
    film(folder / "film.h5")
    content, told = damaged(configuration(name), rng)
    run = run_directory(folder, written(content))
    verb = rng.choice(["resume", "resume", "resume", "certify"])
    given = answer(folder, [verb, str(run.relative_to(folder))])
    return f"{verb} {name}: {told}", complaint(given) or _strays(folder)


def text(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Damage to the text of a configuration."""
    name = rng.choice(sorted(EXPERIMENTS))
    film(folder / "film.h5")
    raw, told = damaged_text(written(configuration(name)).decode(), rng)
    run_directory(folder, raw)
    given = answer(folder, ["resume", "run"])
    return f"{name}: {told}", complaint(given) or _strays(folder)


def experiment_file(folder: Path, rng: random.Random) -> tuple[str, str]:
    """The same as an experiment of one's own, found by hydra.searchpath and composed by Hydra."""
    film(folder / "film.h5")
    own: dict[str, Any] = {
        "defaults": [{"/system": "reaction/fisher_kpp"}, {"override /twin": "independent"}],
        "system": {"grid": {"shape": [CELLS]}},
        "times": {"start": 0.0, "stop": 3.0, "count": 7},
        "noise": 0.02,
        "max_iterations": 1,
        "controls": {"D": {"transform": "log", "guess": {"perturb": [0.3, 3.0]}, "bounds": [0.01, 4.0]}},
    }
    if rng.random() < 0.5:
        content, told = damaged(own, rng)
        raw = b"# @package _global_\n" + written(content)
    else:
        raw, told = damaged_text("# @package _global_\n" + written(own).decode(), rng)
    (folder / "mine" / "experiment").mkdir(parents=True)
    (folder / "mine" / "experiment" / "own.yaml").write_bytes(raw)
    overrides = ["experiment=own", "--config-dir", str(folder / "mine"), "hydra.run.dir=run"]
    given = answer(folder, [rng.choice(["fit", "fit", "simulate"]), *overrides])
    return told, complaint(given) or _strays(folder)


def override(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Mistakes on the command line."""
    content = configuration(rng.choice(["front", "film"]))
    mistaken, told = damaged(content, rng)
    film(folder / "film.h5")
    changed = [
        f"{'++' if rng.random() < 0.5 else ''}{k}={_inline(v)}" for k, v in mistaken.items() if v != content.get(k)
    ]
    junk = rng.choice(
        [
            "",
            "",
            "=",
            "=1",
            "a=",
            "++",
            "~",
            "~seed",
            "+seed=1",
            "seed=1,2",
            "--multirun",
            "@=1",
            "seed=${",
            "\x00=1",
            "hydra.run.dir=",
            "hydra.run.dir=/proc/none",
            "hydra.mode=MULTIRUN",
            "-x",
            "--",
            "--cfg",
            "--help",
            "--cfg=job",
            "experiment=",
            "experiment=../x",
            "experiment=[a,b]",
            "experiment=null",
            "solver=../../x",
            "hydra=null",
            "hydra.job.name=a/b",
            "hydra/job_logging=none",
            "--config-dir=x",
            "--config-name=x",
            "ü=1",
        ]
    )
    given = answer(folder, ["fit", EXPERIMENTS["front"][0], *changed[:2], "hydra.run.dir=run", *filter(None, [junk])])
    if junk in ("--cfg", "--", "-x", "--help", "--cfg=job") and not given.escaped and given.code != 1:
        return f"{junk}", "" if given.code in (0, 2) else str(given)
    return f"{told} {changed[:2]} {junk!r}", complaint(given) or _strays(folder)


def _inline(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def data(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Damage to the film of an experiment that is in order."""
    told = damage(folder / "film.h5", rng)
    content = copy.deepcopy(configuration("film"))
    if rng.random() < 0.2:
        content["data"]["sigma"] = "auto"
    run_directory(folder, written(content))
    given = answer(folder, ["resume", "run"])
    return told, complaint(given) or _strays(folder)


def check_verb(folder: Path, rng: random.Random) -> tuple[str, str]:
    """The same damage, looked at before a fit; a picture is drawn of every fourth file."""
    told = damage(folder / "film.h5", rng)
    given = answer(folder, ["check", "film.h5", *(["picture=false"] if rng.random() < 0.75 else [])])
    (folder / "film.h5.check.png").unlink(missing_ok=True)
    return told, complaint(given) or _strays(folder)


def foreign(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Damage to files of MATLAB and NumPy, and to tables of points."""
    name, raw, told = damaged_foreign(rng)
    (folder / name).write_bytes(raw)
    given = answer(folder, ["check", name, "picture=false"])
    (folder / name).unlink()
    return told, complaint(given) or _strays(folder)


def planets(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Damage to the bytes of the planets' file."""
    raw = locate("solar_system/planets_1970_2040_20d.h5").read_bytes()
    at = rng.randrange(len(raw)) if rng.random() < 0.3 else rng.randrange(8000)
    how = rng.choice(["cut", "flip"])
    (folder / "planets.h5").write_bytes(
        raw[:at] if how == "cut" else raw[:at] + flipped(raw[at : at + 64], rng, 4) + raw[at + 64 :]
    )
    content = copy.deepcopy(configuration("planets"))
    content["data"]["path"] = "planets.h5"
    run_directory(folder, written(content))
    given = answer(folder, ["resume", "run"])
    return f"{how} at {at}", complaint(given) or _strays(folder)


def table(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Damage to the reference table of a simulation."""
    raw, told = damaged_table(locate("reference/pleiades_reference.csv").read_text(), rng)
    (folder / "table.csv").write_bytes(raw)
    short = ["times.count=2", "times.stop=0.01", "dt=0.01", "reference.time=0.01", "reference.path=table.csv"]
    given = answer(folder, ["simulate", "experiment=particles/pleiades", *short, "hydra.run.dir=run"])
    return told, complaint(given) or _strays(folder)


def long_table(folder: Path, rng: random.Random) -> tuple[str, str]:
    """Damage to a table of one row for each value, which is looked at, or fitted as two recordings."""
    rows = [
        f"{hill},{who},{1900 + i},{10 + i}" for hill in ("north", "south") for who in ("hare", "lynx") for i in range(4)
    ]
    raw, told = damaged_table("\n".join(["hill,species,year,pelts", *rows, ""]), rng)
    (folder / "table.csv").write_bytes(raw)
    long = "+data.long={value: pelts, time: year, observable: species, recording: hill}"
    named = ["data.path=table.csv", "data.variables={prey: hare, predator: lynx}", "~data.time", long]
    fit = ["fit", "experiment=populations/hudson_bay_lotka_volterra", *named, "hydra.run.dir=run"]
    given = answer(folder, rng.choice([["check", "table.csv", "picture=false"], fit]))
    return told, complaint(given) or _strays(folder)


def run_files(folder: Path, rng: random.Random, base: Path) -> tuple[str, str]:
    """Damage to the files of a run that has ended, which is then asked to go on, or to be certified again."""
    run = folder / "run"
    shutil.copytree(base, run)
    files = [
        "state/state.h5",
        "state/state.h5",
        "history.h5",
        "provenance.json",
        "certificate.json",
        ".hydra/config.yaml",
        "state/state_before.h5",
        ".lock",
        "parameters.csv",
        "fields.h5",
        "DONE",
    ]
    told = [spoiled(run / rng.choice(files), rng) for _ in range(rng.choice([1, 1, 2]))]
    before = contents(run)
    arguments = rng.choice(
        [
            ["resume", "run"],
            ["resume", "run"],
            ["certify", "run"],
            ["resume", "run", "max_iterations=3"],
            ["resume", "run", "max_iterations=x"],
            ["resume", "run", "max_iterations="],
            ["certify", "run", "=", "a.b="],
            ["resume", "run", "seed=${"],
            ["resume", "run", "max_iterations=[1"],
            ["certify", "run", "a..b=1"],
        ]
    )
    given = answer(folder, arguments)
    wrong = complaint(given) or _strays(folder)
    # what says how a refused run went may change; what it found may not
    status = {".lock", "FAILED", "INTERRUPTED", "DONE", "run.log", "provenance.json", "history.h5"}
    lost = [n for n, raw in before.items() if n not in status and contents(run).get(n) != raw]
    return f"{arguments}: {'; '.join(told)}", wrong or (f"changed: {lost}" if lost else "") or worse(run, before)


# exceptions that are no sentence, in the notes of a report or on the terminal
_BUG = re.compile(r"(?<!Pdefit)\b(Type|Value|Key|Index|Attribute|Recursion|Overflow|ZeroDivision|UnicodeDecode)Error\b")


def shown_runs(folder: Path, rng: random.Random, base: Path) -> tuple[str, str]:
    """Entries of another kind, pipes and links in a run that is loaded, reported, compared and asked to go on."""
    first, run = (with_more(shutil.copytree(base, folder / name)) for name in ("other", "run"))
    told = []
    for _ in range(rng.choice([1, 1, 2])):
        path = run / rng.choice(SHOWN)
        how = rng.choice([swapped, swapped, swapped, odd]) if path.is_file() and path.suffix in SWAPPED else odd
        told.append(how(path, rng))
    verb = rng.choice(["load", "load", "report", "compare", "resume", "certify"])
    if verb == "load":
        given, shown = answer(folder, ["--version"]), _loaded(run)
    else:
        arguments = {"compare": ["compare", str(first), "run"], "resume": ["resume", "run", "max_iterations=3"]}
        with mock.patch("pdefit.cli.run.pictures.pictures", lambda *_, **__: Drawn()):
            given = answer(folder, arguments.get(verb, [verb, "run"]))
        page = run / "report.html"
        shown = given.out + given.err + (page.read_text() if page.is_file() else "")
    shutil.rmtree(folder / "compare", ignore_errors=True)
    wrong = complaint(given) or ("a raw escape" if "\x1b" in shown else "") or "".join(_BUG.findall(shown))
    return f"{verb}: {'; '.join(told)}", wrong or _strays(folder)


def _loaded(run: Path) -> str:
    """All that Python shows of a run, or the sentences that refuse it."""
    shown = ""
    with contextlib.suppress(PdefitError):
        loaded = load_run(run)
        for part in (
            "__repr__",
            "_repr_html_",
            "state",
            "summary",
            "parameters",
            "history",
            "verdict",
            "fields",
            "figures",
        ):
            try:
                found = getattr(loaded, part)
                shown += found() if callable(found) else ""
            except PdefitError as error:
                shown += str(error)
    return shown


def _strays(folder: Path) -> str:
    """Files that no command should have made."""
    allowed = {"film.h5", "planets.h5", "table.csv", "run", "mine", "runs", "multirun", "outputs", "other.h5", "other"}
    strays = [p.name for p in folder.iterdir() if p.name not in allowed]
    half = [p.name for p in folder.rglob("*") if "partial" in p.name]
    return f"left behind: {strays + half}" if strays + half else ""


KINDS: dict[str, Callable[..., tuple[str, str]]] = {
    f.__name__: f
    for f in (
        entries,
        text,
        experiment_file,
        override,
        data,
        check_verb,
        foreign,
        planets,
        table,
        long_table,
        run_files,
        shown_runs,
    )
}


@contextmanager
def folder_for(parent: Path, name: str) -> Iterator[Path]:
    """An empty folder that is removed again."""
    folder = parent / name
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def check(kind: str, seed: int, parent: Path, *base: Path) -> tuple[str, str]:
    """The outcome of one case and its faults; `base` is the run that `run_files` damages."""
    rng = random.Random(f"{kind} {seed}")
    with folder_for(parent, f"{kind}-{seed}") as folder:
        return KINDS[kind](folder, rng, *base)


def finished_run(folder: Path) -> Path:
    """A run that has ended, to be damaged."""
    given = answer(folder, ["fit", *_FRONT, "hydra.run.dir=base", "stages=adam", "render=false"], whole=True, limit=600)
    assert given.code == 0 and not complaint(given), given
    return folder / "base"


def batch(counts: dict[str, int], folder: Path, base: Path, sender: Any) -> None:
    """Many cases in a process of their own: before and after each, tell which it is and what is wrong with it."""
    for kind, seed in ((kind, seed) for kind, count in counts.items() for seed in range(count)):
        sender.send((f"{kind} {seed}", ""))
        told, wrong = check(kind, seed, folder, *([base] if kind in ("run_files", "shown_runs") else []))
        sender.send((f"{kind} {seed}", f"{told}\n{wrong}" if wrong else ""))
    sender.send(("the end", ""))
