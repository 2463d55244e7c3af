"""Random mistakes in a configuration: in its entries, and in its text."""

import copy
import random
import string
from typing import Any

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    -3,
    1000,
    10**9,
    10**12,
    -(10**12),
    2**31,
    2**63,
    2**64,
    10**30,
    10**400,
    0.0,
    -0.0,
    0.5,
    1.5,
    -2.5,
    1e-300,
    5e-324,
    1e300,
    -1e300,
    1e-12,
    1e12,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    " ",
    "x",
    "null",
    "nan",
    "1e-3",
    "1e999",
    "auto",
    "data",
    "system",
    "none",
    "u",
    "position",
    "ü→😀",
    "\x00",
    "\n",
    "a\nb",
    "x" * 10000,
    "../../../etc/passwd",
    "/",
    ".",
    "/dev/zero",
    "/dev/stdin",
    "~",
    [],
    {},
    [[]],
    [{}],
    {"": None},
    [None],
    [True],
    ["x"],
    [1],
    [1, 2],
    [1.0, 2.0, 3.0],
    [[1, 2], [3, 4]],
    [[1], [2, 3]],
    [float("nan")],
    [0],
    [-1],
    [10**12],
    [10**12] * 3,
    [1e300, 1e-300],
    {"x": 1},
    {"a": {"b": {"c": 1}}},
    {1: 2},
    {None: 1},
    {True: 1},
    {"name": "rk4"},
    {"name": None},
    {"name": ["rk4"]},
    {"name": {}},
    {"name": "rk4", "": 1},
    {"_target_": "pdefit.solvers.RK4"},
    {"_target_": None},
    {"_target_": ["pdefit.solvers.RK4"]},
    {"_target_": {}},
    {"_target_": "pdefit.solvers.RK4", "": 1},
    "???",
    ["???"],
    "${seed}",
    "${dt}",
    "${system}",
    "${nothing}",
    "${",
    "${}",
    "${a",
    "${.}",
    "${..}",
    "${...x}",
    "${oc.env:HOME}",
    "${oc.env:PATH}",
    "${oc.decode:'[1'}",
    "${oc.create:{a: 1}}",
    "${data:}",
    "${data:x}",
    "${data:/etc/passwd}",
    "${data}",
    "${run_name:}",
    "${run_name:x}",
    "${hydra:runtime.cwd}",
    "${hydra:}",
    "${unknown:1}",
    "${oc.select:seed}",
    "${oc.dict.keys:system}",
    "${oc.dict.values:system}",
    "${oc.deprecated:seed}",
    "$${x}",
    "\\${x}",
    "${${seed}}",
    "{}",
    "[",
]

TARGETS = [
    "os.system",
    "builtins.eval",
    "builtins.exec",
    "subprocess.Popen",
    "pdefit.cli.main.main",
    "pdefit.simulate",
    "pdefit.fit",
    "pdefit.solvers.RK4",
    "pdefit.CartesianGrid",
    "pdefit.formulations.Single",
    "pdefit.formulations.Segments",
    "pdefit.Functional",
    "pdefit.Problem",
    "pdefit.PdefitError",
    "pdefit.Control",
    "pdefit.transforms.Log",
    "pdefit.instruments.Select",
    "pdefit.instruments.Subsample",
    "pdefit.optimizers.Adam",
    "pdefit.optimizers.LBFGS",
    "pdefit.optimizers.LevenbergMarquardt",
    "pdefit.AbstractSystem",
    "pdefit.instruments.AbstractObservationOperator",
    "pdefit.adjoints.StoreAll",
    "pdefit.parameter",
    "pdefit.constant",
    "pdefit.diffuse",
    "pdefit.load",
    "pdefit.read_observations",
    "pdefit.Observations",
    "pdefit.Observations.build",
    "pdefit_reaction.FisherKPP",
    "pdefit_reaction.State",
    "pdefit_particles.Gravity",
    "pdefit_particles.pleiades",
    "diffrax.Dopri5",
    "diffrax.Tsit5",
    "diffrax.Kvaerno5",
    "diffrax.Heun",
    "diffrax.Euler",
    "diffrax.ODETerm",
    "diffrax.diffeqsolve",
    "diffrax.AbstractSolver",
    "diffrax.ImplicitEuler",
    "diffrax.SemiImplicitEuler",
    "diffrax.ReversibleHeun",
    "diffrax.ItoMilstein",
    "diffrax.KenCarp4",
    "optax.adam",
    "optax.sgd",
    "optax.lbfgs",
    "optax.adamw",
    "optax.apply_updates",
    "optax.chain",
    "optimistix.BFGS",
    "optimistix.root_find",
    "diffrax.citation",
    "optax.tree.map",
    "",
    ".",
    "..",
    "pdefit",
    "pdefit.",
    ".pdefit",
    "pdefit..RK4",
    "pdefit.__class__",
    "pdefit.nothing",
    "importlib.import_module",
    "pdefit.solvers.VelocityVerlet",
    "pdefit.adjoints.Checkpointed",
    "pdefit.Twin",
    "pdefit.Stage",
]

NAMES = [
    "rk4", "tsit5", "kvaerno5", "implicit_euler", "velocity_verlet", "auto", "checkpointed", "store_all", "tangent", "traced",
    "hosted", "single", "segments", "all", "select", "subsample", "compose", "adam", "optax", "lbfgs", "lion", "newton",
    "vmap", "chunk", "log", "value", "normal", "cartesian_grid", "periodic", "reaction/fisher_kpp", "reaction/association",
    "reaction/one_sided_source", "particles/gravity", "cardiac/bocf", "cardiac/rest", "cardiac/stimulus", "cardiac/patches",
    "", "/", "cardiac/", "../rk4", "os.system", "pdefit.solvers.RK4", "RK4",
]  # fmt: skip

Path = tuple[Any, ...]


def damaged(configuration: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], str]:
    """A copy with one to three mistakes, and what they are."""
    out = copy.deepcopy(configuration)
    told = [rng.choices(_MISTAKES, _WEIGHTS)[0](out, rng) for _ in range(rng.choice([1, 1, 1, 1, 1, 2, 3]))]
    return out, "; ".join(told)


def _paths(node: Any, prefix: Path = ()) -> list[Path]:
    entries: list[tuple[Any, Any]] = []
    if isinstance(node, dict):
        entries = list(node.items())
    elif isinstance(node, list):
        entries = list(enumerate(node))
    return [q for k, v in entries for q in [(*prefix, k), *_paths(v, (*prefix, k))]]


def _parent(node: Any, path: Path) -> Any:
    for key in path[:-1]:
        node = node[key]
    return node


def _leaf(cfg: dict[str, Any], rng: random.Random) -> Path:
    """Rather an entry deep inside than a whole section."""
    paths = _paths(cfg)
    deep = [p for p in paths if len(p) > 1]
    return rng.choice(deep if deep and rng.random() < 0.8 else paths)


def _deleted(cfg: dict[str, Any], rng: random.Random) -> str:
    path = rng.choice(_paths(cfg))
    del _parent(cfg, path)[path[-1]]
    return f"without {path}"


def _renamed(cfg: dict[str, Any], rng: random.Random) -> str:
    path = rng.choice([p for p in _paths(cfg) if isinstance(p[-1], str)])
    name, at = path[-1] or "x", rng.randrange(len(path[-1] or "x"))
    new = name[:at] + rng.choice(["", rng.choice(string.printable)]) + name[at + 1 :]
    parent = _parent(cfg, path)
    parent[new] = parent.pop(path[-1])
    return f"{path} is called {new!r}"


def _replaced(cfg: dict[str, Any], rng: random.Random) -> str:
    path, value = _leaf(cfg, rng), copy.deepcopy(rng.choice(VALUES))
    _parent(cfg, path)[path[-1]] = value
    return f"{path} = {str(value)[:80]!r}"


def _nested(cfg: dict[str, Any], rng: random.Random) -> str:
    path = _leaf(cfg, rng)
    parent = _parent(cfg, path)
    value = parent[path[-1]]
    parent[path[-1]] = rng.choice([[value], {"x": value}, [[value]], {path[-1]: value}, [value, value], str(value)])
    return f"{path} nested: {str(parent[path[-1]])[:80]}"


def _retargeted(cfg: dict[str, Any], rng: random.Random) -> str:
    path = rng.choice([p for p in _paths(cfg) if p[-1] == "name"] or [("system", "name")])
    key, new = rng.choice([("name", rng.choice(NAMES)), ("_target_", rng.choice(TARGETS))])
    try:
        node = _parent(cfg, path)
        node.pop("name", None)
        node[key] = new
    except (KeyError, TypeError, AttributeError):
        cfg["system"] = {key: new}
    return f"{path[:-1]}.{key} = {new!r}"


def _swapped(cfg: dict[str, Any], rng: random.Random) -> str:
    one, other = rng.choice(_paths(cfg)), rng.choice(_paths(cfg))
    value = copy.deepcopy(_parent(cfg, other)[other[-1]])
    _parent(cfg, one)[one[-1]] = value
    return f"{one} = value of {other}"


def _added(cfg: dict[str, Any], rng: random.Random) -> str:
    paths = [(), *(p for p in _paths(cfg) if isinstance(_parent(cfg, p)[p[-1]], dict))]
    path = rng.choice(paths)
    node = _parent(cfg, path)[path[-1]] if path else cfg
    key = rng.choice(
        [
            "",
            "x",
            "name",
            "_target_",
            "_args_",
            "_partial_",
            "guess",
            "unit",
            "prior",
            "smoothing",
            "window",
            "ü",
            "a.b",
        ]
    )
    node[key] = copy.deepcopy(rng.choice(VALUES))
    return f"{path} + {key!r}: {str(node[key])[:60]!r}"


_MISTAKES = [_replaced, _deleted, _renamed, _nested, _retargeted, _swapped, _added]
_WEIGHTS = [12, 2, 2, 3, 3, 2, 2]


def damaged_text(text: str, rng: random.Random) -> tuple[bytes, str]:
    """YAML that was cut, flipped, stuffed or doubled."""
    raw = text.encode()
    at = rng.randrange(len(raw) + 1)
    how = rng.choice(["cut", "bits", "insert", "lines", "nest", "bytes"])
    if how == "cut":
        return raw[:at], f"cut at {at}"
    if how == "bits":
        return flipped(raw, rng, rng.choice([1, 1, 2, 8])), "bits flipped"
    if how == "insert":
        piece = rng.choice(
            [
                b"\t",
                b"\x00",
                b"\xff\xfe",
                b"&a ",
                b"*a",
                b"!!python/object/apply:os.system ['touch pwned']",
                b"!!int x",
                b"%",
                b"---\n",
                b": ",
                b"? ",
                b"<<: *x\n",
                b"{",
                b"]",
                b"'",
                b"${",
                b"\xc3",
            ]
        )
        return raw[:at] + piece + raw[at:], f"{piece!r} at {at}"
    if how == "lines":
        lines = text.splitlines(keepends=True)
        rng.shuffle(lines)
        return "".join(lines).encode(), "lines shuffled"
    if how == "nest":
        return b"seed: " + b"[" * 3000 + b"]" * rng.choice([0, 3000]), "nested three thousand times"
    return bytes(rng.randrange(256) for _ in range(rng.choice([0, 1, 40, 400]))), "random bytes"


def flipped(raw: bytes, rng: random.Random, count: int) -> bytes:
    """Some bits the other way round, near each other or not."""
    out, start = bytearray(raw), rng.randrange(max(len(raw), 1))
    near = rng.random() < 0.5
    for _ in range(count if raw else 0):
        out[(start + rng.randrange(64)) % len(raw) if near else rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(out)
