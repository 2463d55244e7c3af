"""The verdict in situations of which it is known what is right: a table of rows and seeds.

    ./run python scripts/situations.py [NAME ...] [--seeds 10] [--out FILE.json] [--save DIR]

Every row (`scripts/situations_rows.py`) states beforehand which verdicts are right, and what reasons must mention. An
experiment is built, fitted and judged as `pdefit fit` does, without certificates, files and pictures. Prints for each row
what is right, how many seeds the verdict said so, and every verdict with its first reason.

For a missing term it prints the score test of somebody who knows the term: z = s.r / |s|, with s the derivative of the
residuals with respect to its coefficient, less what the unknowns can explain. `--save` writes the residuals of every fit
as an .npz.
"""

import argparse
import collections
import functools
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
from omegaconf import OmegaConf
from situations_rows import FITTED, MISSES, ROWS, Row, Section

import pdefit
from pdefit.cli.run.experiment import Experiment
from pdefit.cli.runtime.environment import forget_programs, prepare
from pdefit.inverse.objective.compiled import PARTS, RESIDUALS

EQUATIONS = Path(__file__).with_name("situations_equations.py")
# a term is visible beyond the first, and invisible below the second
VISIBLE, INVISIBLE = 5.0, 3.0
_JACOBIAN = eqx.filter_jit(lambda functional, theta: functional.jacobian(theta))


class Outcome(NamedTuple):
    """What was said of one fit: the word, the reasons, chi2 per value, and the score test of a missing term.

    `off` is the largest distance of a number from its truth in standard errors.
    """

    seed: int
    word: str
    reason: str
    chi2: float
    z: float | None
    off: float
    seconds: float


def experiment(name: str, row: Row, seed: int, folder: Path) -> Experiment:
    """The experiment of a row, from its twin or from a file."""
    config = row.config
    if row.spoil is not None:
        config = {key: value for key, value in config.items() if key not in ("twin", "noise", "times")}
        config["defaults"] = [entry for entry in config["defaults"] if "override /twin" not in entry]
        config["data"] = _write_film(name, row, seed, folder)
    return _load(name, config, seed, folder)


def _load(name: str, config: Section, seed: int, folder: Path) -> Experiment:
    path = folder / f"{name}.yaml"
    path.write_text(f"# @package _global_\n{OmegaConf.to_yaml(OmegaConf.create(config))}")
    return pdefit.load_experiment(path, [f"seed={seed}"], EQUATIONS)


@functools.cache
def _clean(name: str, folder: Path) -> Experiment:
    """The twin of a row without noise."""
    return _load(f"{name}_clean", {**ROWS[name].config, "noise": 0.0, "dtype": "float64"}, 0, folder)


def _write_film(name: str, row: Row, seed: int, folder: Path) -> Section:
    """Write the film that was measured; returns the section `data` that reads it."""
    clean = _clean(name, folder)
    record, system = clean.source.record, clean.source.problem.system
    films = {variable: np.asarray(film) for variable, film in record.values.items()}
    assert row.spoil is not None
    measured = row.spoil(films, np.random.default_rng(seed))
    path = folder / f"{name}.h5"
    with h5py.File(path, "w") as file:
        file["time"] = record.ts
        for variable, film in measured.items():
            file[variable] = film.astype(row.dtype)
        for where in system.coords().values():
            for dim, positions in where.coords.items():
                if dim not in file:
                    file[dim] = positions
    truth = {c.name: float(np.asarray(clean.true_value(c))) for c in clean.first.controls.items if not c.is_field}
    sigma: Any = row.sigma
    if isinstance(sigma, float):
        sigma = {variable: sigma * float(np.ptp(film)) for variable, film in films.items()}
    stated = {} if sigma is None else {"sigma": sigma}
    return {"path": str(path), "variables": {v: v for v in films}, "truth": truth, **stated}


def measure(name: str, row: Row, seed: int, folder: Path, save: Path | None) -> Outcome:
    """Fit one experiment, and judge it as the command does."""
    begin = time.perf_counter()
    exp = experiment(name, row, seed, folder)
    found = exp.fit()
    assessed = pdefit.judge(found, with_intervals=True)
    verdict, known = assessed.verdict, assessed.intervals
    seconds = time.perf_counter() - begin
    along = None if row.missing is None else projected_score(exp, found, row.missing)
    z = None if along is None else float(along @ RESIDUALS(found.functional, found.theta))
    if save is not None:
        _save(save / f"{name}_{seed}.npz", exp, found, known, along, z)
    off = _off(exp, found, known)
    return Outcome(seed, verdict.word, verdict.reason, assessed.chi2_per_value, z, off, seconds)


def _off(exp: Experiment, found: Any, known: Any) -> float:
    """The largest distance of a number from its truth in standard errors; 0 where none is known."""
    if known is None:
        return 0.0
    truth, at, numbers = np.array(found.theta), 0, list[int]()
    for control in found.functional.controls.items:
        value = exp.true_value(control)
        if value is not None and control.size == 1:
            truth[at] = float(np.ravel(control.to_theta(jnp.asarray(value)))[0])
            numbers.append(at)
        at += control.size
    z = np.abs(known.z_score(np.asarray(found.theta), truth)[numbers])
    # a number that the data do not determine has none
    return float(np.max(z[np.isfinite(z)], initial=0.0))


def projected_score(exp: Experiment, found: Any, missing: Any) -> np.ndarray:
    """The change of all residuals along a missing term less that of the unknowns, of length 1."""
    functional, theta = found.functional, found.theta
    if isinstance(missing, str):
        where = lambda f: getattr(f.problem.system, missing)  # noqa: E731
        step = 1e-4
        ends = [eqx.tree_at(where, functional, where(functional) + sign * step) for sign in (-1, 1)]
        low, high = (np.asarray(RESIDUALS(end, theta)) for end in ends)
        change = (high - low) / (2 * step)
    else:
        layout, sigma = functional.layout, functional.observations.sigma
        parts = dict[str, jax.Array]()
        for name, residual in PARTS(functional, theta).observed.items():
            fitted = np.asarray(functional.fitted(name))
            width = np.broadcast_to(sigma[name], functional.observations.values[name].shape)[layout.index]
            seen = np.asarray(functional.observations.values[name])[layout.index] + np.asarray(residual) * width
            parts[name] = jnp.asarray(np.where(fitted, np.stack([missing(one) for one in seen]) - seen, 0.0) / width)
        whole = np.asarray(RESIDUALS(functional, theta))
        change = np.zeros(whole.size)
        observed = jnp.concatenate([jnp.ravel(part) for part in jax.tree.leaves(parts)])
        # regularizers and priors follow the observations
        change[: observed.size] = observed
    jacobian = np.asarray(_JACOBIAN(functional, theta))
    basis, singular, _ = np.linalg.svd(jacobian, full_matrices=False)
    basis = basis[:, singular > 1e-10 * singular[0]]
    change = change - basis @ (basis.T @ change)
    return change / np.linalg.norm(change)


def _save(path: Path, exp: Experiment, found: Any, known: Any, along: np.ndarray | None, z: float | None) -> None:
    """Write what a verdict may look at."""
    functional, layout = found.functional, found.functional.layout
    data, system = functional.observations, functional.problem.system
    coords = system.coords()
    controls = functional.controls
    arrays: dict[str, Any] = {
        "chi2": sum(float(np.sum(r**2)) for r in found.residuals.values()),
        "values": functional.observed_values,
        "converged": found.converged,
        "names": np.array(controls.names()),
        "theta": np.asarray(found.theta),
        "guess": np.asarray(exp.functional.theta0),
        "ts": data.ts[layout.index],
    }
    if known is not None:
        arrays |= {"estimate": known.estimate, "error": known.error, "covariance": known.covariance}
        arrays |= {"unidentifiable": np.array(known.unidentifiable, str)}
    truth = {c.path: exp.true_value(c) for c in controls.items if not c.is_node}
    arrays |= {f"truth_{path}": value for path, value in truth.items() if value is not None}
    for name, residual in found.residuals.items():
        sigma = np.broadcast_to(data.sigma[name], data.values[name].shape)[layout.index]
        observed = np.asarray(data.values[name])[layout.index]
        arrays |= {f"residuals_{name}": residual, f"fitted_{name}": np.asarray(functional.fitted(name))}
        arrays |= {
            f"sigma_{name}": sigma,
            f"observed_{name}": observed,
            f"predicted_{name}": observed + residual * sigma,
        }
        arrays[f"axes_{name}"] = np.array(["segment", "time", *(coords[name].dims if name in coords else ())])
    if along is not None:
        arrays |= {"along": along, "z": z, "all_residuals": np.asarray(RESIDUALS(functional, found.theta))}
    np.savez(path, row=path.stem.rsplit("_", 1)[0], seed=int(path.stem.rsplit("_", 1)[1]), **arrays)


def is_right(row: Row, outcome: Outcome, z: float | None) -> bool:
    """Whether a verdict is right; z is the median of the row's score tests."""
    words = row.words
    if z is not None:
        words = (MISSES,) if abs(z) > VISIBLE else (FITTED,) if abs(z) < INVISIBLE else (FITTED, MISSES)
    said = f"{outcome.word}: {outcome.reason}"
    return outcome.word in words and all(re.search(pattern, said, re.IGNORECASE) for pattern in row.reasons)


def tell(name: str, row: Row, outcomes: list[Outcome]) -> dict[str, Any]:
    """Print a row of the table; returns it for the file."""
    scores = [abs(o.z) for o in outcomes if o.z is not None]
    z = float(np.median(scores)) if scores else None
    right = sum(is_right(row, o, z) for o in outcomes)
    chi2 = [o.chi2 for o in outcomes]
    seen = (
        "" if z is None else f"; z {z:.1f}: {'visible' if z > VISIBLE else 'invisible' if z < INVISIBLE else 'between'}"
    )
    print(
        f"{name:28s} {right:2d} of {len(outcomes)}  chi2 {min(chi2):.3g} to {max(chi2):.3g}{seen}; right: {row.right}"
        f"  (numbers off by {np.median([o.off for o in outcomes]):.1f} standard errors, "
        f"{np.median([o.seconds for o in outcomes]):.1f} s a fit)"
    )
    said = collections.Counter((o.word, _plain(o.reason)) for o in outcomes)
    for (word, reason), count in said.most_common():
        print(f"    {count:2d} x {word}: {reason}")
    sys.stdout.flush()
    return {"right": right, "of": len(outcomes), "z": z, "is": row.right, "outcomes": [o._asdict() for o in outcomes]}


def _plain(reason: str) -> str:
    """The first reason with its numbers taken out, so that seeds that say the same count as one."""
    return re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", reason.split("; ")[0])


def main() -> None:
    """Measure the rows that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    if unknown := set(options.names) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    prepare()
    table = dict[str, Any]()
    with tempfile.TemporaryDirectory() as scratch:
        if options.save is not None:
            options.save.mkdir(parents=True, exist_ok=True)
        for name in options.names or ROWS:
            one = [measure(name, ROWS[name], seed, Path(scratch), options.save) for seed in range(options.seeds)]
            table[name] = tell(name, ROWS[name], one)
            forget_programs(always=True)
            if options.out is not None:
                options.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
