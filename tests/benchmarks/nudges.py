"""Costs of a nudge: errors of four numbers beside a hidden field, against the strength of the nudge.

    ./run python tests/benchmarks/nudges.py [FIGURE]

A pulse runs around a ring of excitable medium (FitzHugh-Nagumo, 64 cells), and goes round once in the film. Its activator is
seen with noise of 2 % of its range; its recovery is not. From guesses that are 25 to 30 % off the trajectory is drawn to the
data with nudges of 0.5, 0.2, 0.1, 0.05 and 0.02, and is free at last. Each of these fits goes to its minimum, for the shipped
nudge, which noise hardly enters, and for a plain one, u <- u + g (data - u). Errors are in standard errors of the free fit:
root mean squares over the numbers and DRAWS draws of the noise. Another free fit starts from the truth. The last line says by
how much J and theta of both free fits differ. The figure is docs/how-to/nudges.png by default. Five minutes on a busy core.
"""

import sys
from pathlib import Path

from pdefit.cli.runtime.environment import prepare

prepare()

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from pdefit_reaction.fitzhugh_nagumo import FitzHughNagumo, State

import pdefit

jax.config.update("jax_enable_x64", True)

FIGURE = Path(__file__).parents[2] / "docs" / "how-to" / "nudges.png"
DRAWS, NOISE, DT = 4, 0.02, 0.2
NUDGES = (0.5, 0.2, 0.1, 0.05, 0.02)
NAMES = ("D", "excitation", "recovery", "beta")
TRUTH, GUESS = (0.0015, 0.8, 0.072, 0.7), (0.0011, 1.0, 0.09, 0.9)
GRID = pdefit.CartesianGrid((64,), (2.56,), boundary=pdefit.boundaries.Periodic(), length_unit="mm")
TIMES = np.arange(61.0)
MINIMUM = pdefit.optimizers.LevenbergMarquardt(decrement=0.0, tolerance=1e-12)


class Plain(pdefit.formulations.Single):
    """Single shooting whose trajectory goes a plain part of the way to the data, noise and all."""

    def nudging(self, problem, observations):
        if (nudge := super().nudging(problem, observations)) is None:
            return None
        return eqx.tree_at(lambda n: n.sigma, nudge, tuple(None if s is None else 0 * s + 1e-9 for s in nudge.sigma))


def medium(numbers) -> FitzHughNagumo:
    """The medium with four numbers."""
    return FitzHughNagumo(GRID, *map(jnp.asarray, (*numbers, 0.5)))


def turning() -> State:
    """A pulse that has gone round the ring until it keeps its shape."""
    behind = np.arange(GRID.shape[0]) / GRID.shape[0]
    excited = behind < 0.3
    u, v = np.where(excited, 1.8, -1.2), np.where(excited, 5 * behind - 0.6, 1 - 16 / 7 * (behind - 0.3))
    state = State(jnp.asarray(u), jnp.asarray(v))
    fields = pdefit.simulate(medium(TRUTH), state, np.array([0.0, 240.0]), dt=DT, solver=pdefit.solvers.RK4()).values
    return State(*(jnp.asarray(fields[n][-1]) for n in "uv"))


def minimum(problem, film, formulation, control) -> pdefit.Fit:
    """The minimum for one formulation, from the numbers and the state of a problem."""
    unknown = {n: pdefit.transforms.Log() for n in NAMES} | {"y0": {"u": control, "v": control}}
    solver = pdefit.solvers.RK4()
    functional = pdefit.Functional(problem, film, unknown, dt=DT, solver=solver, formulation=formulation)
    return pdefit.fit(functional, [pdefit.Stage(MINIMUM, 60)])


def course(film, kind, start) -> list[pdefit.Fit]:
    """The fits at smaller and smaller nudges, each from the one before, and the free one."""
    problem, found = pdefit.Problem(medium(GUESS), start, pdefit.instruments.Select("u")), []
    for g in (*NUDGES, 0.0):
        control = pdefit.Control(guess=None if found else pdefit.guesses.FromData())
        found.append(minimum(problem, film, kind(nudge=g), control))
        problem = found[-1].problem
    return found


def main() -> None:
    """Prints both tables and draws the figure."""
    start, seen = turning(), pdefit.instruments.Select("u")
    clean = pdefit.simulate(medium(TRUTH), start, TIMES, dt=DT, solver=pdefit.solvers.RK4(), observe=seen)
    sigma = NOISE * float(np.ptp(clean.values["u"]))
    kinds = {"shipped": pdefit.formulations.Single, "plain": Plain}
    errors, ends = {kind: [] for kind in kinds}, []
    for draw in range(DRAWS):
        film = pdefit.add_noise(clean, sigma, jax.random.key(draw))
        best = minimum(pdefit.Problem(medium(TRUTH), start, seen), film, kinds["shipped"](), pdefit.Control())
        within = pdefit.intervals(best.functional, best.theta, sigma_stated=True)
        one = (within.high - within.low) / 2 / 1.96
        for kind, form in kinds.items():
            fits = course(film, form, start)
            numbers = np.array([[float(getattr(f.problem.system, n)) for n in NAMES] for f in fits])
            errors[kind].append((numbers - TRUTH) / one[:4])
            values = np.concatenate([numbers[-1], *map(np.ravel, fits[-1].problem.y0)])
            apart = np.abs(values - within.estimate) / one
            ends.append((abs(fits[-1].loss / best.loss - 1), apart[:4].max(), apart[4:].max(), fits[-1].converged))
    print("| nudge g | g / (2 - g) | shipped | plain |\n|---|---|---|---|")
    rms = {kind: np.sqrt(np.mean(np.square(e), axis=(0, 2))) for kind, e in errors.items()}
    for i, g in enumerate((*NUDGES, 0.0)):
        print(f"| nudge {g:g} | {g / (2 - g):.3f} | {rms['shipped'][i]:.2f} | {rms['plain'][i]:.2f} |")
    worst = np.max(np.array(ends, float)[:, :3], axis=0)
    print(f"free fits: {sum(e[3] for e in ends)} of {len(ends)} converged; against those from the truth J differs by a part of "
          f"{worst[0]:.1e}, numbers by {worst[1]:.1e} and the state by {worst[2]:.1e} standard errors at most")  # fmt: skip
    draw(rms, sys.argv[1] if len(sys.argv) > 1 else FIGURE)


def draw(rms, path) -> None:
    """The errors against g / (2 - g)."""
    g, (figure, axes) = np.array(NUDGES), plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for kind, look in {"plain": "s--", "shipped": "o-"}.items():
        axes.semilogx(g / (2 - g), rms[kind][:-1], look, label=f"{kind} nudge")
    axes.axhline(rms["shipped"][-1], color="0.5", lw=1, label="free")
    axes.set(xlabel="g / (2 - g)", ylabel="rms error (standard errors)", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
