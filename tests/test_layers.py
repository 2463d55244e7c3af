"""The architecture: the ordered list of rooms, what each may import, and how much code a file may hold."""

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from pdefit._util.late import places

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))

from count_lines import code_lines  # noqa: E402

MOST_LINES = 220

_ARRAYS = "jax equinox jaxtyping numpy"
_FILES = "numpy h5py h5netcdf xarray tifffile"
_ALL = "*"

# from the bottom to the top: a room imports itself, the rooms above it in this list, and these libraries
ROOMS = {
    "pdefit._util": _ARRAYS,
    "pdefit.data": f"{_ARRAYS} pint",
    "pdefit.data.readers": f"{_FILES} pandas pint scipy",
    "pdefit.data.importers": f"{_FILES} pandas pint scipy imageio av openpiv",
    "pdefit.systems": f"{_ARRAYS} scipy",
    "pdefit.integrate": f"{_ARRAYS} diffrax",
    "pdefit.adjoints": f"{_ARRAYS} diffrax",
    "pdefit.inverse.linear": f"{_ARRAYS} scipy",
    "pdefit.inverse.problem": f"{_ARRAYS} diffrax",
    "pdefit.inverse.controls": f"{_ARRAYS} scipy",
    "pdefit.inverse.shooting": f"{_ARRAYS} diffrax",
    "pdefit.inverse.objective": f"{_ARRAYS} diffrax",
    "pdefit.inverse.optimizers": f"{_ARRAYS} optax",
    "pdefit.inverse.offload": f"{_ARRAYS} diffrax",
    "pdefit.inverse.fit": f"{_ARRAYS} diffrax scipy",
    "pdefit.inverse.uncertainty": f"{_ARRAYS} scipy",
    "pdefit.inverse.certify": f"{_ARRAYS} diffrax scipy",
    "pdefit.inverse.members": f"{_ARRAYS} scipy",
    "pdefit.analysis": f"{_ARRAYS} diffrax scipy",
    "pdefit.conformance": f"{_ARRAYS} diffrax",
    "pdefit.lab": f"{_ARRAYS} diffrax",
    "pdefit": "jax",
    "pdefit.output.store": _FILES,
    "pdefit.output.pictures": f"{_FILES} matplotlib imageio av jinja2",
    "pdefit.cli.runtime": _ALL,
    "pdefit.cli.config": _ALL,
    "pdefit.cli.run": _ALL,
    "pdefit.cli.sweeps": _ALL,
    "pdefit.cli.python": _ALL,
    "pdefit.cli.commands": _ALL,
    "pdefit.cli.main": _ALL,
    "pdefit.cli.command": "",
}
# what a fit wrote can be shown without the code that made it
_MADE = ("pdefit.integrate", "pdefit.adjoints", "pdefit.inverse", "pdefit.analysis", "pdefit.conformance", "pdefit.lab")
# and matrix algebra knows no equation
_NEVER = {
    "pdefit.output.store": _MADE,
    "pdefit.output.pictures": _MADE,
    "pdefit.inverse.linear": ("pdefit.data", "pdefit.systems", "pdefit.integrate", "pdefit.adjoints"),
}
# what notebooks use stands above the command line's rooms: `pdefit` itself names it, and imports it when it is first used;
# so do `pdefit.adjoints` with the continuous ones, and `pdefit.plot` with figures
_LATE = {("pdefit", "pdefit.cli.python"), ("pdefit.adjoints", "pdefit.lab"), ("pdefit.plot", "pdefit.output.pictures")}
_ORDER = list(ROOMS)


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _room(module: str) -> str | None:
    """The innermost room that holds a module; the files at the top, which gather public names, are a room of their own."""
    holding = [r for r in ROOMS if module == r or (r != "pdefit" and module.startswith(f"{r}."))]
    at_top = (ROOT / "pdefit" / f"{module.removeprefix('pdefit.')}.py").is_file()
    return max(holding, key=len, default="pdefit" if at_top and module.startswith("pdefit.") else None)


def _imports(source: str) -> list[tuple[int, str]]:
    """Line and dotted name of everything a file imports, wherever in the file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            # `from pdefit.inverse import fit` is an import of pdefit.inverse.fit
            rooms = any(r.startswith(f"{base}.") for r in ROOMS)
            for name in (n.name for n in node.names):
                whole = rooms or name.startswith("_") or f"{base}.{name}" in SOURCES
                found.append((node.lineno, f"{base}.{name}" if whole else base))
    return sorted(set(found))


# files of plugins that pdefit loads by their names, and the libraries that each may import beside arrays
_PARTS = {"view": "matplotlib", "tracks": "scipy"}


def _plugin_may(module: str, name: str) -> bool:
    """A plugin imports the public names of pdefit, arrays, and itself; a part also what it is made for."""
    if name.split(".")[0] == "pdefit":
        return name == "pdefit" or (name.count(".") == 1 and _room(name) in (None, "pdefit") and name not in _PACKAGES)
    own = _PARTS.get(module.partition(".")[2], "").split()
    return name.split(".")[0] in (*_ARRAYS.split(), *own, module.split(".")[0])


def _is_private_to_another_folder(name: str, module: str) -> bool:
    """Whether a module whose name begins with an underscore is imported from outside its folder.

    `pdefit._util` is the whole package's own.
    """
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if i and part.startswith("_")), None)
    if parts[0] != "pdefit" or at is None or parts[1] == "_util":
        return False
    return not _within(module, ".".join(parts[:at]))


# folders that hold rooms and are none themselves
_PACKAGES = {r.rpartition(".")[0] for r in ROOMS if "." in r}


def violations(module: str, source: str) -> list[str]:
    """What a file with this module name imports but may not."""
    own = _room(module)
    if own is None and not module.startswith("pdefit_"):
        return [] if module in _PACKAGES else [f"{module}: belongs to no room"]
    wrong = []
    for line, name in _imports(source):
        root = name.split(".")[0]
        if root in sys.stdlib_module_names:
            continue
        if own is None:
            allowed = _plugin_may(module, name)
        elif root == "pdefit":
            room = _room(name)
            below = room is not None and _ORDER.index(room) <= _ORDER.index(own)
            below = below or (module, room) in _LATE
            allowed = below and not any(_within(name, banned) for banned in _NEVER.get(own, ()))
        else:
            allowed = ROOMS[own] == _ALL or root in ROOMS[own].split()
        if not allowed or _is_private_to_another_folder(name, module):
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
    assert {"pdefit", "pdefit.cli.main", "pdefit.inverse.optimizers", "pdefit_particles.gravity"} <= set(SOURCES)


def test_no_file_reaches_above_its_room():
    assert [x for m, file in SOURCES.items() for x in violations(m, file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pdefit._util.trees", "from pdefit.systems.system import AbstractSystem"),
        ("pdefit._util.errors", "import scipy.linalg"),
        ("pdefit.data.observations", "from pdefit.data.readers.frames import Frames"),
        ("pdefit.data.observations", "import h5py"),
        ("pdefit.data.readers.frames", "from pdefit.systems.system import AbstractSystem"),
        ("pdefit.systems.grid", "import diffrax"),
        ("pdefit.systems.grid", "from pdefit import integrate"),
        ("pdefit.systems.grid", "import pdefit"),
        ("pdefit.integrate.loop.stepper", "def f():\n    from pdefit.inverse.fit.fit import fit"),
        ("pdefit.integrate.loop.stepper", "from pdefit.adjoints.base import StoreAll"),
        ("pdefit.integrate.loop.stepper", "import pdefit_particles"),
        ("pdefit.integrate.loop.stepper", "import optax"),
        ("pdefit.inverse.linear.schur", "from pdefit.systems.grid import CartesianGrid"),
        ("pdefit.inverse.linear.schur", "from pdefit.inverse.controls.theta import Controls"),
        ("pdefit.inverse.objective.functional", "from pdefit.inverse import optimizers"),
        ("pdefit.inverse.optimizers.base", "from pdefit.inverse.fit.drivers import Traced"),
        ("pdefit.inverse.fit.fit", "try:\n    import h5py\nexcept ImportError:\n    pass"),
        ("pdefit.inverse.optimizers.base", "import jax, hydra"),
        ("pdefit.inverse.fit.fit", "from pdefit.output.store.runs import Run"),
        ("pdefit.inverse.fit.fit", "from pdefit.conformance.verify import verify"),
        ("pdefit.conformance.verify", "import pytest"),
        ("pdefit.conformance.verify", "from pdefit.lab.doctor.doctor import doctor"),
        ("pdefit.adjoints.base", "from pdefit.lab.continuous_adjoints.backsolve import Backsolve"),
        ("pdefit.output.pictures.figures", "from pdefit.lab.adjoint_study import compare"),
        ("pdefit.conformance.verify", "from pdefit.cli.runtime.plugins import systems"),
        ("pdefit.output.store.runs", "from pdefit.inverse.fit.fit import Fit"),
        ("pdefit.output.store.runs", "import jax"),
        ("pdefit.output.pictures.figures", "from pdefit.cli import run"),
        ("pdefit.output.pictures.figures", "import omegaconf"),
        ("pdefit.cli.config.catalogue", "from pdefit.cli.run.build import Experiment"),
        ("pdefit.inverse.fit.fit", "from pdefit.adjoints.tangent._local_jacobian import linearised"),
        ("pdefit.cli.main", "from pdefit.cli.config import _types"),
        ("pdefit", "from pdefit.cli.main import main"),
        ("pdefit._public", "from pdefit.cli.python.runs import load_run"),
        ("pdefit.cli.run.fields", "from pdefit.cli.python.runs import load_run"),
        ("pdefit.somewhere", "import os"),
        ("pdefit.inverse.somewhere", "import os"),
        ("pdefit_reaction.fisher_kpp", "import pdefit_particles"),
        ("pdefit_reaction.fisher_kpp", "from pdefit.inverse.fit.fit import fit"),
        ("pdefit_reaction.fisher_kpp", "from pdefit.systems.system import parameter"),
        ("pdefit_reaction.fisher_kpp", "from pdefit import inverse"),
        ("pdefit_reaction.fisher_kpp", "from pdefit import cli"),
        ("pdefit_reaction.fisher_kpp", "from diffrax import Dopri5"),
        ("pdefit_reaction.fisher_kpp", "from ..pdefit_particles import gravity"),
        ("pdefit_reaction.fisher_kpp", "import matplotlib"),
        ("pdefit_sphere.view", "from pdefit.output.pictures.style import MISSING"),
    ],
)
def test_a_planted_violation_is_caught(module, source):
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pdefit_reaction.fisher_kpp", "import pdefit\nfrom pdefit import AbstractSystem\nimport jax.numpy as jnp"),
        ("pdefit_reaction.fisher_kpp", "from pdefit import parameter\nimport pdefit_reaction.other"),
        ("pdefit_reaction.fisher_kpp", "from pdefit import capabilities\nfrom pdefit.boundaries import Periodic"),
        (
            "pdefit.inverse.fit.fit",
            "import diffrax\nimport os.path\nfrom pdefit.integrate.loop.time_grid import constant_grid",
        ),
        ("pdefit.inverse.optimizers.gradient_descent", "import optax"),
        ("pdefit.cli.main", "import hydra\nfrom omegaconf import OmegaConf"),
    ],
)
def test_what_is_allowed_is_not_reported(module, source):
    assert violations(module, source) == []


def test_what_is_imported_by_name_is_listed_as_an_import():
    """Late names stand in imports for type checkers, which tests above read; below the command line nothing else is late."""
    named = {m for m, file in SOURCES.items() if "import_module(" in file.read_text(encoding="utf-8")}
    assert {m for m in named if not m.startswith(("pdefit.cli", "pdefit_"))} == {"pdefit._util.late"}
    parts = {m for m, file in SOURCES.items() if "spec_from_file_location(" in file.read_text(encoding="utf-8")}
    assert {m for m in parts if not m.startswith("pdefit.cli")} == {"pdefit._util.plugins"}
    assert places(SOURCES["pdefit.adjoints"])["Backsolve"] in SOURCES


def _loaded_with(modules: Iterable[str]) -> set[str]:
    """Files of pdefit that are loaded when these are; imports inside functions, and for types alone, load nothing."""
    found, ahead = set[str](), [*modules]
    while ahead:
        if (module := ahead.pop()) in SOURCES and module not in found:
            found.add(module)
            top = ast.parse(SOURCES[module].read_text(encoding="utf-8")).body
            ahead += [name.name for node in top if isinstance(node, ast.Import) for name in node.names]
            for node in top:
                if isinstance(node, ast.ImportFrom):
                    ahead += [f"{node.module}", *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def test_a_fit_loads_no_study():
    """The rooms of other verbs are loaded by these verbs, and the lab by whoever names what is in it."""
    loaded = _loaded_with(["pdefit.cli.main", "pdefit.cli.config.read", "pdefit.cli.run.fit"])
    assert len(loaded) > 200
    studies = ("lab", "conformance", "analysis.design", "analysis.discovery", "analysis.identifiability")
    assert sorted(m for m in loaded if m.startswith(tuple(f"pdefit.{room}" for room in studies))) == []


def test_the_core_names_no_plugin():
    """Neither a package nor a system, a class or an experiment of one: a plugin proposes what it knows."""
    names = "|".join(folder.name.removeprefix("pdefit_") for folder in (ROOT / "plugins").glob("pdefit_*"))
    texts = [f for f in (ROOT / "pdefit").rglob("*") if f.suffix in (".py", ".jinja", ".css")]
    found = [
        (f.name, re.findall(rf"pdefit_(?:{names})\b|\b(?:{names})/\w+", f.read_text(encoding="utf-8"))) for f in texts
    ]
    assert len(texts) > 300 and [x for x in found if x[1]] == []


def test_rooms_that_load_parts_of_plugins_do_not_know_what_these_parts_draw_or_import():
    files = [file for part in _PARTS for file in (ROOT / "plugins").glob(f"pdefit_*/{part}.py")]
    names = {file.parent.name.removeprefix("pdefit_") for file in files}
    words = re.compile(rf"\b({'|'.join(names)})s?\b", re.IGNORECASE)
    rooms = [ROOT / "pdefit" / room for room in ("output/pictures", "data/importers")]
    texts = [f for room in rooms for f in room.iterdir() if f.suffix in (".py", ".jinja")]
    assert files and len(texts) > 30
    found = [(f.name, words.findall(f.read_text(encoding="utf-8"))) for f in texts]
    assert [x for x in found if x[1]] == []


def circle(sources: Mapping[str, str]) -> list[str]:
    """Files that import each other in a circle, wherever in the file; empty if there are none.

    `pdefit` itself is left out: it names everything for type checkers, and imports it late.
    """
    graph = {
        module: {name if name in sources else name.rpartition(".")[0] for _, name in _imports(source)} - {"pdefit"}
        for module, source in sources.items()
        if module != "pdefit"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_files_import_each_other():
    assert circle({m: file.read_text(encoding="utf-8") for m, file in SOURCES.items()}) == []


@pytest.mark.parametrize(
    "back",
    [
        "from pdefit.inverse.fit.fit import fit",
        "from pdefit.inverse.fit import fit",
        "def f():\n    import pdefit.inverse.fit.fit",
        "if TYPE_CHECKING:\n    from pdefit.inverse.fit.fit import Fit",
    ],
)
def test_a_planted_circle_is_found(back):
    there = "from pdefit.inverse.fit.stop import Stop"
    sources = {"pdefit.inverse.fit.fit": there, "pdefit.inverse.fit.stop": back}
    assert set(circle(sources)) == set(sources)
    assert circle(sources | {"pdefit.inverse.fit.stop": "import pdefit"}) == []


def test_files_stay_short():
    lines = {m: code_lines(file.read_text(encoding="utf-8")) for m, file in SOURCES.items()}
    assert {m: n for m, n in lines.items() if n > MOST_LINES} == {}


def test_every_folder_of_sources_is_a_package():
    """A folder without __init__.py would not be in the wheel."""
    packages = {m for m, file in SOURCES.items() if file.name == "__init__.py"}
    assert {m.rpartition(".")[0] for m in SOURCES if "." in m} <= packages
