"""Profiles of three numbers beside what the matrix and theory expect: at a bound, from counts, beside a hidden field.

    ./run python tests/benchmarks/profiles.py [FIGURE]

It prints a table and draws a figure, by default docs/how-to/profiles.png. The first number has bounds well inside of what the
data tell. The second is a rate of decay from counts of which many are 0 to 3: theory is the exact likelihood of Poisson, by
scipy. The third is eps of a nerve whose recovery is not seen: 96 values of the initial state are fitted beside it
(`examples/hidden_fields.py`).
"""

import contextlib
import io
import runpy
import sys
from pathlib import Path
from typing import ClassVar, NamedTuple

from pdefit.cli.runtime.environment import prepare

prepare()

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator
from scipy import stats

import pdefit

ROOT = Path(__file__).parents[2]
LOG = pdefit.transforms.Log()


class Level(NamedTuple):
    u: jax.Array


class Decay(pdefit.AbstractSystem):
    """u' = -k u from u = 12."""

    time_unit: ClassVar[str] = "1"
    k: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return Level(-self.k * y.u)

    def init(self, key):
        return Level(jnp.asarray([12.0]))


def problem(k: float) -> pdefit.Problem:
    """The decay at a guess."""
    system = Decay(k=jnp.asarray(k))
    return pdefit.Problem(system, system.init(None))


def bounded() -> tuple[pdefit.Functional, str]:
    """A rate whose bounds are closer than the data tell."""
    ts = np.linspace(0.0, 3.0, 9)
    noisy = 12 * np.exp(-0.8 * ts) + 2.0 * np.random.default_rng(2).normal(size=9)
    data = pdefit.Observations.build(ts, {"u": noisy[:, None]}, 2.0)
    return pdefit.Functional(problem(0.8), data, {"k": pdefit.Control(LOG, bounds=(0.7, 0.95))}, dt=0.05), "k"


def counts() -> tuple[pdefit.Functional, str, np.ndarray]:
    """A rate from counts, and the counts."""
    ts = np.linspace(0.0, 4.0, 17)
    seen = np.random.default_rng(5).poisson(12 * np.exp(-0.8 * ts)).astype(float)[:, None]
    poisson = pdefit.likelihoods.Poisson()
    data = pdefit.Observations.build(ts, {"u": seen}, {"u": poisson.at_data(seen, np.isfinite(seen))})
    return pdefit.Functional(problem(0.6), data, {"k": LOG}, dt=0.05), "k", seen


def deviance(seen: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Twice the fall of the exact likelihood of counts from its maximum over k."""
    ts = np.linspace(0.0, 4.0, 17)
    logs = np.array([stats.poisson.logpmf(seen[:, 0], 12 * np.exp(-x * ts)).sum() for x in k])
    return 2 * (logs.max() - logs)


def hidden() -> tuple[pdefit.Functional, str]:
    """A number beside a field that is not seen."""
    with contextlib.redirect_stdout(io.StringIO()):
        found = runpy.run_path(str(ROOT / "examples" / "hidden_fields.py"))
    return found["J"], "eps"


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "how-to" / "profiles.png"
    by_counts, name, seen = counts()
    variances = pdefit.likelihoods.ByPrediction(variables={"u": pdefit.likelihoods.Poisson()})
    method = pdefit.optimizers.LevenbergMarquardt(decrement=0.0)
    cases = [
        ("a bound", *bounded(), [method]),
        ("counts", by_counts, name, [pdefit.Stage(method, reweight=variances)]),
        ("a hidden field", *hidden(), None),
    ]
    figure, panels = plt.subplots(1, 3, figsize=(9.0, 2.8), layout="constrained", sharey=True)
    print("| case | number | profile | ends | matrix |\n|---|---|---|---|---|")
    for axes, (title, functional, number, stages) in zip(panels, cases, strict=True):
        fit = pdefit.fit(functional, stages)
        (one,) = pdefit.profiles(fit.functional, fit.theta, [number], sigma_stated=True)
        matrix = pdefit.intervals(fit.functional, fit.theta, sigma_stated=True)
        k = matrix.names.index(number)
        low, best, high = matrix.low[k], matrix.estimate[k], matrix.high[k]
        print(
            f"| {title} | {number} {best:.4f} | {one.low:.4f} to {one.high:.4f} | {one.ends} | {low:.4f} to {high:.4f} |"
        )
        axes.plot(one.values, one.rise / one.limit, "o-", ms=3, label="profile")
        half = np.log(high / low) / 2
        x = np.linspace(min(one.values[0], low), max(one.values[-1], high), 200)
        if np.isfinite(half):
            axes.plot(x, (np.log(x / best) / half) ** 2, "--", color="#999999", label="matrix")
        if title == "counts":
            exact = deviance(seen, x)
            axes.plot(x, exact / one.limit, ":", color="#cc5500", label="exact likelihood")
            inside = x[exact <= one.limit]
            print(f"| | exact likelihood | {inside[0]:.4f} to {inside[-1]:.4f} | | |")
        if title == "a bound":
            for edge in (0.7, 0.95):
                axes.axvline(edge, color="#cc5500", lw=1.0, label="bound" if edge < 0.8 else None)
        axes.axhline(1.0, color="black", lw=0.7, ls=":")
        axes.set(title=f"{number}: {title}", xlabel=number, ylim=(-0.05, 1.6))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.legend(fontsize=7)
    panels[0].set_ylabel("rise of J (1: the 95 % limit)")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
