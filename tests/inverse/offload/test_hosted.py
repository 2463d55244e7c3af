"""The hosted driver gives the traced one's answers: values, gradients, products, iterates, through every tier."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import central_difference, fisher_functional, positions_functional

import pdefit
from pdefit._util.trees import cast
from pdefit.inverse.offload.hosted import HostedFunctional, OffloadedRun
from pdefit.inverse.offload.planner import Chunking, choose_schedule
from pdefit.inverse.offload.schedule import StorageTier
from pdefit.inverse.offload.stores import HostStore, InMemory
from pdefit.inverse.offload.time_chunks import TimeChunks
from pdefit.output.store.adjoint_scratch import CheckpointFile

FIELD = {"D": pdefit.transforms.Log(), "y0": {"u": pdefit.Control(smoothing=2.0)}}
MAKERS = {
    "front": lambda: fisher_functional(noise=0.01),
    "irregular": lambda: fisher_functional(noise=0.01, times=[0.0, 0.3, 0.5, 1.7, 2.0]),
    "field": lambda: fisher_functional(FIELD, noise=0.02, count=5),
    "single precision": lambda: cast(fisher_functional(), jnp.float32),
    "nodes": lambda: positions_functional(noise=np.random.default_rng(0)),
}
PIECES = {"three intervals": (3, None), "part of an interval": (1, 4), "step": (1, 1)}


def hosted(functional, group, length, slots, path=None):
    """A functional cut in a given way, with this many checkpoints; in a file at `path`, if there is one."""
    grid = functional.layout.time_grid
    cut = Chunking(group, length or grid.length)
    tiers = {StorageTier.HOST: slots} if path is None else {StorageTier.FILE: slots}
    schedule = choose_schedule(cut.count(grid.intervals, grid.length), tiers)

    def route(like):
        leaves = jax.tree.leaves(like)
        store = HostStore() if path is None else CheckpointFile(path, leaves, slots)
        pieces = TimeChunks(functional.schedule, cut, InMemory(functional.observations))
        return OffloadedRun(pieces, pdefit.adjoints.Checkpointed(2), schedule, {next(iter(tiers)): store})

    return HostedFunctional(functional, route)


def relative(found, expected):
    return float(jnp.max(jnp.abs(found - expected)) / jnp.max(jnp.abs(expected)))


@pytest.mark.parametrize(
    ("name", "piece"),
    [("front", piece) for piece in PIECES]
    + [(name, "three intervals") for name in ("irregular", "field", "single precision", "nodes")],
)
def test_answers_are_those_of_the_traced_driver(name, piece):
    functional = MAKERS[name]()
    theta = functional.theta0
    single = name == "single precision"
    tolerance = 1e-5 if single else 1e-13
    value, gradient, growth = eqx.filter_jit(pdefit.Functional.watched_gradient)(functional, theta)
    for slots in (2, 1000) if piece == "three intervals" else (2,):
        other = hosted(functional, *PIECES[piece], slots)
        found = other.watched_gradient(theta)
        assert relative(found[0], value) <= tolerance
        assert relative(found[1], gradient) <= tolerance
        np.testing.assert_allclose(found[2], growth, rtol=1e-5 if single else 1e-10)
        assert relative(other.value(theta), value) <= tolerance


def test_products_are_those_of_the_traced_driver():
    functional = MAKERS["nodes"]()
    theta = functional.theta0
    v = jax.random.normal(jax.random.key(1), theta.shape)
    other = hosted(functional, 3, None, 2)
    product = eqx.filter_jit(pdefit.Functional.gauss_newton_product)(functional, theta, v)
    assert relative(other.gauss_newton_product(theta, v), product) <= 1e-12
    expected = eqx.filter_jit(pdefit.Functional.normal_equations)(functional, theta)
    for found, wanted in zip(other.normal_equations(theta), expected, strict=True):
        assert relative(found, wanted) <= 1e-12


@pytest.mark.parametrize("tier", ["host", "file"])
def test_the_taylor_remainder_through_each_tier(tier, tmp_path):
    functional = MAKERS["field"]()
    theta = functional.theta0 + 0.01
    v = jax.random.normal(jax.random.key(2), theta.shape)
    other = hosted(functional, 1, 4, 3, tmp_path / "checkpoints.h5" if tier == "file" else None)
    slope = float(jnp.vdot(other.value_and_grad(theta)[1], v))
    steps = [4e-3, 2e-3, 1e-3]
    errors = [
        abs(float(other.value(theta + e * v) - other.value(theta - e * v)) / (2 * e) - slope) / abs(slope)
        for e in steps
    ]
    rates = np.log2(np.asarray(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(rates, 2.0, atol=0.05)
    assert central_difference(functional, theta, v, 2e-4) == pytest.approx(slope, rel=1e-8)
    other.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "optimizer",
    [pdefit.optimizers.LBFGS(), pdefit.optimizers.LevenbergMarquardt(), pdefit.optimizers.GaussNewtonCG()],
    ids=lambda o: type(o).__name__,
)
def test_the_same_iterates(optimizer):
    functional = MAKERS["front"]()
    thetas = []
    for driver in (pdefit.drivers.Traced(), pdefit.drivers.Hosted(device=40_000, host=3000)):
        found = pdefit.fit(functional, [optimizer], max_iterations=6, driver=driver)
        thetas.append(np.stack([r.theta for r in found.history]))
    assert thetas[0].shape == thetas[1].shape
    # round-off grows along the iterates of quasi-Newton methods
    np.testing.assert_allclose(thetas[1], thetas[0], rtol=1e-8, atol=1e-9)


def test_a_state_goes_on_with_the_other_driver():
    """What was begun on one machine ends on another that has less memory."""
    functional, states = MAKERS["front"](), []
    whole = pdefit.fit(
        functional, [pdefit.optimizers.LBFGS()], max_iterations=9, callback=lambda p: states.append(p.state())
    )
    driver = pdefit.drivers.Hosted(device=40_000, host=3000)
    found = pdefit.fit(functional, [pdefit.optimizers.LBFGS()], max_iterations=9, resume=states[0], driver=driver)
    np.testing.assert_allclose(found.theta, whole.theta, rtol=1e-8)


def test_budgets_that_cannot_be_kept():
    functional = MAKERS["front"]()
    with pytest.raises(pdefit.PdefitError, match=r"Differentiating one step takes .* more than driver.device = 2 kB"):
        pdefit.fit(functional, [pdefit.optimizers.LBFGS()], driver=pdefit.drivers.Hosted(device="2 kB"))
    with pytest.raises(pdefit.PdefitError, match="open_file"):
        pdefit.fit(
            functional, [pdefit.optimizers.LBFGS()], driver=pdefit.drivers.Hosted(device="40 kB", host=0, file="4 kB")
        )
    with pytest.raises(
        pdefit.PdefitError, match=r"at least .* driver.memory = 2 kB; set it higher, or use driver=hosted"
    ):
        pdefit.drivers.Traced("2 kB").resolve_for(functional)


def test_a_budget_chooses_the_levels():
    functional = fisher_functional(count=33, dt=0.02)
    found = [
        pdefit.drivers.Traced(memory).resolve_for(functional).runner.adjoint.levels
        for memory in (1.2e6, 90_000, 25_000)
    ]
    assert found == sorted(found) and found[0] == 1 and found[-1] >= 3
