import diffrax
import optax
import pdefit_cardiac
import pdefit_particles
import pdefit_reaction
import pytest

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.cli.config._reader import make
from pdefit.cli.config._registry import lookup, names, resolve


@pytest.mark.parametrize(
    ("name", "base", "expected"),
    [
        ("rk4", diffrax.AbstractSolver, pdefit.solvers.RK4),
        ("kvaerno5", diffrax.AbstractSolver, diffrax.Kvaerno5),
        ("backsolve", pdefit.adjoints.AbstractReverse, pdefit.adjoints.Backsolve),
        ("gauss_newton_cg", pdefit.optimizers.AbstractOptimizer, pdefit.optimizers.GaussNewtonCG),
        ("adam", pdefit.optimizers.AbstractOptimizer, pdefit.optimizers.Adam),
        ("adam", optax.GradientTransformation, optax.adam),
        ("all", pdefit.instruments.AbstractObservationOperator, pdefit.instruments.ObserveAll),
        ("reaction/fisher_kpp", pdefit.AbstractSystem, pdefit_reaction.FisherKPP),
        ("reaction/one_sided_source", pdefit.AbstractSystem, pdefit_reaction.one_sided_source),
        ("particles/gravity", pdefit.AbstractSystem, pdefit_particles.Gravity),
        ("cardiac/rest", pdefit.AbstractPreparation, pdefit_cardiac.Rest),
    ],
)
def test_names_of_the_core_and_of_plugins(name, base, expected):
    assert lookup(name, base, "x") is expected


def test_a_place_takes_names_of_its_own_kind():
    assert "checkpointed" in names(pdefit.adjoints.AbstractAdjoint) and "rk4" not in names(
        pdefit.adjoints.AbstractAdjoint
    )
    with pytest.raises(
        PdefitError, match="adjoint expects the name of a kind of adjoint, but 'rk4' is a kind of solver"
    ):
        lookup("rk4", pdefit.adjoints.AbstractAdjoint, "adjoint")
    with pytest.raises(PdefitError, match=r"No adjoint \(adjoint\) is called 'chekpointed'; did you mean checkpointed"):
        lookup("chekpointed", pdefit.adjoints.AbstractAdjoint, "adjoint")


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
        "pdefit.solvers.RK4",
        "pdefit.solvers.RK4.__init__",
        "pdefit.solvers.RK4.order",
        "pdefit.simulate",
        "pdefit.cli.main._report",
        "pdefit.cli.main.Console",
        "pdefit.cli.main.main",
        "pdefit._util.atomic.write_text",
        "pdefit.cli.config._reader.build",
        "pdefit.output.store._surviving.created",
        "pdefit.cli.runtime.run_directory.subprocess.run",
        "pdefit_reaction.pdefit.RK4",
        "pdefit_reaction.SYSTEMS",
        "pdefit_reaction.fisher_kpp",
        "pdefit_reaction.fisher_kpp.FisherKPP",
        "pdefit_reaction.FisherKPP.init",
        "pdefit_reaction.__builtins__",
        "pdefit._util.errors",
        "pdefit",
        "pdefit.",
        ".pdefit.RK4",
        "",
        None,
        3,
    ],
)
def test_a_target_is_a_class_that_a_plugin_exports(target):
    assert resolve("pdefit_reaction.FisherKPP", "system") is pdefit_reaction.FisherKPP
    with pytest.raises(PdefitError, match="not allowed|No _target_|as in pdefit 0.1"):
        resolve(target, "solver")


@pytest.mark.parametrize(
    ("node", "base", "words"),
    [
        ({"name": "rk5"}, diffrax.AbstractSolver, "did you mean rk"),
        ({"name": "adam", "learning_rat": 0.1}, pdefit.optimizers.AbstractOptimizer, "did you mean learning_rate"),
        ({"name": "segments", "length": "???"}, pdefit.formulations.AbstractFormulation, "length is missing"),
        ({"name": "segments"}, pdefit.formulations.AbstractFormulation, "length"),
        ({"name": "perturb", "low": 3.0, "high": 1.0}, pdefit.guesses.AbstractGuess, "low <= high"),
        ({"name": "rk4", "_target_": "pdefit_cardiac.Rest"}, diffrax.AbstractSolver, "keep one of them"),
        ({"_target_": "pdefit_cardiac.Rest"}, diffrax.AbstractSolver, "expects a kind of solver"),
        ({"_target_": "pdefit.solvers.RK4"}, diffrax.AbstractSolver, "write outer.inner={name: rk4, ...} in its place"),
        ({}, diffrax.AbstractSolver, "expects the name of a kind of solver"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_place(node, base, words):
    with pytest.raises(PdefitError) as error:
        make(node, "outer.inner", base)
    assert words in str(error.value) and "outer.inner" in str(error.value) and "\n" not in str(error.value)


def test_objects_inside_objects():
    """A grid's class is said by its place, a boundary's and a field's by their names."""
    node = {
        "name": "cardiac/aliev_panfilov",
        "grid": {"shape": [8, 4], "extent": [4.0, 2.0], "boundary": [{"name": "periodic"}, {"name": "no_flux"}]},
        **pdefit_cardiac.ALIEV_PANFILOV,
        "D": {"name": "cardiac/patches", "background": 1e-3, "boxes": [[[0, 1], [0, 1]]], "values": 2e-3},
    }
    system = make(node, "system", pdefit.AbstractSystem)
    assert system.grid.spacing == (0.5, 0.5) and system.grid.boundary == (
        pdefit.boundaries.Periodic(),
        pdefit.boundaries.NoFlux(),
    )
    assert float(system.D.max()) == 2e-3
    optimizer = {"name": "optax", "transformation": {"name": "lion", "learning_rate": 1e-3}}
    assert isinstance(make(optimizer, "x", pdefit.optimizers.AbstractOptimizer), pdefit.optimizers.Optax)
    seen = {"name": "compose", "operators": [{"name": "select", "fields": ["u"]}, {"name": "subsample", "stride": [2]}]}
    assert len(make(seen, "observe", pdefit.instruments.AbstractObservationOperator).operators) == 2
