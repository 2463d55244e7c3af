"""pdefit new: a working plugin, or one file of equations, as a start outside this repository."""

import importlib.util
import keyword
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from pdefit._util.atomic import write_text
from pdefit._util.errors import PdefitError

# files of a plugin by their templates; file names have the same placeholders as their content
_FILES = {
    "pyproject.toml.template": "pyproject.toml",
    "init.py.template": "<<package>>/__init__.py",
    "bistable.py.template": "<<package>>/bistable.py",
    "system.yaml.template": "<<package>>/conf/system/<<package>>/bistable.yaml",
    "experiment.yaml.template": "<<package>>/conf/experiment/<<package>>/front.yaml",
    "test_bistable.py.template": "tests/test_bistable.py",
}

# the two files of a first try without a package
_ALONE = {"bistable.py.template": ".py", "file.yaml.template": ".yaml"}

# names of folders that lie beside the package, which it cannot have
_TAKEN = ("tests", "build", "dist")


def run_new(arguments: list[str], console: Console) -> None:
    """Write the plugin NAME into the folder NAME/, or the file NAME.py and its experiment NAME.yaml."""
    if len(arguments) != 1:
        raise PdefitError("pdefit new expects one name, e.g. pdefit new my-fronts, or pdefit new my_equation.py")
    (name,) = arguments
    if name.endswith(".py"):
        files = " ".join(file.name for file in write_files(Path.cwd(), name.removesuffix(".py")))
        console.print(
            f"[bold]{files}[/] hold an equation and its experiment that work. Write yours in their place; then\n"
        )
        for verb in ("fit", "verify"):
            console.print(f"  pdefit {verb} {files if verb == 'fit' else name}", highlight=False, soft_wrap=True)
        return
    package = package_name(name)
    folder = write_plugin(Path.cwd(), name, package)
    console.print(
        f"[bold]{escape(name)}/[/] holds a plugin that works. Your equation replaces {package}/bistable.py; then\n"
    )
    for command in (
        f"uv pip install --editable {folder.name}",
        f"pdefit verify {package}/bistable",
        f"pdefit fit experiment={package}/front",
        f"python -m pytest {folder.name}",
    ):
        console.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)


def package_name(name: str) -> str:
    """Package name of a project name: my-fronts becomes my_fronts.

    Names that cannot be imported are refused.
    """
    package = name.lower().replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package):
        raise PdefitError(f"A plugin's name expects letters a-z, digits, - and _, first a letter, but got '{name}'")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise PdefitError(f"'{package}' is a word of the Python language; choose another name")
    if package in _TAKEN:
        raise PdefitError(f"'{package}' is a folder that stands beside the package; choose another name")
    if package in sys.stdlib_module_names or importlib.util.find_spec(package) is not None:
        raise PdefitError(f"A package called '{package}' exists already and would be hidden; choose another name")
    return package


def write_plugin(parent: Path, name: str, package: str) -> Path:
    """Write the folder of a plugin, completely or not at all.

    **Arguments:**

    - `parent`: the parent folder.
    - `name`, `package`: the names of the project and of its package.
    """
    folder, partial = parent / name, parent / f".{name}.{os.getpid()}.partial"
    if os.path.lexists(folder):
        raise PdefitError(f"The folder '{name}' exists already; choose another name, or remove it")
    words = {"<<package>>": package, "<<project>>": package.replace("_", "-")}
    try:
        _write({partial / _filled(target, words): template for template, target in _FILES.items()}, words)
        os.rename(partial, folder)
    except OSError as error:
        raise PdefitError(f"The folder '{name}' cannot be written here: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def write_files(folder: Path, name: str) -> list[Path]:
    """Write a file of equations and a file of an experiment; neither may exist.

    **Arguments:**

    - `folder`: the target folder.
    - `name`: the name of both files, without their endings.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise PdefitError(f"A file of equations expects letters, digits and _ in its name, but got '{name}.py'")
    files = {folder / f"{name}{ending}": template for template, ending in _ALONE.items()}
    for file in files:
        if os.path.lexists(file):
            raise PdefitError(f"'{file.name}' exists already; choose another name, or remove it")
    try:
        _write(files, {"<<file>>": name})
    except OSError as error:
        raise PdefitError(f"'{name}.py' cannot be written here: {error.strerror or error}") from None
    return [*files]


def _write(files: Mapping[Path, str], words: dict[str, str]) -> None:
    """Write files from their templates, with placeholders replaced by words."""
    templates = resources.files("pdefit.cli") / "skeleton"
    for file, template in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, _filled(templates.joinpath(template).read_text(encoding="utf-8"), words))


def _filled(text: str, words: dict[str, str]) -> str:
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text
