"""The order of the packages: who may import whom, and how large a file may be."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 350

_ARRAYS = {"jax", "equinox", "jaxtyping", "numpy"}
_PDEFIT = {"pdefit.arrays", "pdefit.errors"}
_SYSTEMS = _PDEFIT | {"pdefit.systems"}
_INTEGRATE = _SYSTEMS | {"pdefit.integrate"}
_INVERSE = _INTEGRATE | {"pdefit.inverse"}
_VERIFICATION = _INVERSE | {"pdefit.verification"}
_FILES = _SYSTEMS | {"pdefit.files", "pdefit.pictures"}
_STORAGE = {"numpy", "h5py", "h5netcdf", "xarray", "matplotlib", "PIL", "imageio_ffmpeg", "tifffile"}

# for each package, what it may import beside the standard library
_MAY = {
    "pdefit.arrays": _PDEFIT | _ARRAYS,
    "pdefit.errors": _PDEFIT | _ARRAYS,
    "pdefit.systems": _SYSTEMS | _ARRAYS,
    "pdefit.integrate": _INTEGRATE | _ARRAYS | {"diffrax"},
    "pdefit.inverse": _INVERSE | _ARRAYS | {"diffrax", "optax", "optimistix", "lineax", "scipy"},
    "pdefit.verification": _VERIFICATION | _ARRAYS | {"diffrax"},
    "pdefit.files": _FILES | _STORAGE | {"pint"},
    "pdefit.pictures": _FILES | _STORAGE,
    # the public names of the layers below
    "pdefit": _VERIFICATION | {"jax"},
}


def _within(module: str, packages: set[str]) -> bool:
    return any(module == p or module.startswith(f"{p}.") for p in packages)


def _imports(source: str) -> list[tuple[int, str]]:
    """Line and dotted name of everything a file imports, wherever in the file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            # `from pdefit import files` is an import of pdefit.files
            found += [(node.lineno, f"{base}.{n.name}" if base == "pdefit" else base) for n in node.names]
    return found


def violations(module: str, source: str) -> list[str]:
    """What a file with this module name imports but may not."""
    if module.startswith("pdefit.app"):
        return []
    if module.startswith("pdefit_"):
        own = module.split(".")[0]
        # `import pdefit` and `from pdefit import Name` give the public names
        public = {"pdefit"}
        may = _SYSTEMS | _ARRAYS | {own}
    else:
        own = max((p for p in _MAY if _within(module, {p})), key=len)
        public, may = set(), _MAY[own]
        if own == "pdefit" and module != "pdefit":
            return [f"{module}: belongs to no layer"]
    wrong = []
    for line, name in _imports(source):
        root = name.split(".")[0]
        is_public = name in public or (public and root == "pdefit" and name.split(".")[1][:1].isupper())
        if root in sys.stdlib_module_names or is_public or _within(name, may):
            continue
        wrong.append(f"{module}:{line} imports {name}")
    return wrong


def _sources() -> dict[str, Path]:
    """Every file of the core and the plugins by module name, tests of plugins aside."""
    found = {}
    for base, folder in ((ROOT, ROOT / "pdefit"), (ROOT / "plugins", ROOT / "plugins")):
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(base).with_suffix("").parts
            if "tests" in parts or file.name.startswith("test_") or file.name == "conftest.py":
                continue
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


SOURCES = _sources()


def test_the_files_are_found():
    assert {"pdefit", "pdefit.app.main", "pdefit.inverse.optimize", "pdefit_particles.gravity"} <= set(SOURCES)


@pytest.mark.parametrize("module", SOURCES)
def test_no_file_reaches_above_its_layer(module):
    assert violations(module, SOURCES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pdefit.arrays.trees", "from pdefit.systems.system import AbstractSystem"),
        ("pdefit.errors", "import scipy.linalg"),
        ("pdefit.systems.grid", "import diffrax"),
        ("pdefit.systems.grid", "from pdefit import integrate"),
        ("pdefit.systems.grid", "import pdefit"),
        ("pdefit.integrate.stepper", "def f():\n    from pdefit.inverse.fit import fit"),
        ("pdefit.integrate.stepper", "import pdefit_particles"),
        ("pdefit.integrate.stepper", "import optax"),
        ("pdefit.inverse.fit", "try:\n    import h5py\nexcept ImportError:\n    pass"),
        ("pdefit.inverse.optimize.base", "import jax, hydra"),
        ("pdefit.inverse.fit", "from pdefit.files.read import read_observations"),
        ("pdefit.inverse.fit", "from pdefit.verification.verify import verify"),
        ("pdefit.verification.verify", "import pytest"),
        ("pdefit.verification.verify", "from pdefit.app.plugins import systems"),
        ("pdefit.files.read", "from pdefit.inverse.fit import Fit"),
        ("pdefit.files.read", "import jax"),
        ("pdefit.pictures.figures", "from pdefit.app import film"),
        ("pdefit.pictures.figures", "import omegaconf"),
        ("pdefit", "from pdefit.app.main import main"),
        ("pdefit.somewhere", "import os"),
        ("pdefit_reaction.fisher_kpp", "import pdefit_particles"),
        ("pdefit_reaction.fisher_kpp", "from pdefit.inverse.fit import fit"),
        ("pdefit_reaction.fisher_kpp", "from pdefit import app"),
        ("pdefit_reaction.fisher_kpp", "from diffrax import Dopri5"),
        ("pdefit_reaction.fisher_kpp", "from ..pdefit_particles import gravity"),
    ],
)
def test_a_planted_violation_is_caught(module, source):
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pdefit_reaction.fisher_kpp", "import pdefit\nfrom pdefit import AbstractSystem\nimport jax.numpy as jnp"),
        ("pdefit_reaction.fisher_kpp", "from pdefit.systems.system import parameter\nimport pdefit_reaction.other"),
        ("pdefit.inverse.fit", "import optax\nimport os.path\nfrom pdefit.integrate.plan import plan_steps"),
        ("pdefit.app.main", "import hydra\nfrom omegaconf import OmegaConf"),
    ],
)
def test_what_is_allowed_is_not_reported(module, source):
    assert violations(module, source) == []


@pytest.mark.parametrize("module", SOURCES)
def test_files_stay_short(module):
    assert len(SOURCES[module].read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_every_package_is_listed_for_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    packages = {m for m, file in SOURCES.items() if file.name == "__init__.py"}
    # a folder without __init__.py would be a package that nobody lists
    packages |= {m.rpartition(".")[0] for m in SOURCES if "." in m}
    assert packages | {"pdefit_conf", "pdefit_data"} == listed
    plugins = {m for m in packages if m.startswith("pdefit_") and "." not in m}
    assert set(project["project"]["entry-points"]["pdefit.plugins"].values()) == plugins
    assert plugins | {"pdefit", "pdefit_conf", "pdefit_data"} == set(project["tool"]["setuptools"]["package-dir"])
