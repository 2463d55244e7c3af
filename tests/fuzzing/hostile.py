"""Configurations that try to run code, to write outside the run directory or to read secrets, by number.

Each is an attack on Hydra's own node or on a `_target_`, hidden by interpolations and resolvers, and brought in by the
command line, an experiment file or a defaults list. All must be refused by one sentence before anything is written. Only
what a file says of Hydra's node may be left out by one sentence instead; then nothing of it runs, is imported or written.

    PYTHONPATH=tests ./run python -m fuzzing.hostile 200
"""

import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from fuzzing.command import answer, complaint

FRONT = ("experiment=reaction/fisher_front", "system.grid.shape=[20]", "times.count=5", "max_iterations=1")
SECRET = "swordfish"

Node = dict[str, Any]

_LEFT_OUT = re.compile(r"warning: '.*' sets hydra\S*, but a file may set nothing in hydra, so it is left out; .*\n")


def _calls(rng: random.Random) -> Node:
    """Something that leaves a trace when it is called, or imported."""
    return rng.choice(
        [
            {"_target_": "numpy.savetxt", "fname": "pwned", "X": [1.0]},
            {"_target_": "numpy.load", "file": "mine/pwned.pickle", "allow_pickle": True},
            {"_target_": "builtins.open", "file": "pwned", "mode": "w"},
            {"_target_": "os.mkdir", "path": "pwned"},
            {"_target_": "h5py.File", "name": "pwned", "mode": "w"},
            {"_target_": "logging.FileHandler", "filename": "pwned"},
            {"_target_": "os.system", "command": "touch pwned"},
            {"_target_": "subprocess.run", "args": ["touch", "pwned"]},
            {"_target_": "evil.run"},
            {"_target_": "pdefit._util.atomic.write_text", "path": "pwned", "text": ""},
            {"_target_": "hydra.utils.get_method", "path": "evil.run"},
            {"_target_": "numpy.savetxt", "_partial_": True, "fname": "pwned", "X": [1.0]},
            {"_target_": "pdefit.solvers.RK4", "x": {"_target_": "numpy.savetxt", "fname": "pwned", "X": [1.0]}},
        ]
    )


def _logging(rng: random.Random) -> Node:
    """A logging configuration that opens a file elsewhere, or calls a factory."""
    call = {k if k != "_target_" else "()": v for k, v in _calls(rng).items() if k != "_partial_"}
    handler = rng.choice(
        [
            {"class": "logging.FileHandler", "filename": "../pwned"},
            {"class": "logging.FileHandler", "filename": "${hydra.runtime.output_dir}/../../pwned"},
            {"class": "logging.handlers.RotatingFileHandler", "filename": "pwned"},
            {"class": "evil.Handler"},
            {"class": "logging.StreamHandler", "stream": "ext://evil.stream"},
            {"()": "ext://evil.run"},
            call,
        ]
    )
    return {"version": 1, "root": {"level": "INFO", "handlers": ["h"]}, "handlers": {"h": handler}}


def _hidden(node: Any, path: str, rng: random.Random) -> tuple[Any, Node]:
    """What stands at `path`, and what the task's configuration holds for it: the thing itself, or a way to it."""
    text = _inline(node)
    where, keep = rng.choice([("args", node), ("reference", node), ("regularizers", {"x": node})])
    inner = where if where != "regularizers" else "regularizers.x"
    return rng.choice(
        [
            (node, {}),
            (f"${{{inner}}}", {where: keep}),
            (f"${{oc.select:{inner}}}", {where: keep}),
            (f"${{oc.create:${{{inner}}}}}", {where: keep}),
            ("${oc.decode:${reference.text}}", {"reference": {"text": text}}),
            ("${oc.create:${reference.text}}", {"reference": {"text": node}}),
            ("${oc.dict.values:reference}", {"reference": {"a": node}}),
            ("${${reference.name}}", {"reference": {"name": "args"}, "args": node}),
            (f"${{oc.decode:'{text}'}}", {}),
        ]
    )


def _inline(value: Any) -> str:
    """As it is written in an override, or in what a resolver decodes."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_inline, value)) + "]"
    return value if isinstance(value, str) and value.startswith("${") else json.dumps(value)


def _at(path: str, value: Any) -> Node:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def _merged(one: Node, other: Node) -> Node:
    out = dict(one)
    for key, value in other.items():
        out[key] = _merged(out[key], value) if isinstance(out.get(key), dict) and isinstance(value, dict) else value
    return out


def _placed(node: Any, path: str, rng: random.Random) -> Node:
    """A configuration with the node, or a way to it, at `path`."""
    hidden, kept = _hidden(node, path, rng)
    return _merged(_at(path, hidden), kept)


# --- attacks: each returns entries of a configuration ----------------------------------------------------------------------


def callbacks(rng: random.Random) -> Node:
    path = rng.choice(["hydra.callbacks.a", "hydra.callbacks"])
    node = _calls(rng)
    return _placed(node if path.endswith("a") else {"a": node}, path, rng)


def logs(rng: random.Random) -> Node:
    path = rng.choice(["hydra.job_logging", "hydra.hydra_logging"])
    return _placed(_logging(rng), path, rng)


def handlers(rng: random.Random) -> Node:
    """One entry of the logging that is there."""
    path = rng.choice(
        ["hydra.job_logging.handlers.file", "hydra.job_logging.handlers.h", "hydra.hydra_logging.handlers.h"]
    )
    return _placed(_logging(rng)["handlers"]["h"], path, rng)


def launchers(rng: random.Random) -> Node:
    path = rng.choice(["hydra.launcher", "hydra.sweeper"])
    return _placed(_calls(rng), path, rng)


def commands(rng: random.Random) -> Node:
    """A launcher's parameters that are commands, flags, or objects of their own."""
    name = rng.choice(["setup", "python", "srun_args", "additional_parameters", "submitit_folder", "x"])
    value = {"setup": ["touch pwned"], "python": "./pwned", "additional_parameters": {"wrap": "touch pwned"}}
    hidden, kept = _hidden(value.get(name, _calls(rng)), f"hydra.launcher.{name}", rng)
    target = "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"
    given = {"_target_": target} if rng.random() < 0.5 else {}
    return _merged(_at("hydra.launcher", {**given, name: hidden}), kept)


def jobs(rng: random.Random) -> Node:
    """Overrides for the jobs of a sweep, which pass for the command line's."""
    line = rng.choice(["hydra.searchpath=[pkg://evil]", "+hydra.callbacks.a=${args}", "hydra.output_subdir=../pwned"])
    key, _, value = line.partition("=")
    node = rng.choice(
        [
            _at("hydra.overrides.hydra", [line]),
            _at("hydra.overrides.task", [line]),
            _at("hydra.overrides", "${reference}") | {"reference": {"hydra": [line], "task": []}},
            _at("hydra.sweeper.params", {key: value}),
            _at("hydra.sweeper.params", "${reference}") | {"reference": {key: value}},
        ]
    )
    return _merged(node, {"args": _calls(rng)})


def folders(rng: random.Random) -> Node:
    """Run directories elsewhere, of which an experiment file decides nothing."""
    path = rng.choice(["hydra.run.dir", "hydra.run.dir", "hydra.output_subdir"])
    value = rng.choice(["../pwned", "/tmp/pwned", "runs/../../pwned", ".git/pwned", "$(touch pwned)", "\\${args}", "."])
    return _placed(value, path, rng)


def keys(rng: random.Random) -> Node:
    """Other keys of Hydra's own."""
    return rng.choice(
        [
            _at("hydra.job.env_set", {"PATH": "/tmp"}),
            _at("hydra.job.env_copy", ["SECRET"]),
            _at("hydra.job.chdir", True),
            _at("hydra.job.id", "../../pwned"),
            _at("hydra.job.name", "../../pwned"),
            _at("hydra.job.name", "${args}") | {"args": "a\n#SBATCH --wrap=pwned"},
            _at("hydra.runtime.choices", "${args}") | {"args": {"experiment": "../../pwned"}},
            _at("hydra.runtime.cwd", "${args.x}") | {"args": {"x": "/"}},
            _at("hydra.help.template", "${oc.env:SECRET}"),
            _at("hydra.verbose", _calls(rng)),
            _at("hydra.searchpath", ["file://mine"]),
            {"hydra": "${args}", "args": {"callbacks": {"a": _calls(rng)}}},
            _at("hydra.env", _calls(rng)),
        ]
    )


def search(rng: random.Random) -> Node:
    """Folders to be searched, or packages to be imported for it."""
    value = rng.choice([["pkg://evil"], ["pkg://evil.conf", "file://mine"], "${args}", "pkg://evil"])
    return _merged(_at("hydra.searchpath", value), {"args": ["pkg://evil"]})


def targets(rng: random.Random) -> Node:
    """A `_target_` of the experiment itself."""
    path = rng.choice(
        ["args", "regularizers.x", "system.grid", "twin.solver", "controls.D.guess", "initial", "observe"]
    )
    hidden, kept = _hidden(_calls(rng), path, rng)
    if isinstance(hidden, str) and path.split(".")[0] in kept:
        hidden, kept = _calls(rng), {}
    return _merged(_at(path, hidden), kept)


def names(rng: random.Random) -> Node:
    """A `_target_` that is only known once it is resolved."""
    call = _calls(rng)
    name = call.pop("_target_")
    pointer = rng.choice(["${reference.name}", "${oc.select:reference.name}", "${oc.decode:${reference.name}}"])
    return {
        "args": {"_target_": pointer, **call},
        "reference": {"name": name if name != "pdefit.solvers.RK4" else "os.system"},
    }


def secrets(rng: random.Random) -> Node:
    """The environment in what a run writes or prints."""
    path = rng.choice(["holdout", "certificate", "dtype", "data.time", "hydra.job.name"])
    return _at(path, rng.choice(["${oc.env:SECRET}", "${oc.decode:${oc.env:SECRET}}", "x-${oc.env:SECRET,none}"]))


ATTACKS: tuple[Callable[[random.Random], Node], ...] = (
    callbacks, logs, handlers, launchers, commands, jobs, folders, keys, search, targets, names, secrets,
)  # fmt: skip

# --- the ways they come in --------------------------------------------------------------------------------------------------


def _typed(node: Node, rng: random.Random) -> list[str]:
    """Entries of a configuration as overrides of the command line."""

    def leaves(inside: Any, path: str) -> list[tuple[str, Any]]:
        deep = path.count(".") < 2 and isinstance(inside, dict) and inside and "_target_" not in inside
        if not deep or (path and rng.random() < 0.3):
            return [(path, inside)]
        return [leaf for k, v in inside.items() for leaf in leaves(v, f"{path}.{k}" if path else k)]

    return [f"{rng.choice(['++', '++', '+', ''])}{path}={_inline(value)}" for path, value in leaves(node, "")]


def _written(folder: Path, node: Node, rng: random.Random) -> list[str]:
    """An experiment file that holds them itself, or brings them in by its defaults list."""
    mine = folder / "mine"
    defaults: list[Any] = ["/experiment/reaction/fisher_front"]
    own = _merged({"system": {"grid": {"shape": [20]}}, "times": {"count": 5}, "max_iterations": 1}, node)
    how = rng.choice(["own", "own", "included", "package", "group"])
    hydra = own.get("hydra")
    group = next(iter(hydra)) if isinstance(hydra, dict) else ""
    header = "# @package _global_\n"
    if how == "included":
        (mine / "experiment" / "part.yaml").write_text(header + yaml.safe_dump(node))
        defaults.append("part")
        own = {}
    elif how == "package" and isinstance(hydra, dict):
        own.pop("hydra")
        (mine / "part").mkdir()
        (mine / "part" / "x.yaml").write_text("# @package hydra\n" + yaml.safe_dump(hydra))
        defaults.append({"/part": "x"})
    elif how == "group" and isinstance(hydra, dict) and isinstance(hydra[group], dict):
        # pdefit's own choice of the logging comes first: an override would have no effect
        known = group in ("callbacks", "launcher", "sweeper", "help", "env")
        place = mine / "hydra" / group if known else mine / "extra"
        place.mkdir(parents=True)
        (place / "evil.yaml").write_text(yaml.safe_dump(hydra[group]))
        defaults.append({f"override /hydra/{group}": "evil"} if known else {f"/extra@hydra.{group}": "evil"})
        own.pop("hydra")
    defaults.append("_self_")
    (mine / "experiment" / "own.yaml").write_text(header + yaml.safe_dump({"defaults": defaults, **own}))
    return ["--config-dir", "mine", "experiment=own"]


def _foreign(folder: Path, rng: random.Random) -> list[str]:
    """Flags that read pickles, other primary configurations or packages."""
    return rng.choice(
        [
            ["--experimental-rerun", "mine/pwned.pickle"],
            ["--experimental-rerun=mine/pwned.pickle"],
            ["--exp", "mine/pwned.pickle"],
            ["--config-path", "pkg://evil"],
            ["--config-name", "evil", "--config-dir", "mine"],
            ["-cp", "pkg://evil"],
            ["--info", "plugins"],
            ["hydra/job_logging=stdout"],
            ["hydra/callbacks=evil", "--config-dir", "mine"],
            ["solver@hydra.callbacks.a=rk4"],
            ["hydra/launcher@hydra.callbacks.a=basic"],
            ["~hydra.launcher"],
        ]
    )


def _shadowed(folder: Path, rng: random.Random) -> list[str]:
    """A folder whose files have the names of Hydra's own launchers."""
    group = rng.choice(["launcher", "sweeper"])
    (folder / "mine" / "hydra" / group).mkdir(parents=True)
    (folder / "mine" / "hydra" / group / "basic.yaml").write_text(yaml.safe_dump(_calls(rng)))
    return ["--config-dir", "mine", *([] if rng.random() < 0.5 else [f"hydra/{group}=basic"])]


_PICKLE = b"cos\nsystem\n(S'touch pwned'\ntR."
_EVIL = "open('pwned', 'w')\ndef run(*_, **__): open('pwned', 'w')\nclass Handler: pass\nstream = None\n"


def check(seed: int, parent: Path, whole: bool = False) -> tuple[str, str]:
    """What one case does, and what is wrong with the answer; `whole` lets Hydra set up logging."""
    rng, folder = random.Random(f"hostile {seed}"), parent / f"hostile-{seed}" / "work"
    (folder / "mine" / "experiment").mkdir(parents=True)
    (folder / "mine" / "pwned.pickle").write_bytes(_PICKLE)
    (folder / "evil").mkdir()
    (folder / "evil" / "__init__.py").write_text(_EVIL)
    attack = ATTACKS[seed % len(ATTACKS)]
    kind = rng.choice(
        ["typed", "written", "written", "written", "flags", "shadowed"] if seed % 4 == 0 else ["typed", "written"]
    )
    # the command line may put its run directories anywhere
    if attack in (folders, secrets) and kind == "typed":
        kind = "written"
    if kind == "typed":
        arguments = [*FRONT, *_typed(attack(rng), rng)]
    elif kind == "written":
        arguments = _written(folder, attack(rng), rng)
    else:
        arguments = [*FRONT, *(_foreign if kind == "flags" else _shadowed)(folder, rng)]
    verb = rng.choice(["fit", "simulate"])
    # overrides of jobs, and launchers, matter to sweeps alone
    arguments += ["-m", "seed=0,1"] if attack in (jobs, launchers, commands) and rng.random() < 0.7 else []
    before = {p for p in parent.rglob("*")}
    os.environ["SECRET"] = SECRET
    sys.path.insert(0, str(folder))
    try:
        given = answer(folder, [verb, *arguments], logs=whole)
    finally:
        sys.path.remove(str(folder))
        os.environ.pop("SECRET")
        imported = [name for name in list(sys.modules) if name.split(".")[0] == "evil"]
        for name in imported:
            del sys.modules[name]
    new = [str(p.relative_to(parent)) for p in set(parent.rglob("*")) - before if "__pycache__" not in p.parts]
    told = f"{attack.__name__}, {kind}: pdefit {verb} {' '.join(arguments)}"
    if kind in ("written", "shadowed"):
        told += "".join(
            f"\n--- {f.relative_to(folder)}\n{f.read_text()}" for f in sorted((folder / "mine").rglob("*.yaml"))
        )
    # what a file says of Hydra is left out by one sentence, and the run, if there is one, writes into its own folder only
    left_out = _LEFT_OUT.match(given.err) if kind == "written" else None
    if left_out:
        # each job of a sweep is refused by the same sentence
        lines = dict.fromkeys(given.err[left_out.end() :].splitlines(keepends=True))
        given = given._replace(err="".join(lines))
        new = [p for p in new if not f"{p}/".startswith(f"{folder.relative_to(parent)}/runs/") or "pwned" in p]
    wrong = complaint(given)
    if not wrong and given.code != 1 and not (left_out and not given.err):
        wrong = f"was not refused: {given.out}{given.err}"
    if not wrong and new:
        wrong = f"wrote {sorted(new)}: {given.err}"
    if imported:
        wrong = f"imported {imported}"
    if SECRET in given.out + given.err + (left_out[0] if left_out else ""):
        wrong = f"told the secret: {given.err}"
    return f"{told}\n=> {left_out[0] if left_out else ''}{given.err.strip()}", wrong


def main(count: int) -> None:
    """Check as many cases, and print what they got."""
    failures = 0
    with tempfile.TemporaryDirectory() as parent:
        for seed in range(count):
            told, wrong = check(seed, Path(parent), whole=True)
            failures += bool(wrong)
            print(f"{seed}: {told}\n{f'WRONG: {wrong}' if wrong else 'refused, or left out'}\n")
    print(f"{count} hostile configurations: {count - failures} refused or left out by one sentence, {failures} not")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
