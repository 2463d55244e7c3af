"""Growth and stencil of Fisher's equation, neither of which is known: ten starts without noise, and draws of noise.

    ./run python tests/benchmarks/fisher_growth.py [starts] [draws]

`starts`: the network 1-3-1 of reaction/fisher_kpp_discovery from ten seeds and guesses on data without noise. D is the mean of
both weights, and the growth is compared over the range that the data visited.
`draws`: 20 draws of 2.5 % noise. Weights of a network have no true values, so the growth is a Chebyshev series of degree 3
here, which holds u (1 - u). e^T F e / p is about 1 where the error e of the estimate is what the fit's own matrix F says, and
a fit by the true form, r u - s u^2, stands beside it.
"""

import sys
import time

import equinox as eqx
import jax
import numpy as np

import pdefit

jax.config.update("jax_enable_x64", True)
U = np.linspace(0.0, 1.0, 201)
STARTS, DRAWS = 10, 20
# of the true form; of a Chebyshev series on [0, 1.2]
FORMS = {
    "series": ("{name: series, inputs: [u], low: 0.0, high: 1.2, count: 4}", np.array([0.06, -0.12, -0.18, 0.0])),
    "form": ("{name: formula, formula: 'r * u - s * u^2', inputs: [u], constants: {r: 0.5, s: 0.5}}", np.ones(2)),
}


def experiment(*overrides):
    return pdefit.load_experiment(
        "reaction/fisher_kpp_discovery", ["noise=0", "controls.growth.prior=null", *overrides]
    )


STAGES = experiment().stages


def fitted(functional):
    begin = time.process_time()
    found = pdefit.fit(functional, STAGES)
    return found, time.process_time() - begin


def visited(found):
    """The range of u that the data show, after the first frame."""
    u = np.asarray(found.functional.observations.values["u"])
    return U[(U >= u.min()) & (U <= u.max())]


def starts():
    good = 0
    one = experiment().functional
    for seed in range(STARTS):
        guess = 0.01 * np.exp(np.random.default_rng(seed).uniform(np.log(0.3), np.log(3.0), 2))
        net = pdefit.terms.Network(("u",), (1.0,), 1.0, width=3, depth=1, seed=seed)
        other = eqx.tree_at(lambda s: [s.left, s.right], one.problem.system, [*guess])
        other = eqx.tree_at(lambda s: s.growth.net, other, net.net)
        theta = one.controls.theta(pdefit.Problem(other, one.problem.y0))
        found, seconds = fitted(eqx.tree_at(lambda f: f.problem, one, one.at(theta)))
        system, u = found.problem.system, visited(found)
        D = (float(system.left) + float(system.right)) / 2
        off = float(np.max(np.abs(np.asarray(system.growth(u)) - u * (1 - u))))
        good += abs(D / 0.01 - 1) < 1e-3 and off < 2e-3
        print(
            f"start {seed}: D {100 * (D / 0.01 - 1):+.4f} %, growth off by {off:.5f} on [{u[0]:.2f}, {u[-1]:.2f}], drift "
            f"{100 * (float(system.left) - float(system.right)) / 0.02:+.4f} %, CPU s {seconds:.1f}, "
            f"{found.iterations} evaluations",
            flush=True,
        )
    print(f"{good} of {STARTS} with D within .1 % and growth within .002")


def draws(form):
    given, truth = FORMS[form]
    ratios, z, D = [], [], []
    one = experiment("~system.growth", f"+system.growth={given}").functional
    equations = eqx.filter_jit(lambda f, x: f.normal_equations(x))
    true = [np.asarray(0.01)] * 2 + ([truth] if form == "series" else [*map(np.asarray, truth)])
    for seed in range(DRAWS):
        # the same shapes, so that nothing is compiled twice
        noisy = pdefit.add_noise(one.observations, 0.025, jax.random.key(seed))
        found, _ = fitted(eqx.tree_at(lambda f: f.observations, one, noisy))
        F = np.asarray(equations(found.functional, found.theta)[2])
        system = found.problem.system
        wanted = eqx.tree_at(lambda s: [s.left, s.right, *jax.tree.leaves(s.growth)], system, true)
        e = np.asarray(found.theta - found.functional.controls.theta(pdefit.Problem(wanted, found.problem.y0)))
        covariance = np.linalg.inv(F)
        ratios.append(e @ F @ e / e.size)
        z.append(e / np.sqrt(np.diag(covariance)))
        # theta of a weight is in units of 0.01
        D.append(((system.left + system.right) / 2, 0.005 * np.sqrt(np.sum(covariance[:2, :2]))))
    D = np.array(D, float)
    print(
        f"{form}: p {e.size}, e^T F e / p mean {np.mean(ratios):.2f}, median {np.median(ratios):.2f}, largest "
        f"{max(ratios):.2f}; rms z {np.array2string(np.sqrt(np.mean(np.square(z), 0)), precision=2)}; D mean "
        f"{100 * (D[:, 0].mean() / 0.01 - 1):+.2f} %, deviation {100 * D[:, 0].std(ddof=1) / 0.01:.2f} %, the fit's own "
        f"{100 * D[:, 1].mean() / 0.01:.2f} %"
    )


if __name__ == "__main__":
    words = sys.argv[1:] or ["starts", "draws"]
    if "starts" in words:
        starts()
    if "draws" in words:
        for name in FORMS:
            draws(name)
