import diffrax
import optax
import pdefit_reaction
import pytest

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config.instantiate import instantiate, resolve


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("pdefit.RK4", pdefit.RK4),
        ("optax.adam", optax.adam),
        ("diffrax.Dopri8", diffrax.Dopri8),
        ("pdefit_reaction.FisherKPP", pdefit_reaction.FisherKPP),
    ],
)
def test_what_the_libraries_export_is_allowed(target, expected):
    assert resolve(target) is expected


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "numpy.load",
        "subprocess.run",
        "pdefit.os.system",
        "pdefit.jax.jit",
        "optax.jax.jit",
        "diffrax._integrate.jax._src.config.os.getcwd",
        "diffrax._integrate.diffeqsolve",
        "pdefit.RK4.__init__",
        "pdefit.RK4.order",
        "pdefit.cli.main._report",
        "pdefit.cli.main.Console",
        "pdefit.cli.runtime.run_directory.subprocess.run",
        "pdefit_reaction.pdefit.RK4",
        "pdefit._util.errors",
        "pdefit",
        "pdefit.",
        ".pdefit.RK4",
        "",
        None,
        3,
    ],
)
def test_everything_else_is_refused(target):
    with pytest.raises(PdefitError, match="not allowed|No _target_"):
        resolve(target, "solver")


@pytest.mark.parametrize(
    "target", ["pdefit.cli.main.main", "pdefit._util.atomic.write_text", "pdefit.cli.config.instantiate.build"]
)
def test_what_pdefit_does_not_export_is_refused(target):
    """The inner functions of the application are no vocabulary of a configuration."""
    with pytest.raises(PdefitError):
        resolve(target, "solver")


def test_a_configuration_cannot_overwrite_a_file(tmp_path):
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(PdefitError):
        instantiate({"_target_": "pdefit.output.store.growing.create", "path": str(tmp_path / "thesis.txt")}, "solver")
    assert (tmp_path / "thesis.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"_target_": "pdefit.RK5"}, "did you mean RKC or RK4"),
        ({"_target_": "pdefit.Adam", "learning_rat": 0.1}, "did you mean learning_rate"),
        ({"_target_": "pdefit.Segments", "length": "???"}, "length is missing"),
        ({"_target_": "pdefit.Segments"}, "length"),
        ({"_target_": "pdefit.Perturb", "low": 3.0, "high": 1.0}, "low <= high"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_place(node, words):
    with pytest.raises(PdefitError) as error:
        instantiate({"inner": node}, "outer")
    assert words in str(error.value) and "outer.inner" in str(error.value) and "\n" not in str(error.value)


def test_nested_targets_are_built_innermost_first():
    node = {
        "_target_": "pdefit_reaction.FisherKPP",
        "grid": {
            "_target_": "pdefit.CartesianGrid",
            "shape": [8],
            "extent": [4.0],
            "origin": [0.0],
            "length_unit": "mm",
        },
        "D": 2.0,
        "r": 1.0,
    }
    system = instantiate([node], "systems")[0]
    assert isinstance(system, pdefit_reaction.FisherKPP) and isinstance(system.grid, pdefit.CartesianGrid)
    assert system.grid.spacing == (0.5,) and float(system.D) == 2.0


def test_what_has_no_target_stays_what_it_is():
    assert instantiate({"a": [1, {"b": "text"}], "c": None}, "x") == {"a": [1, {"b": "text"}], "c": None}
