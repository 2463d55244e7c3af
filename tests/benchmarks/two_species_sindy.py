"""Sparse regression of the film of two_species.py by PySINDY: on differences of the data, and in weak form.

    python -m venv ENV; ENV/bin/pip install pysindy; ENV/bin/python tests/benchmarks/two_species_sindy.py FOLDER

Features are monomials of u and v to degree 3 and both Laplacians. `alone` regresses all of them. `beside` is told what
pdefit is told, feed and kill, and more, the true diffusivities, and regresses the rest. Every threshold is tried, and one
that gives the set of the truth is taken if there is any. True or False says whether there is. Needs numpy and pysindy, not
pdefit.
"""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np


def _spelled(i, j):
    """The name of a monomial as pysindy writes it."""
    parts = [f"{x}^{p}" if p > 1 else x for x, p in (("u", i), ("v", j)) if p]
    return " ".join(parts) or "1"


THRESHOLDS = np.geomspace(1e-4, 0.3, 25)
NAMES = [f"u{i}v{j}" for i in range(4) for j in range(4 - i)]
_SPELLED = {n: _spelled(int(n[1]), int(n[3])) for n in NAMES}
FEED, KILL, D_U, D_V = 0.04, 0.06, 2e-5, 1e-5
KNOWN = {
    "u": {"u0v0": FEED, "u1v0": -FEED, "lap_u": D_U},
    "v": {"u0v1": -FEED - KILL, "lap_v": D_V},
}
# u v^2, and all of the truth
TRUTH = {"u": {**KNOWN["u"], "u1v2": -1.0}, "v": {**KNOWN["v"], "u1v2": 1.0}}


def features(ts, x, u, v, weak):
    """Columns of the regression, and both rates, by pysindy's libraries."""
    sindy = import_module("pysindy")
    films = np.stack([u, v], -1).transpose(1, 2, 0, 3)
    monomials = sindy.PolynomialLibrary(degree=3, include_bias=False)
    X, Y = np.meshgrid(x, x, indexing="ij")
    if weak:
        grid = np.stack(np.meshgrid(x, x, ts, indexing="ij"), -1)
        library = sindy.WeakPDELibrary(
            function_library=monomials, derivative_order=2, spatiotemporal_grid=grid, K=500, include_bias=True,
            H_xt=[0.05, 0.05, 15.0], include_interaction=False,
        )  # fmt: skip
        made = library.fit([films])
        rates, columns = made.convert_u_dot_integral(films), np.asarray(made.transform([films])[0])
    else:
        library = sindy.PDELibrary(
            function_library=monomials, derivative_order=2, spatial_grid=np.stack([X, Y], -1), include_bias=True,
            include_interaction=False,
        )  # fmt: skip
        made = library.fit([films])
        columns = np.asarray(made.transform([films])[0]).reshape(-1, made.n_output_features_)
        rates = np.asarray(sindy.FiniteDifference(axis=2)._differentiate(films, ts)).reshape(-1, 2)
    names = made.get_feature_names(["u", "v"])
    return np.asarray(columns, float).reshape(len(rates), -1), np.asarray(rates, float).reshape(-1, 2), names


def arranged(columns, names):
    """Columns by our names: monomials in their order, and both Laplacians."""
    found = {n: columns[:, names.index(_SPELLED[n])] for n in NAMES}
    for field in "uv":
        found[f"lap_{field}"] = columns[:, names.index(f"{field}_11")] + columns[:, names.index(f"{field}_22")]
    return found


def sparse(A, b, names, wanted):
    """The set of STLSQ that is the truth's at some threshold, or else the sparsest within 1 % of the least misfit."""
    sindy, tried = import_module("pysindy"), []
    # Laplacians in units of their usual size, so that one threshold suits all
    size = np.array([1e5 if n.startswith("lap") else 1.0 for n in names])
    for threshold in THRESHOLDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            c = np.ravel(sindy.STLSQ(threshold=threshold, alpha=1e-8).fit(A / size, b[:, None]).coef_)
        found = {n: float(x) for n, x in zip(names, c / size, strict=True) if x}
        tried.append((float(np.sum((A @ (c / size) - b) ** 2)), len(found), found))
    for _, _, found in tried:
        if set(found) == wanted:
            return found
    least = min(t[0] for t in tried)
    return min((t for t in tried if t[0] <= 1.01 * least), key=lambda t: t[1])[2]


def main(folder):
    # pysindy draws the places of its weak domains
    np.random.seed(0)  # noqa: NPY002
    film = np.load(folder / "film.npz")
    out = {}
    for form in ("differences", "weak"):
        columns, rates, names = features(film["ts"], film["x"], film["u"], film["v"], form == "weak")
        known = arranged(columns, names)
        for told in ("alone", "beside"):
            model = {}
            for k, field in enumerate("uv"):
                given = KNOWN[field] if told == "beside" else {}
                rest = [n for n in known if told == "alone" or not n.startswith("lap")]
                b = rates[:, k] - sum((c * known[n] for n, c in given.items()), 0 * rates[:, k])
                wanted = {*TRUTH[field]} if told == "alone" else {"u1v2"}
                found = sparse(np.stack([known[n] for n in rest], 1), b, rest, wanted)
                model[field] = {n: found.get(n, 0.0) + given.get(n, 0.0) for n in {**given, **found}}
                print(
                    f"{form}, {told}: {field}_t = " + " ".join(f"{c:+.3g} {n}" for n, c in found.items()),
                    set(found) == wanted,
                )
            out[f"{form}, {told}"] = model
    (folder / "sindy.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
