"""The public names, and what importing them does."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from problems import fisher

import pdefit
from pdefit import _public

NAMESPACES = (
    "adjoints", "batches", "boundaries", "capabilities", "drivers", "formulations", "guesses", "instruments", "optimizers",
    "likelihoods", "priors", "regularizers", "solvers", "stopping", "terms", "transforms",
)  # fmt: skip

_IMPORTS = """
import os, sys
before = dict(os.environ)
import pdefit
assert "jax" not in sys.modules and dict(os.environ) == before
import jax
pdefit.Functional, pdefit.solvers.RK4
assert not jax.config.read("jax_enable_x64")
pdefit.fit, pdefit.intervals
late = ("pdefit.lab", "pdefit.analysis", "pdefit.conformance", "pdefit.inverse.members")
assert not [m for m in sys.modules if m.startswith(late)], "loaded"
assert not {"hydra", "omegaconf", "pandas", "xarray", "h5py", "matplotlib"} & set(sys.modules), "loaded"
assert callable(pdefit.load_run) and "pandas" in sys.modules
assert not jax.config.read("jax_enable_x64")
assert {k: v for k, v in os.environ.items() if k in before} == before
"""


def test_importing_changes_no_global_state():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _IMPORTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_is_in_one_place():
    top = set(dir(pdefit))
    assert set(NAMESPACES) <= top
    for name in NAMESPACES:
        inside = {n for n in dir(getattr(pdefit, name)) if n[:1].isupper()}
        assert inside and not inside & top


def _exported() -> Iterator[tuple[str, type | object]]:
    for name in dir(pdefit):
        # the typing hook of the tests puts its own modules beside the names
        if not inspect.ismodule(found := getattr(pdefit, name)):
            yield name, found
    for name in NAMESPACES:
        space = getattr(pdefit, name)
        yield from ((f"{name}.{n}", getattr(space, n)) for n in dir(space) if n[:1].isupper())
    # functions, some with the name of the analysis whose result they draw
    yield from ((f"plot.{n}", f) for n, f in inspect.getmembers(pdefit.plot, inspect.isfunction))


def _unexplained(found: type | object) -> list[str]:
    """Arguments that are not in the list of a docstring. A base's docstring does not count as that of a class."""
    doc = found.__doc__ if isinstance(found, type) else inspect.getdoc(found)
    # items of the list begin with one name or several: `x`, `v`: positions and velocities
    lines = inspect.cleandoc(doc or "").partition("**Arguments:**")[2].splitlines()
    listed = " ".join(line.partition(": ")[0] for line in lines if line.startswith("- `"))
    # what an exception takes is Python's own
    arguments = [] if isinstance(found, type) and issubclass(found, Exception) else inspect.signature(found).parameters
    return [name for name in arguments if f"`{name}`" not in listed]


def test_every_argument_of_every_name_is_explained():
    unexplained = {name: _unexplained(found) for name, found in _exported()}
    assert len(unexplained) > 100
    missing = [f"{name}: {', '.join(arguments)}" for name, arguments in unexplained.items() if arguments]
    assert not missing, "\n".join(missing)


def test_an_argument_that_is_not_explained_is_found():
    def half(x: float, y: float) -> None:
        """A function.

        **Arguments:**

        - `x`: one, beside `y`.
        """

    assert _unexplained(half) == ["y"]


def test_the_listed_names_are_those_that_are_imported():
    """The list is read as text, so a line in another form would be lost."""
    lines = [node for node in ast.parse(inspect.getsource(_public)).body if isinstance(node, ast.ImportFrom)]
    imported = {name.asname for node in lines for name in node.names}
    others = {"Experiment", "Run", "load_experiment", "load_members", "load_run", "read_observations"}
    assert set(dir(pdefit)) == imported | others


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pdefit.Nothing


def test_single_precision_is_refused_with_the_remedy():
    system = fisher()
    y0 = system.init(None)
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(pdefit.PdefitError, match="jax_enable_x64"):
            pdefit.simulate(system, y0, np.linspace(0.0, 1.0, 3))
    finally:
        jax.config.update("jax_enable_x64", True)


_KINDS = "adjoints drivers formulations guesses instruments optimizers priors regularizers solvers stopping transforms"
CHOICES = {
    name: found
    for name, found in _exported()
    if name.split(".")[0] in _KINDS.split() and ".Abstract" not in name and "." in name
}


def test_a_choice_says_when_to_take_it_and_when_not():
    """Directly below its first line."""
    assert len(CHOICES) >= 40
    second = {name: inspect.getdoc(found).split("\n\n")[1].split() for name, found in CHOICES.items()}
    assert [name for name, words in second.items() if words[0] != "For" or "Not" not in words] == []
