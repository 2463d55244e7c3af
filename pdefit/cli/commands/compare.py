"""pdefit compare: runs of the same data side by side, as a table and as a page."""

import contextlib
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import xarray
from omegaconf import OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from pdefit._util.errors import PdefitError, sentence, with_space
from pdefit.cli.commands._model_choice import candidate, judged
from pdefit.cli.config.command_line import options_among
from pdefit.cli.run.recorded import read_recorded
from pdefit.data.fit_section import HeldOut
from pdefit.data.readers.fields import lazy_fields, open_film
from pdefit.output.pictures.compare import Misfit, misfits, write_compare_page
from pdefit.output.pictures.report import as_text, estimate_and_interval
from pdefit.output.store.fit_checkpoint import differences
from pdefit.output.store.runs import RunFiles, find_runs, recordings_in
from pdefit.output.store.summary import CertificateSection, ForecastSection
from pdefit.output.store.tables import in_lines, read_parameters, write_rows

# runs that stand beside each other, rows that are shown of a table, and frames whose residuals are drawn, at most
_MOST_RUNS, _MOST_ROWS, _MOST_FRAMES = 8, 60, 400
# observations that differ by less, in standard deviations of their noise, are the same: those of a twin depend on its steps
_SAME = 0.01
# settings that are the same for the same data, where no film shows the data
_DATA = ("experiment", "data", "recordings", "twin", "noise", "seed", "times", "observe")
# values of a variable that are compared at once
_AT_ONCE = 1 << 23


def run_compare(arguments: list[str], console: Console) -> None:
    """Print runs of the same data side by side, with the preferred model, and write compare.csv and compare.html.

    **Arguments:**

    - `arguments`: directories of runs, or folders of runs, and `out=FOLDER` (default: compare).
    """
    options, words = options_among(arguments, {"out": "compare"})
    runs, out = [run for word in words for run in find_runs(Path(word))], Path(options["out"])
    if not 2 <= len({run.resolve() for run in runs}) == len(runs) <= _MOST_RUNS:
        raise PdefitError(f"compare expects 2 to {_MOST_RUNS} different runs, but got {len(runs)}; name others")
    if inside := [run for run in runs if out.resolve().is_relative_to(run.resolve())]:
        raise PdefitError(f"out='{out}' lies in the run '{inside[0]}', which stays as it is; choose another out=")
    fits = [_finished(run) for run in runs]
    for fit in fits[1:]:
        if said := _difference(fits[0], fit):
            raise PdefitError(f"'{fit.directory}' has other data than '{runs[0]}': {said}; leave one of them out")
    settings, left = _settings(fits), _misfits(fits)
    results = [_results(*of) for of in zip(fits, left, strict=True)]
    for fit, of in zip(fits, results, strict=True):
        same = of["fitted"] == results[0]["fitted"] and _sigma_in_words(fit) == _sigma_in_words(fits[0])
        of["chi2_above_the_first"] = of["chi2"] - results[0]["chi2"] if same else None
    names = [os.path.relpath(run, os.path.commonpath([*map(os.path.abspath, runs)])) for run in runs]
    said = _chosen(fits, names, results)
    rows = [read_parameters(fit.path("parameters.csv")) for fit in fits]
    # the first entry of a row is the name of its control
    entries = [{f"{row.control}.{key}": x for row in of for key, x in [*vars(row).items()][1:]} for of in rows]
    changed = [{key: texts[n] for key, texts in settings.items()} for n in range(len(runs))]
    out.mkdir(parents=True, exist_ok=True)
    lines = zip(runs, results, entries, changed, strict=True)
    write_rows(out / "compare.csv", [{"run": str(run), **one, **two, **three} for run, one, two, three in lines])
    cells = [{key.replace("_", " "): as_text(x) for key, x in of.items() if x is not None} for of in results]
    for of, parameters in zip(cells, rows, strict=True):
        for row, many in in_lines(parameters):
            told = "; ".join(filter(None, estimate_and_interval(row, many)))
            of[f"{row.control} ({row.unit})".removesuffix(" (1)")] = told
    keys = dict.fromkeys(key for of in cells for key in of)
    # what there is many of comes last, so that a long table is cut there
    keys = sorted(keys, key=lambda key: key.startswith(("rms residual", "y0.")))[:_MOST_ROWS]
    tables = {"settings that differ": settings, "results": {key: [of.get(key, "") for of in cells] for key in keys}}
    for title, of in tables.items():
        table = Table(*(Column(escape(name), overflow="fold") for name in (title, *names)), box=None)
        for key, texts in of.items():
            table.add_row(*(escape(sentence(text)) for text in (key, *texts)))
        console.print(table, "")
    reports = [quote(os.path.relpath(f.path("report.html"), out)) if f.has("report.html") else "" for f in fits]
    shown = dict(zip(names, left, strict=True))
    write_compare_page(out / "compare.html", shown, reports=reports, tables=tables, conclusion=said)
    for line in said:
        console.print(escape(sentence(line)), style="bold", highlight=False, soft_wrap=True)
    console.print(escape(f"{out}/compare.csv\n{out}/compare.html"), highlight=False, soft_wrap=True)


def _finished(run: Path) -> RunFiles:
    """The files of a finished fit; other runs are refused."""
    files = RunFiles(run)
    files.refuse_old()
    if files.verb != "fit":
        raise PdefitError(f"'{run}' is a run of pdefit {files.verb}, which estimates nothing; name runs of pdefit fit")
    if files.state != "done":
        raise PdefitError(f"'{run}' is not finished ({files.state}); pdefit resume {run} goes on")
    _ = files.summary, files.content("plan.json")
    if files.wrong:
        raise PdefitError("; ".join(files.wrong))
    return files


def _configuration(fit: RunFiles) -> dict[str, Any]:
    """The recorded configuration of a fit, with its provenance."""
    recorded: Any = OmegaConf.to_container(read_recorded(fit.path(".hydra/config.yaml"), []), resolve=False)
    return recorded | {key: fit.provenance.get(key) for key in ("experiment", "equations", "versions")}


def _settings(fits: Sequence[RunFiles]) -> dict[str, list[str]]:
    """Settings that differ between runs: for each key the value of every run."""
    changed = [differences(_configuration(fits[0]), _configuration(fit)) for fit in fits]
    first = {key: before for of in changed for key, (before, _) in of.items()}
    values = {key: [of.get(key, ("", before))[1] for of in changed] for key, before in first.items()}
    return {key: [x if isinstance(x, str) else json.dumps(x, default=str) for x in of] for key, of in values.items()}


def _films(fit: RunFiles) -> dict[str, Path]:
    """The film of each recording by name; a single recording has an empty name."""
    return {n: RunFiles(f).path("fields.h5") for n, f in (recordings_in(fit.directory) or {"": fit.directory}).items()}


def _difference(first: RunFiles, other: RunFiles) -> str:
    """The difference between the observations of two runs, in words; empty if common values agree."""
    common, alone, films = set[str](), set[str](), _films(other)
    for one, two in [(lazy_fields(path), lazy_fields(films[n])) for n, path in _films(first).items() if n in films]:
        # the truth counts where it is observed: that of a hidden field has no noise to measure a difference by
        truths = [f"{field}_true" for field in first.summary.sigma]
        here, there = ({n for n in map(str, of) if n.endswith("_observed") or n in truths} for of in (one, two))
        common, alone = common | (here & there), alone | (here ^ there)
        for name in sorted(here & there):
            x, y = xarray.align(one[name], two[name], join="inner")
            if not x.size or (x.units, x.time.unit) != (y.units, y.time.unit):
                return f"{name} or its time has another unit, or no time and place that are common to both"
            room = _SAME * min(_sigma(first, name.rpartition("_")[0]), default=0.0)
            for part in np.array_split(np.arange(x.sizes["time"]), x.size // _AT_ONCE + 1):
                if not np.allclose(x[part], y[part], 0.0, room, equal_nan=True):
                    return f"{name} has other values"
    # without a common observed variable the settings of the data decide
    is_seen = any(name.endswith("_observed") for name in common)
    keys = differences(_configuration(first), _configuration(other))
    changed = [*sorted(alone), *(key for key in keys if key.split(".")[0] in _DATA)]
    said = f"no observed variable is common to both, and they differ in {', '.join(changed)}"
    return "" if is_seen or not changed else said


def _sigma(fit: RunFiles, field: str) -> list[float]:
    """The smallest and the largest standard deviation of a variable; empty if they are unknown or zero."""
    known = [x for x in fit.summary.sigma.get(field) or [] if x is not None and x > 0]
    return sorted({min(known), max(known)}) if known else []


def _sigma_in_words(fit: RunFiles) -> dict[str, str]:
    """The smallest and the largest standard deviation of every variable, as text."""
    return {n: " to ".join(f"{x:.4g}" for x in _sigma(fit, n)) or "0" for n in fit.summary.sigma}


def _chosen(fits: Sequence[RunFiles], names: Sequence[str], results: Sequence[dict[str, Any]]) -> list[str]:
    """Sentences on the preferred model; their basis is added to the results."""
    try:
        numbers = [result["fitted_numbers"] for result in results]
        each = [candidate(fit, name, n) for fit, name, n in zip(fits, names, numbers, strict=True)]
        same = len({result["fitted"] for result in results}) == 1
        columns, said = judged(each, fits, same, _misfits(fits, ahead=True))
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        raise PdefitError("the summary.json of one of these runs is damaged; put it back") from None
    for result, column in zip(results, columns, strict=True):
        result |= column
    return said


def _misfits(fits: Sequence[RunFiles], ahead: bool = False) -> list[dict[str, Misfit]]:
    """Misfits of each run at the frames that all runs fit, or that all forecast, by recording and quantity."""
    left: list[dict[str, Misfit]] = [{} for _ in fits]
    for name in [name for name in _films(fits[0]) if all(name in _films(fit) for fit in fits)]:
        with contextlib.ExitStack() as stack:
            films = [stack.enter_context(open_film(_films(fit)[name])) for fit in fits]
            shared = functools.reduce(np.intersect1d, [film.ts[film.phase == ahead] for film in films])
            for of, film in zip(left, films, strict=True):
                chosen = np.flatnonzero(np.isin(film.ts, shared[:: shared.size // _MOST_FRAMES + 1])).tolist()
                of |= {f"{name} {key}".strip(): x for key, x in (misfits(film, chosen) if chosen else {}).items()}
    return left


def _results(fit: RunFiles, left: Mapping[str, Misfit]) -> dict[str, Any]:
    """Results of a run by name."""
    summary, holdout = fit.summary, _configuration(fit).get("holdout")
    ts = np.concatenate([of.time[of.phase == 0] for of in map(lazy_fields, _films(fit).values())])
    span = f"from {np.min(ts, initial=np.inf):.6g} to {np.max(ts, initial=-np.inf):.6g}{with_space(summary.time_unit)}"
    # residuals decide a sigma that nobody stated, so that it differs between models of the same values
    told = _sigma_in_words(fit)
    told |= {n: x for n, x in summary.noise.items() if isinstance(x, str) and n in told}
    observed = ", ".join(f"{n} (sigma {x})" for n, x in told.items())
    values, chi2 = summary.fit.values, summary.fit.chi2
    # a file from somebody else may lack any number
    if not values or chi2 is None:
        raise PdefitError(f"'{fit.directory}' has a damaged summary.json; put it back")
    return {
        "verdict": summary.verdict,
        "reason": summary.verdict_reason,
        "fitted": f"{values} values of {observed} {span}{f', without {holdout}' if holdout else ''}",
        "fitted_numbers": sum((fit.content("plan.json").get("unknowns") or {}).values()) or None,
        "chi2": chi2,
        "scatter_of_chi2": (2 * values) ** 0.5,
        "chi2_above_the_first": None,
        "chi2_per_value": chi2 / values,
        "chi2_per_held-out_value": (summary.fit.heldout or HeldOut()).chi2_per_value,
        "error_at_the_end_of_the_forecast": (summary.forecast or ForecastSection()).relative_l2_at_end,
        "gradient_certified": (summary.certificate or CertificateSection()).passed,
        "seconds": summary.seconds.get("total"),
    } | {f"rms residual of {name}": misfit.size for name, misfit in left.items()}
