"""Words of the command line: flags and settings for Hydra, files, and the text of `pdefit --help`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pdefit._util.errors import PdefitError, unknown

# verbs configured by Hydra, which make a run directory
VERBS = ("fit", "simulate", "plan", "compare-adjoints", "sensitivity", "certify", "doctor", "identify", "design")
# all verbs, and the modules with their functions
MODULES = {
    **dict.fromkeys(("fit", "resume"), "run.fit"),
    **{verb: f"run.{verb}" for verb in ("simulate", "plan", "certify", "identify", "design", "profile", "discover")},
    **dict.fromkeys(("compare-adjoints", "sensitivity", "doctor"), "run.studies"),
    **dict.fromkeys(("render", "report", "export"), "run.pictures"),
    **{verb: f"commands.{verb}" for verb in ("check", "compare", "list", "new", "sweep", "verify")},
    "import": "commands.import_",
}
# verbs that print the help
HELP = ("-h", "--help", "help")
# options of verbs that Hydra configures, which are no keys of an experiment, with their defaults
OPTIONS = {"design": {"for": "", "at": "guess"}}
# flags of Hydra that are allowed, and their values; others read pickles or other primary configurations
_ALONE = ("-m", "--multirun", "--resolve", "-h", "--help")
_KINDS = ("job", "hydra", "all")
_WITH = {
    **dict.fromkeys(("-c", "--cfg"), "job, hydra or all"),
    **dict.fromkeys(("-p", "--package"), "a section of the configuration"),
    **dict.fromkeys(("-cd", "--config-dir"), "a folder of configurations"),
}
_SHOWN = "-m (a sweep), --cfg job (shows the configuration), --config-dir FOLDER (your own) and --help"


class NamedFiles(NamedTuple):
    """Files named on a command line: one of equations, one of an experiment; None for a missing one."""

    equations: Path | None
    experiment: Path | None


def files(words: Sequence[str]) -> tuple[NamedFiles, list[str]]:
    """Files named by words that end in `.py` and `.yaml`, and all other words."""
    found: dict[str, list[str]] = {".py": [], ".yaml": []}
    rest = []
    # the word after a flag belongs to that flag
    for before, word in zip(["", *words], words, strict=False):
        ending = Path(word).suffix.replace(".yml", ".yaml")
        plain = "=" not in word and not word.startswith("-") and before not in _WITH
        found[ending].append(word) if plain and ending in found else rest.append(word)
    for ending, what in ((".py", "of equations"), (".yaml", "of an experiment")):
        if len(found[ending]) > 1:
            raise PdefitError(f"One file {what} is expected, but got {' and '.join(found[ending])}")
    return NamedFiles(*(Path(found[e][0]) if found[e] else None for e in (".py", ".yaml"))), rest


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags with their values, and settings."""
    flags: list[str] = []
    settings: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            settings.append(_setting(word))
            continue
        flag, equals, value = word.partition("=")
        if flag not in (*_ALONE, *_WITH) or (equals and flag in _ALONE):
            raise _unknown(flag, value or (rest[0] if rest else ""))
        flags.append(flag)
        if flag in _WITH:
            value = value if equals or not rest else rest.pop(0)
            if not value or value.startswith("-") or (flag in ("-c", "--cfg") and value not in _KINDS):
                raise PdefitError(f"{flag} expects {_WITH[flag]}, but got '{value}'")
            flags.append(value)
    return flags, settings


def folders(flags: Sequence[str]) -> list[str]:
    """Configuration folders named by flags."""
    return [value for flag, value in zip(flags, flags[1:], strict=False) if flag in ("-cd", "--config-dir")]


def options_among(words: Sequence[str], defaults: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Options `key=value` of a verb with their defaults, and all other words."""
    known = [word for word in words if word.partition("=")[0] in defaults and "=" in word]
    return {**defaults, **dict(word.split("=", 1) for word in known)}, [word for word in words if word not in known]


def of_verb(verb: str, words: Sequence[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """A verb's own options, its flags with their values, and its settings."""
    options, rest = options_among(words, OPTIONS.get(verb, {}))
    return options, *split(rest)


def run_and_options(words: Sequence[str], verb: str, defaults: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """The directory in `RUN key=value ...`, and the options; unknown options are refused.

    **Arguments:**

    - `words`: the words after the verb, which errors repeat.
    - `defaults`: the defaults of the options.
    """
    directory = named_directory(words, verb, "a run, or a folder of runs", "runs/...")
    chosen, rest = options_among(words[1:], defaults)
    for word in rest:
        if "=" not in word:
            raise PdefitError(f"'{word}' is not of the form key=value")
        raise unknown(f"key of {verb}", word.partition("=")[0], defaults)
    return directory, chosen


def named_directory(words: Sequence[str], verb: str, of: str, example: str) -> Path:
    """The directory that follows a verb; errors describe it by `of`."""
    if not names_a_run(words):
        raise PdefitError(f"{verb} expects the directory of {of}, e.g. pdefit {verb} {example}")
    return Path(words[0])


def names_a_run(words: Sequence[str]) -> bool:
    """True if the first word is a directory, neither a setting nor a flag."""
    return bool(words) and "=" not in words[0] and not words[0].startswith("-")


def boolean(value: str, key: str) -> bool:
    """A boolean from the text of an option; `key` names the option in errors."""
    if value.lower() not in ("true", "false"):
        raise PdefitError(f"{key} expects true or false, but got '{value}'")
    return value.lower() == "true"


def _setting(word: str) -> str:
    if re.fullmatch(r"\+*experiment=\[.*\]", word):
        raise PdefitError(
            f"experiment expects one name, but got '{word}'; -m experiment=NAME,NAME runs one after the other"
        )
    # Hydra refuses null for a group; here it can only mean that nothing is left out
    return "observe=all" if word == "observe=null" else word


def _unknown(flag: str, value: str) -> PdefitError:
    name = flag.lstrip("-")
    plain = flag.startswith("--") and re.fullmatch(r"[a-z_]+", name) and not value.startswith("-")
    meant = f"did you mean {name}={value or 'VALUE'}? S" if plain else "s"
    return PdefitError(f"There is no flag '{flag}'; {meant}ettings are written key=value, and the flags are {_SHOWN}")


USAGE = """usage: pdefit VERB [key=value ...]

  fit experiment=NAME        infer the controls of an experiment; leaves a run directory
  fit EQUATION.py EXPERIMENT.yaml   the same for equations and an experiment in files of your own; so can all verbs below
  simulate experiment=NAME   solve its equations forward
  plan experiment=NAME       the cost of its fit beforehand: checkpoints, memory, time, disk
  compare-adjoints experiment=NAME   all sensitivity algorithms on it: accuracy, time, memory, and which one to use
  sensitivity experiment=NAME   which parameters matter: the effect of each, times and over 1.5, on what is observed
  identify experiment=NAME   what its data can tell: which controls they determine, and which compensate each other, at the
                             guess; identify RUN does so at a run's estimate
  design experiment=NAME     the intervals to expect before there are data, and what to measure next; for=CONTROL names the
                             one to know better, at=truth looks at a twin's truth in place of the guess
  certify experiment=NAME    test the gradient of an experiment at its guess; certify RUN does so at a run's estimate,
                             and with discretisation=true fits once more with half the step, and half the cell width
  doctor experiment=NAME     the first time, field and line at which values or gradients are not finite; or doctor RUN
  profile RUN [CONTROL ...]  the profiles of its numbers: intervals where the matrix is doubtful, and ends that data do not set
  discover RUN               formulas in the place of its learned terms; degree=3 functions=[sin,hill] most=6 draws=20
  resume RUN                 continue a run that was stopped; max_iterations=N extends a finished one
  render RUN                 figures, movie, fields.xdmf of a run or a folder of runs; format=svg movie=false
                             (in ParaView choose the XDMF Reader for it, not Xdmf3)
  report RUN                 one page about a run, report.html, that needs no other file
  compare RUN RUN ...        runs of the same data side by side: settings, verdicts, estimates, maps of residuals; out=compare
  sweep status SWEEP         the jobs of a sweep (fit -m): state, loss, last sign of life; watch=true goes on showing
  sweep resume SWEEP         run what is missing, failed or was stopped
  sweep collect SWEEP        one table over all jobs: sweep.csv and sweep.h5
  sweep report SWEEP         one page about them, sweep.html
  export RUN                 its fields as format=netcdf, tiff or numpy; fields=[u]
  import KIND FILES out=data.h5   files of an instrument become one data file; pixel=19.53um frame=2ms, or scale=unknown
  check FILE                 what a data file holds, what looks odd, and the lines that fit it; time=NAME picture=false
  list [experiments|systems|solvers|adjoints|drivers|stages]
  new NAME                   write a working plugin of your own into the folder NAME/; new NAME.py writes one file of equations
                             and its experiment
  verify [SYSTEM ...]        test installed systems, or those of EQUATION.py: gradients, orders, conservation, recovery

Every key of an experiment can be overridden: seed=3 max_iterations=50 controls.D.guess=2.0 solver=tsit5
-m runs a sweep: pdefit fit -m experiment=NAME seed=0,1,2                       --cfg job shows the configuration
--config-dir FOLDER adds experiments of your own, FOLDER/experiment/NAME.yaml
"""
