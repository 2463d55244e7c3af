"""Sparse regression of the film of two_species.py by PySINDY: on differences of the data, and in weak form.

    python -m venv ENV; ENV/bin/pip install pysindy; ENV/bin/python tests/benchmarks/two_species_sindy.py FOLDER

Features are monomials of u and v to degree 3 and both Laplacians. `alone` regresses all of them. `beside` is told what
pdefit is told, feed and kill, and more, the true diffusivities, and regresses the rest. The threshold is that of the
sparsest set whose misfit is within 1 % of the least. True or False says whether the set is that of the truth. Needs numpy
and pysindy, not pdefit.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

THRESHOLDS = np.geomspace(1e-4, 0.3, 25)
NAMES = [f"u{i}v{j}" for i in range(4) for j in range(4 - i)]
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
    monomials = sindy.CustomLibrary(
        library_functions=[lambda a, b, i=i, j=j: a**i * b**j for i in range(4) for j in range(4 - i) if i + j]
    )
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
    print("   features of pysindy:", names)
    found = {"u0v0": columns[:, names.index("1")]}
    monomials = [n for n in NAMES if n != "u0v0"]
    plain = [k for k, n in enumerate(names) if n != "1" and "_" not in n]
    found |= {n: columns[:, k] for n, k in zip(monomials, plain, strict=True)}
    for field in "uv":
        found[f"lap_{field}"] = columns[:, names.index(f"{field}_11")] + columns[:, names.index(f"{field}_22")]
    return found


def sparse(A, b, names):
    """The sparsest set of STLSQ whose misfit is within 1 % of the least."""
    sindy, tried = import_module("pysindy"), []
    for threshold in THRESHOLDS:
        one = sindy.STLSQ(threshold=threshold, alpha=1e-8, normalize_columns=False)
        c = np.ravel(one.fit(A, b[:, None]).coef_)
        tried.append((float(np.sum((A @ c - b) ** 2)), np.count_nonzero(c), c))
    least = min(t[0] for t in tried)
    _, _, c = min((t for t in tried if t[0] <= 1.01 * least), key=lambda t: t[1])
    return {n: float(x) for n, x in zip(names, c, strict=True) if x}


def main(folder):
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
                found = sparse(np.stack([known[n] for n in rest], 1), b, rest)
                model[field] = {n: found.get(n, 0.0) + given.get(n, 0.0) for n in {**given, **found}}
                wanted = TRUTH[field] if told == "alone" else {"u1v2": 0.0}
                right = set(found) == set(wanted)
                print(f"{form}, {told}: {field}_t = " + " ".join(f"{c:+.3g} {n}" for n, c in found.items()), right)
            out[f"{form}, {told}"] = model
    (folder / "sindy.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
