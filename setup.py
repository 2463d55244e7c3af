"""What pyproject.toml would have to list: the packages of the wheel, and the plugins among them."""

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
PLUGINS = sorted(file.parent.name for file in (ROOT / "plugins").glob("pdefit_*/__init__.py"))

setup(
    packages=[
        *find_packages(str(ROOT), include=["pdefit", "pdefit.*"]),
        *find_packages(str(ROOT / "plugins"), include=["pdefit_*"], exclude=["*.tests", "*.tests.*"]),
        "pdefit_conf",
        "pdefit_data",
    ],
    package_dir={
        "pdefit": "pdefit",
        "pdefit_conf": "conf",
        "pdefit_data": "data",
        **{name: f"plugins/{name}" for name in PLUGINS},
    },
    entry_points={
        "console_scripts": ["pdefit = pdefit.cli.command:command"],
        "pdefit.plugins": [f"{name.removeprefix('pdefit_')} = {name}" for name in PLUGINS],
    },
)
