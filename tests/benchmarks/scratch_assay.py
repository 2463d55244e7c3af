"""Four models of cells that close a scratch: what they predict, what they estimate, and what they leave over.

    ./run python tests/benchmarks/scratch_assay.py [joint] [seedings] [published] [unseen]

All fits end at 36 h, and the photographs of 48 h are predicted. `joint` fits all wells with the same numbers, `seedings`
those of each seeding alone, and `unseen` all but one seeding, of which only the first photograph is known. `published` is
Fisher's equation in the published setting: capacity held at 1700 cells/mm^2, all five photographs, and the same weight for all.
Misfits are root mean squares in cells/mm^2, beside the counting error. The published D (mm^2/day) and r (1/day) are fits of
Fisher's equation to means of three wells (J. H. Lagergren et al., PLoS Comput. Biol. 16:e1008462,
doi:10.1371/journal.pcbi.1008462).
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import pdefit

jax.config.update("jax_enable_x64", True)
MODELS = {"fisher": "scratch_assay", "porous": "scratch_porous", "growth": "scratch_growth", "lag": "scratch_lag"}
PUBLISHED = {
    10: (0.0074, 1.05),
    12: (0.0061, 1.05),
    14: (0.0164, 1.16),
    16: (0.0130, 1.18),
    18: (0.0177, 1.30),
    20: (0.0235, 1.56),
}


def wells(seeding):
    each = (f"{seeding}k_{n}" for n in (1, 2, 3))
    return "recordings={" + ",".join(f"{well}:{{data:{{select:{{well:{well}}}}}}}" for well in each) + "}"


def experiment(model, *overrides):
    return pdefit.load_experiment(f"reaction/{MODELS[model]}", overrides)


def left(exp, functional, theta, chosen=slice(None)):
    """Data minus prediction (well, 5, 38) and the counting error, of every photograph."""
    out, sigma = [], []
    parts = list(zip(exp.recordings.values(), functional.parts(theta), strict=True))[chosen]
    for one, (made, own) in parts:
        problem, record = made.at(own), one.source.record
        seen = pdefit.solve(problem.system, problem.y0, record.ts, solver=pdefit.solvers.RK4(), dt=made.dt, t0=0.0)
        out.append(np.asarray(record.values["u"] - seen.u))
        sigma.append(np.asarray(record.sigma["u"]))
    return np.stack(out), np.stack(sigma)


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def fitted(exp, functional, name):
    """A fit with its table row, and what the choice needs of it."""
    found = pdefit.fit(functional, exp.stages)
    known = pdefit.intervals(found.functional, found.theta, sigma_stated=True, equations=found.equations)
    average = pdefit.marginal_likelihood(found.functional, found.theta, equations=found.equations)
    few = [k for k, n in enumerate(known.names) if n in ("D", "r", "K", "m", "a", "lag")]
    said = "  ".join(f"{known.names[k]} {known.estimate[k]:.4g} [{known.low[k]:.4g}, {known.high[k]:.4g}]" for k in few)
    print(f"  {name:<7} {'' if found.converged else 'NOT CONVERGED '}{said}  ({known.method})")
    return found, average


def compared(exps, made):
    """Misfits and criteria of several models of the same wells."""
    squares, fits = [], []
    for (name, exp), (found, average) in zip(exps.items(), made, strict=True):
        r, sigma = left(exp, found.functional, found.theta)
        squares.append(np.ravel(r[:, 4] ** 2))
        fits.append(pdefit.Candidate.of(name, average, ""))
        ends = np.sqrt(np.mean(r[:, :4] ** 2, axis=(0, 2)))
        later = np.corrcoef(np.ravel(r[:, 2] / sigma[:, 2]), np.ravel(r[:, 3] / sigma[:, 3]))[0, 1]
        beside = np.sum(r[:, :4, 1:] * r[:, :4, :-1] / sigma[:, :4, 1:] / sigma[:, :4, :-1]) / np.sum(
            (r / sigma)[:, :4, 1:] ** 2
        )
        print(
            f"  {name:<7} 48 h: {rms(r[:, 4]):.1f} (counting {rms(sigma[:, 4]):.1f}); fitted {rms(r[:, :4]):.1f} (counting "
            f"{rms(sigma[:, :4]):.1f}), frames {np.array2string(ends, precision=0)}"
        )
        print(
            f"    chi2/value {average.chi2 / average.values:.3f}, k {average.effective_unknowns:.1f}, correlation 24-36 h "
            f"{later:.2f}, of neighbours {beside:.2f}; ln Z {average.log_evidence or np.nan:.1f}, with a factor of sigma "
            f"{average.log_evidence_noise or np.nan:.1f} {average.reason}"
        )
    print("  ->", *pdefit.conclusion(fits, held=held_out(squares)), sep=" | ")


def held_out(squares):
    from pdefit.analysis.goodness.information import held_out as made

    # one value in three counts: the misfit is correlated over about three columns
    return made(squares, 1 / 3)


def main(words):
    if "joint" in words:
        print("all wells", flush=True)
        exps = {model: experiment(model) for model in MODELS}
        compared(exps, [fitted(exp, exp.functional, name) for name, exp in exps.items()])
    if "seedings" in words:
        for seeding, (D, r) in PUBLISHED.items():
            print(f"{seeding},000 cells a well; published D {D}, r {r}", flush=True)
            exps = {model: experiment(model, wells(seeding)) for model in MODELS}
            compared(exps, [fitted(exp, exp.functional, name) for name, exp in exps.items()])
    if "published" in words:
        for seeding, (D, r) in PUBLISHED.items():
            print(f"{seeding},000 cells a well; published D {D}, r {r}", flush=True)
            held = ("~controls.K", "system.K=1700", "times.fit_until=null", "data.sigma={u: 100}")
            exp = experiment("fisher", wells(seeding), *held)
            fitted(exp, exp.functional, "fisher")
    if "unseen" in words:
        for model in MODELS:
            exp, later = experiment(model), []
            for number, seeding in enumerate(PUBLISHED):
                hidden = slice(3 * number, 3 * number + 3)
                mask = exp.functional.observations.mask["u"].at[hidden, 1:].set(False)
                functional = eqx.tree_at(lambda f: f.observations.mask, exp.functional, {"u": jnp.asarray(mask)})
                found = pdefit.fit(functional, exp.stages)
                r, _ = left(exp, found.functional, found.theta, hidden)
                later.append(r[:, 1:])
                print(
                    f"  {model} {seeding}: {rms(r[:, 1:]):.1f} over 12-48 h, mean {np.mean(r[:, 1:]):.0f}", flush=True
                )
            print(f"{model}: unseen seedings {rms(later):.1f} cells/mm^2", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["joint", "seedings", "unseen"])
