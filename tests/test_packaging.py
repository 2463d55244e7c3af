"""The wheel: what a user installs holds the configurations, the data and the plugins."""

import configparser
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pdefit

ROOT = Path(__file__).parents[1]
PLANETS = "solar_system/planets_1970_2040_20d.h5"

_LOOK = f"""
import pdefit, pdefit_reaction
from pdefit.cli.config.catalogue import experiments
from pdefit.data.readers.locate import locate
print(pdefit.__file__)
print(pdefit_reaction.__file__)
print(locate({PLANETS!r}))
print(*experiments())
"""


def test_a_clone_called_pdefit_does_not_hide_the_package_from_a_script_beside_it(tmp_path):
    (tmp_path / "pdefit" / "pdefit").mkdir(parents=True)
    (tmp_path / "x.py").write_text("import importlib.util; print(importlib.util.find_spec('pdefit').origin)")
    found = subprocess.run([sys.executable, "x.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert Path(found.stdout.strip()) == Path(pdefit.__file__), found.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of a copy of the sources: a build leaves traces beside them."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pdefit", "plugins", "conf", "data"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, copy / name)
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, out], cwd=copy, check=True, capture_output=True, timeout=600)
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_holds_code_configurations_and_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in (
        "pdefit/py.typed",
        "pdefit/inverse/optimizers/lbfgs.py",
        "pdefit/cli/skeleton/bistable.py.template",
        "pdefit/output/pictures/report.css",
        "pdefit_conf/config.yaml",
        "pdefit_conf/solver/rk4.yaml",
        "pdefit_conf/hydra/job_logging/pdefit.yaml",
        f"pdefit_data/{PLANETS}",
        "pdefit_data/reference/pleiades_reference.csv",
        "pdefit_data/classics/KdV.mat",
        "pdefit_data/classics/lorenz.h5",
        "pdefit_classics/conf/experiment/classics/lorenz.yaml",
        "pdefit_reaction/conf/experiment/reaction/fisher_front.yaml",
        "pdefit_particles/conf/system/particles/gravity.yaml",
    ):
        assert name in names
    assert not [n for n in names if "tests/" in n or "__pycache__" in n]


def test_the_wheel_misses_no_file_of_the_sources(wheel):
    folders = {"pdefit": "pdefit", "conf": "pdefit_conf", "data": "pdefit_data"}
    folders |= {f"plugins/{p.name}": p.name for p in (ROOT / "plugins").iterdir() if (p / "__init__.py").exists()}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for source, package in folders.items():
        for file in (ROOT / source).rglob("*"):
            inside = file.relative_to(ROOT / source)
            is_shipped = file.suffix in (".py", ".yaml", ".h5", ".csv", ".json", ".mat", ".tif", ".template", ".css")
            if is_shipped and not {"tests", "__pycache__"} & {*inside.parts}:
                assert f"{package}/{inside.as_posix()}" in names


def test_the_wheel_declares_command_and_plugins(wheel):
    entries = configparser.ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/entry_points.txt")]
        entries.read_string(archive.read(name).decode())
    assert entries["console_scripts"]["pdefit"] == "pdefit.cli.command:command"
    plugins = {p.parent.name for p in (ROOT / "plugins").glob("pdefit_*/__init__.py")}
    assert dict(entries["pdefit.plugins"]) == {name.removeprefix("pdefit_"): name for name in plugins}


def test_the_unpacked_wheel_works_from_anywhere(wheel, tmp_path):
    unpacked, elsewhere = tmp_path / "unpacked", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    environment = {k: v for k, v in os.environ.items() if k != "PDEFIT_DATA"} | {"PYTHONPATH": str(unpacked)}
    found = subprocess.run(
        [sys.executable, "-c", _LOOK], cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=600
    )
    assert found.returncode == 0, found.stderr
    core, plugin, planets, names = found.stdout.splitlines()
    assert Path(core) == unpacked / "pdefit" / "__init__.py"
    assert Path(plugin) == unpacked / "pdefit_reaction" / "__init__.py"
    assert Path(planets) == unpacked / "pdefit_data" / PLANETS
    assert {"particles/pleiades", "reaction/fisher_front"} <= set(names.split())
