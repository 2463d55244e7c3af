"""The certificate passes what is right, and stops every bug planted here."""

import math
from typing import ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gradient_faults import wrong_transpose
from jaxtyping import Array
from pdefit_reaction import FisherKPP
from pdefit_reaction.fisher_kpp import State
from problems import GRID, VALUE, fisher, fisher_functional, planets_functional

import pdefit
from pdefit._util.trees import cast
from pdefit.inverse.certify import _certified as subject
from pdefit.inverse.certify import _residual_checks as residual_checks
from pdefit.inverse.certify._by_jacobian import ByJacobian
from pdefit.inverse.certify._sketch import signs
from pdefit.inverse.fit import traced
from pdefit.inverse.objective import compiled
from pdefit.inverse.objective.fingerprint import fingerprint
from pdefit.inverse.objective.normal_equations import SegmentNormalEquations

WHOLE = 1e4  # forward solves: enough for every check on the whole problem
ALL = "all controls"
GRADIENT_CHECK = "gradient against tangents"
NODES = {"gm": pdefit.transforms.Log(), "nodes": {"velocity": pdefit.transforms.Identity()}}


def failed(certificate):
    return [check.name for check in certificate.checks if not check.passed]


class Wrapped(pdefit.adjoints.AbstractReverse):
    """The checkpointed adjoint with a fault in its reverse pass."""

    accuracy: ClassVar[float] = 1e-8
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        return self.spoiled(*pdefit.adjoints.Checkpointed().run(stepper, y0, grid, emit, inputs))

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        return pdefit.adjoints.Checkpointed().account(grid, unknowns)


class DropsLast(Wrapped):
    def spoiled(self, y, outputs):
        drop = wrong_transpose(lambda ct: jax.tree.map(lambda c: c.at[-1].set(0), ct))
        return y, drop(outputs)


class OffByOne(Wrapped):
    """Restores the checkpoint before the one it needs."""

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        def interval(stepper, y, start, step):
            for j in range(grid.length):
                y, _ = stepper(start + j * step, step, (y, None))
            return y

        @eqx.filter_custom_vjp
        def restored(moving, before, start, step):
            return interval(*moving, start, step)

        def backward(before, cotangent, perturbed, moving, before_again, start, step):
            _, pull = eqx.filter_vjp(lambda m: interval(*m, start, step), (moving[0], before))
            return pull(cotangent)[0]

        restored.def_fwd(lambda perturbed, moving, before, start, step: (interval(*moving, start, step), before))
        restored.def_bwd(backward)
        before, y, outputs = y0, y0, [emit(y0, jax.tree.map(lambda x: x[0], inputs))]
        for i in range(grid.start.size):
            start, step = (jnp.asarray(x[i]) for x in (grid.start, grid.step))
            before, y = y, restored((stepper, y), jax.lax.stop_gradient(before), start, step)
            outputs.append(emit(y, jax.tree.map(lambda x, i=i: x[i + 1], inputs)))
        return y, jax.tree.map(lambda *x: jnp.stack(x), *outputs)


class WrongNode(pdefit.formulations.Segments):
    """The gradient of one node state has the wrong sign."""

    def starts(self, y0, nodes):
        return wrong_transpose(lambda ct: jax.tree.map(lambda c: c.at[2].multiply(-1.0, unique_indices=True), ct))(
            nodes
        )


class Planted(FisherKPP):
    """A front with defects that are data, so that all of them run in the same programs.

    **Arguments:** `until`, when the derivative with respect to D is lost; `above`, a density below which nothing grows: a
    hard switch that moves with the front; `weight`, how much r has to say.
    """

    until: jax.Array = pdefit.constant(default=math.inf)
    above: jax.Array = pdefit.constant(default=-1.0)
    weight: jax.Array = pdefit.constant(default=1.0)

    def vector_field(self, t, y, args):
        D = jnp.where(t < self.until, self.D, jax.lax.stop_gradient(self.D))
        r = self.weight * self.r + (1 - self.weight) * 1.5
        return State(pdefit.diffuse(self.grid, D, y.u) + jnp.where(y.u > self.above, r * y.u * (1 - y.u), 0.0))


def front(cls=Planted, noise=0.0, **defects):
    """D and r of another system than the one that made the data."""
    y0, ts, steps = fisher().init(None), np.linspace(0.0, 4.0, 9), {"dt": 0.05, "solver": diffrax.Euler()}
    data = pdefit.add_noise(pdefit.simulate(fisher(), y0, ts, **steps), noise, jax.random.key(1))
    problem = pdefit.Problem(cls(grid=GRID, D=jnp.asarray(0.6), r=jnp.asarray(1.5), front=-5.0, **defects), y0)
    return pdefit.Functional(problem, data, {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}, **steps)


def perfect(functional):
    """The point that the data were made at, where J is zero but for round-off."""
    theta = functional.controls.theta(pdefit.Problem(fisher(), functional.problem.y0))
    assert VALUE(functional, theta) < 1e-28
    return theta


@pytest.mark.parametrize(
    "make",
    [
        front,
        lambda: fisher_functional(
            {"D": pdefit.transforms.Log(), "y0": {"u": pdefit.Control(smoothing=2.0)}},
            noise=0.02,
            adjoint=pdefit.adjoints.StoreAll(),
            times=[0.0, 0.3, 0.5, 1.7, 2.0],
        ),
        lambda: planets_functional(NODES),
    ],
    ids=["front", "irregular field", "nodes"],
)
def test_right_gradients_pass(make):
    functional = make()
    found = pdefit.certify(functional, functional.theta0, fit_cost=WHOLE)
    assert found.passed, found.reason
    compared = [check for check in found.checks if "finding" in check.detail]
    assert len(compared) >= 2 and all(check.detail["finding"] == "right" for check in compared)
    assert max(check.error for check in compared) < 1e-7 and min(len(check.detail["steps"]) for check in compared) >= 9


@pytest.mark.parametrize(("seed", "below"), [(13, 1e-3), (15, 5e-4)])
def test_steps_at_which_the_model_blows_up_are_no_switch(seed, below):
    """Densities below zero fall without bounds: at the largest finite step to 1e75 and more."""
    functional = fisher_functional({"y0": {"u": pdefit.transforms.Identity()}})
    theta, given = functional.theta0 - below, {"optimizers": [pdefit.optimizers.GaussNewtonCG()]}
    found = pdefit.certify(functional, theta, key=jax.random.key(seed), **given)
    assert found.passed, found.reason
    steps, errors = (found.checks[0].detail[name] for name in ("steps", "errors"))
    assert len(steps) >= 9 and steps[0] < 2**-4 and max(errors) < 1e4


@pytest.mark.parametrize(
    ("fault", "times"),
    [(DropsLast(), None), (OffByOne(), [0.0, 0.1, 0.2])],
    ids=["last cotangent dropped", "checkpoint off by one"],
)
def test_a_wrong_adjoint_is_caught(fault, times):
    functional, right = (fisher_functional(times=times, **options) for options in ({"adjoint": fault}, {}))
    found = pdefit.certify(functional, functional.theta0, fit_cost=WHOLE)
    assert {"D: gradient against differences", f"{ALL}: gradient against differences"} <= set(failed(found))
    assert np.isclose(VALUE(functional, functional.theta0), VALUE(right, right.theta0)), (
        "the value must not depend on it"
    )


def test_a_wrong_adjoint_is_caught_at_a_perfect_fit():
    functional = fisher_functional(adjoint=DropsLast())
    assert not pdefit.certify(functional, perfect(functional), fit_cost=WHOLE).passed


def test_a_lost_derivative_is_caught():
    functional = front(until=0.0)
    found = pdefit.certify(functional, functional.theta0, fit_cost=WHOLE)
    assert {"D: tangent against differences", "controls without influence"} <= set(failed(found))
    assert "r: tangent against differences" not in failed(found)


@pytest.mark.parametrize("seed", range(3))
def test_a_hard_switch_is_caught(seed):
    functional = front(above=0.3)
    found = pdefit.certify(functional, functional.theta0, fit_cost=WHOLE, key=jax.random.key(seed))
    assert {"D: tangent against differences", "r: tangent against differences"} <= set(failed(found))


def test_a_sign_error_in_one_node_is_caught():
    functional = planets_functional(NODES)
    theta = functional.theta0
    spoiled = eqx.tree_at(lambda f: f.formulation, functional, WrongNode(1.5))
    found = pdefit.certify(spoiled, theta, fit_cost=WHOLE)
    assert "nodes.velocity: gradient against differences" in failed(found)


def test_a_perfect_fit_passes():
    functional = front()
    found = pdefit.certify(functional, perfect(functional), fit_cost=WHOLE)
    assert found.passed, found.reason


def test_a_float32_run_is_certified_on_its_twin():
    functional = cast(front(noise=0.02), jnp.float32)
    found = pdefit.certify(functional, functional.theta0, fit_cost=WHOLE)
    assert found.passed, found.reason
    (single,) = [c for c in found.checks if "float32" in c.name]
    assert 1e-9 < single.error < 1e-4


def test_float32_passes_where_the_terms_of_a_gradient_cancel():
    """The random errors that the certificate adds lead to a perfect fit, where the gradient vanishes but for round-off."""
    functional = front()
    theta, (values, sigma) = perfect(functional), (functional.observations.values, functional.observations.sigma)
    drawn = signs(functional)
    moved = {n: jnp.asarray(values[n] - np.asarray(drawn[n]) * np.asarray(sigma[n])) for n in values}
    single = cast(eqx.tree_at(lambda f: f.observations.values, functional, moved), jnp.float32)
    found = pdefit.certify(single, theta, optimizers=[pdefit.optimizers.LevenbergMarquardt()])
    assert found.passed, found.reason
    (check,) = [c for c in found.checks if "float32" in c.name]
    assert 1e-9 < check.error < 1e-4


def test_the_cost_is_capped_and_recorded(monkeypatch):
    functional = front()
    assert pdefit.certify(functional, functional.theta0).scope["observations"] == 9, "a small problem, tested whole"
    monkeypatch.setattr(subject, "UPDATES", 0.0)
    found = pdefit.certify(functional, functional.theta0)
    assert found.passed
    assert found.scope["observations"] < found.scope["of"] == 9
    assert pdefit.certify(functional, functional.theta0, fit_cost=WHOLE).scope["observations"] == 9


def test_what_lies_beyond_the_scope_is_tested_along_a_random_direction(monkeypatch):
    monkeypatch.setattr(subject, "UPDATES", 0.0)
    functional = front(until=2.0)
    found = pdefit.certify(functional, functional.theta0)
    assert found.scope["observations"] < 5, "each control is tested before anything is lost"
    assert failed(found) == [f"{ALL}: tangent against differences"]
    assert "stop_gradient" in found.reason and "switch" in found.reason


@jax.custom_jvp
def weakly(x):
    return 1e-3 * x


@weakly.defjvp
def _(primals, tangents):
    return weakly(*primals), 1.001e-3 * tangents[0]


class Leaking(pdefit.AbstractSystem):
    """Decay, and a weak source whose derivative is off by a thousandth."""

    time_unit: ClassVar[str] = "s"
    rate: Array = pdefit.parameter(unit="1/s", positive=True, doc="rate of decay")
    source: Array = pdefit.parameter(unit="1/s", positive=True, doc="source")

    def init(self, key):
        return Amount(jnp.ones(1))

    def vector_field(self, t, y, args):
        return Amount(-self.rate * y.amount + weakly(self.source))


class Amount(NamedTuple):
    amount: Array


def test_a_weak_control_weighs_as_much_as_a_strong_one(monkeypatch):
    monkeypatch.setattr(subject, "UPDATES", 0.0)
    problem = pdefit.Problem(Leaking(jnp.asarray(1.0), jnp.asarray(1.0)), Amount(jnp.ones(1)))
    ts = np.linspace(0.0, 1.0, 9)
    data = pdefit.Observations.build(ts, {"amount": np.exp(-1.1 * ts)[:, None]})
    controls = {"rate": pdefit.transforms.Log(), "source": pdefit.transforms.Log()}
    functional = pdefit.Functional(problem, data, controls, solver=pdefit.solvers.RK4(), dt=0.125)
    found = pdefit.certify(functional, functional.theta0, optimizers=[pdefit.optimizers.LevenbergMarquardt()])
    assert found.scope["together"] and found.scope["observations"] < 9
    # together they fail, and then one by one, which names the one that is wrong
    assert failed(found) == [f"{ALL}: tangent against differences", "source: tangent against differences"]


def test_a_sign_in_the_gradient_of_long_records_is_caught(monkeypatch):
    right = traced.GRADIENT

    def wrong(_, functional, theta):
        value, gradient, growth = right(functional, theta)
        return value, gradient.at[0].multiply(-1.0 if functional.observations.ts.size > 6 else 1.0), growth

    monkeypatch.setattr(traced.Traced, "watched_gradient", wrong)
    functional = front()
    assert failed(pdefit.certify(functional, functional.theta0, optimizers=[pdefit.optimizers.LBFGS()])) == [
        GRADIENT_CHECK
    ]


def test_a_sign_in_the_products_is_caught(monkeypatch):
    right = traced.PRODUCT
    monkeypatch.setattr(traced, "PRODUCT", lambda *asked: right(*asked).at[0].multiply(-1.0))
    functional = front()
    found = pdefit.certify(functional, functional.theta0, optimizers=[pdefit.optimizers.GaussNewtonCG()])
    assert failed(found) == ["Gauss-Newton products against tangents"]


def test_a_lost_segment_of_the_normal_equations_is_caught(monkeypatch):
    right = SegmentNormalEquations.total

    def wrong(self):
        return right(self._replace(gradient=self.gradient.at[1].set(0.0), matrix=self.matrix.at[1].set(0.0)))

    monkeypatch.setattr(SegmentNormalEquations, "total", wrong)
    # compiled anew, with the fault
    monkeypatch.setattr(compiled, "EQUATIONS", eqx.filter_jit(lambda f, x: (g := f.held_equations(x), g.total())))
    functional = planets_functional(NODES)
    found = pdefit.certify(functional, functional.theta0, optimizers=[pdefit.optimizers.LevenbergMarquardt()])
    assert failed(found) == [f"Gauss-Newton {GRADIENT_CHECK}", "Gauss-Newton matrix against tangents"]


def test_the_equations_of_a_fit_are_tested_by_one_tangent_and_four_differences(monkeypatch):
    functional, given = front(noise=0.02), {"optimizers": [pdefit.optimizers.LevenbergMarquardt()]}
    value, gradient, matrix = pdefit.drivers.Traced().normal_equations(functional, functional.theta0)
    runs = []

    def counted(module, name, cost):
        right = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *asked: runs.append(cost) or right(*asked))

    # a long record of many values, of which controls are tested together
    monkeypatch.setattr(subject, "UPDATES", 0.0)
    counted(ByJacobian, "at", 1)
    counted(ByJacobian, "push", 2)
    counted(pdefit.drivers.Traced, "normal_equations", math.inf)
    found = pdefit.certify(functional, functional.theta0, equations=(value, gradient, matrix), **given)
    assert found.passed and sum(runs) <= 12, found.reason
    wrong = value, gradient.at[0].add(1e-6 * jnp.sqrt(matrix[0, 0])), matrix.at[0, 1].multiply(1 + 1e-6)
    found = pdefit.certify(functional, functional.theta0, equations=wrong, **given)
    assert failed(found) == [f"Gauss-Newton {GRADIENT_CHECK}", "Gauss-Newton matrix against tangents"]


def test_a_control_alone_is_compared_with_differences_once(monkeypatch):
    compared, right = [], residual_checks.differences
    monkeypatch.setattr(residual_checks, "differences", lambda *asked: compared.append(asked) or right(*asked))
    functional = fisher_functional(controls={"D": pdefit.transforms.Log()})
    found = pdefit.certify(functional, functional.theta0, optimizers=[pdefit.optimizers.LBFGS()])
    assert found.passed and len(compared) == 1
    names = [check.name for check in found.checks]
    assert "D: tangent against differences" in names and "D: gradient against tangent" in names


def test_a_control_without_influence_is_named():
    functional = front(weight=0.0)
    found = pdefit.certify(functional, functional.theta0)
    assert failed(found) == ["controls without influence"]
    assert "say nothing about r" in found.reason


def test_fingerprints_tell_equations_from_data_from_flags():
    class Halved(Planted):
        def vector_field(self, t, y, args):
            return State(super().vector_field(t, y, args).u / 2)

    base = front()
    of = {
        name: fingerprint(f)
        for name, f in {
            "base": base,
            "same": front(),
            "data": front(noise=0.02),
            "dtype": cast(base, jnp.float32),
            "other": front(Halved),
        }.items()
    }
    assert of["base"] == of["same"]
    assert of["data"]["equations"] == of["base"]["equations"] and of["data"]["data"] != of["base"]["data"]
    assert of["other"]["equations"] != of["base"]["equations"] and of["other"]["data"] == of["base"]["data"]
    assert of["dtype"]["flags"] != of["base"]["flags"]
    elsewhere = base.reformulated(pdefit.formulations.Single(), base.theta0 + 1)
    assert fingerprint(elsewhere) == of["base"], "the point where a fit stands is not part of its problem"


class Height(NamedTuple):
    x: Array


class Cooling(pdefit.AbstractSystem):
    """x' = b - a x, with values near 30."""

    time_unit: ClassVar[str] = "s"
    a: Array = pdefit.parameter()
    b: Array = pdefit.parameter()

    def vector_field(self, t, y, args):
        return Height(self.b - self.a * y.x)

    def init(self, key):
        return Height(jnp.linspace(30.0, 31.0, 40))


def test_a_sigma_near_round_off_is_no_fault():
    """Residuals of predictions near 30 in units of 1e-10 are known to 4e-5, and so is no gradient better than 1e-8."""
    system, ts = Cooling(a=0.1, b=0.2), np.linspace(0.0, 2.0, 21)
    data = pdefit.simulate(system, system.init(None), ts, dt=0.05)
    data = data.with_sigma({"x": np.full_like(data.sigma["x"], 1e-10)})
    controls = dict.fromkeys("ab", pdefit.transforms.Identity())

    def certified(adjoint):
        functional = pdefit.Functional(
            pdefit.Problem(system, system.init(None)), data, controls, dt=0.05, adjoint=adjoint
        )
        return pdefit.certify(functional, functional.theta0)

    right = certified(pdefit.adjoints.Checkpointed())
    (check,) = [c for c in right.checks if c.name == GRADIENT_CHECK]
    assert right.passed and 1e-8 < check.error < check.limit <= 1e-5
    assert not certified(DropsLast()).passed
