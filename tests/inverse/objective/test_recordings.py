"""Many recordings in one objective: the sum of the single ones, whatever the batch, and what only their sum can tell."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_reaction import FisherKPP
from problems import GRID, planets, positions_functional
from small_systems import State

import pdefit
from pdefit.inverse.fit import traced
from pdefit.inverse.objective.compiled import GRADIENT
from pdefit.inverse.objective.recording_equations import ArrowEquations

BATCHES = [pdefit.batches.Vmap(), pdefit.batches.Loop(), pdefit.batches.Chunk(2)]
BELIEF = pdefit.priors.Normal(1.2, 0.1)
SHARED_D = {
    "D": pdefit.Control(pdefit.transforms.Log(), prior=BELIEF),
    "r": pdefit.Control(pdefit.transforms.Log(), scope="experiment"),
}


def recording(
    front=-5.0, r=1.0, count=5, stop=1.0, noise=0.01, guess=(0.7, 1.3), controls=None, nominal=-5.0, **options
):
    """A front that starts somewhere, of a growth rate of its own."""
    truth = FisherKPP(grid=GRID, D=jnp.asarray(1.0), r=jnp.asarray(r), front=front)
    y0, ts = truth.init(None), np.linspace(0.0, stop, count)
    data = pdefit.add_noise(
        pdefit.simulate(truth, y0, ts, dt=0.05, solver=diffrax.Euler()), noise, jax.random.key(int(10 * front) + 100)
    )
    start = FisherKPP(grid=GRID, D=jnp.asarray(guess[0]), r=jnp.asarray(guess[1]), front=nominal)
    controls = SHARED_D if controls is None else controls
    # one stage and one level: programs compile in a third of the time
    options = {"solver": diffrax.Euler(), "adjoint": pdefit.adjoints.StoreAll(), **options}
    return pdefit.Functional(pdefit.Problem(start, y0), data, controls, dt=0.05, **options)


def ragged():
    """Three recordings of different lengths, steps, sigma, guesses and holes."""
    one, two = recording(), recording(0.0, 1.2, count=7, stop=1.5, guess=(0.7, 1.4), nominal=0.0)
    data = two.observations
    sigma = jnp.linspace(0.01, 0.02, 7)[:, None] * jnp.ones((1, 64))
    holes = data.mask["u"].at[2].set(False).at[4, ::3].set(False)
    two = eqx.tree_at(lambda f: (f.observations.sigma["u"], f.observations.mask["u"]), two, (sigma, holes))
    return [one, two, recording(5.0, 0.8, guess=(0.7, 1.2))]


VALUE = eqx.filter_jit(lambda objective, theta: objective.value(theta))
ASKED = ("value_and_grad", "jvp", "gauss_newton_product", "normal_equations")


def dense(equations):
    """The same with the matrix as an array."""
    value, gradient, matrix = equations
    return value, gradient, matrix.dense() if isinstance(matrix, ArrowEquations) else matrix


@eqx.filter_jit
def ask(objective, theta, v, asked=ASKED):
    """Every answer, or some, in one compiled program."""
    with_v = ("jvp", "gauss_newton_product")
    answers = {n: getattr(objective, n)(theta, *([v] if n in with_v else [])) for n in asked}
    answers["normal_equations"] = dense(answers["normal_equations"])
    if asked != ASKED:
        return answers
    r, jac = objective.residuals_and_jacobian(theta)
    return answers | {"value": objective.value(theta), "residuals": objective.residuals(theta), "r": r, "jacobian": jac}


@pytest.fixture(scope="module")
def singles():
    """What the single functionals answer, without priors of shared controls but once."""
    functionals = ragged()
    joint = pdefit.Recordings(functionals)
    theta = joint.theta0 + jnp.asarray([0.1, -0.05, 0.02, 0.03])
    v = jnp.asarray([0.3, -1.0, 0.4, 0.7])
    parts = [ask(f, theta[c], v[c]) for f, c in zip(functionals, joint.columns, strict=True)]
    return functionals, theta, v, parts


def added(joint, parts, name):
    """The answers of single functionals, added where their theta lies."""
    p = joint.controls.size

    def total(*leaves):
        whole = np.zeros((p,) * leaves[0].ndim)
        for leaf, c in zip(leaves, joint.columns, strict=True):
            whole[np.ix_(*(c,) * leaf.ndim)] += leaf
        return whole

    return jax.tree.map(total, *(part[name] for part in parts))


def belief(theta, v):
    """What the prior of D adds to every answer, by hand."""
    x = jnp.exp(theta[0])
    r, slope = (x - 1.2) / 0.1, x / 0.1
    first = np.zeros(4)
    first[0] = 1.0
    matrix = np.outer(first, first) * slope**2
    return {
        "value_and_grad": (r**2 / 2, r * slope * first),
        "jvp": (r**2 / 2, r * slope * v[0]),
        "gauss_newton_product": matrix @ v,
        "normal_equations": (r**2 / 2, r * slope * first, matrix),
    }


@pytest.mark.parametrize("batch", BATCHES, ids=lambda b: type(b).__name__)
def test_every_answer_is_the_sum_of_the_single_ones_and_shared_priors_count_once(singles, batch):
    functionals, theta, v, parts = singles
    joint = pdefit.Recordings(functionals, batch=batch)
    # one after the other they differ from all at once in the loop alone, which two answers show
    asked = ASKED if batch == pdefit.batches.Vmap() else ("value_and_grad", "normal_equations")
    found, extra = ask(joint, theta, v, asked), belief(theta, v)
    for name in asked:
        # three singles hold the prior of D three times
        whole = jax.tree.map(lambda a, b: a - 2 * b, added(joint, parts, name), extra[name])
        for got, want in zip(jax.tree.leaves(found[name]), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11 * np.max(np.abs(want)), err_msg=name)
    if asked != ASKED:
        return
    value, gradient, matrix = found["normal_equations"]
    r, jac = found["residuals"], found["jacobian"]
    np.testing.assert_allclose(found["r"], r, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["value"], value, rtol=1e-12)
    np.testing.assert_allclose(jnp.sum(r**2) / 2, value, rtol=1e-12)
    np.testing.assert_allclose(jac.T @ r, gradient, rtol=1e-10)
    np.testing.assert_allclose(jac.T @ jac, matrix, rtol=1e-10, atol=1e-10 * np.max(matrix))
    assert jac.shape == (r.size, theta.size) and r.size == 3 * 7 * 64 + 1
    assert joint.observed_values == sum(f.observed_values for f in functionals)


def test_recordings_come_out_as_they_went_in(singles):
    functionals, theta, _, parts = singles
    joint = pdefit.Recordings(functionals)
    assert joint.controls.names() == ["D", "r[0]", "r[1]", "r[2]"]
    np.testing.assert_allclose(np.exp(joint.theta0), [0.7, 1.3, 1.4, 1.2])
    for (part, own), functional, answers in zip(joint.parts(theta), functionals, parts, strict=True):
        assert part.observations.ts.tolist() == functional.observations.ts.tolist()
        assert part.layout.time_grid.length == functional.layout.time_grid.length and part.dt == functional.dt
        np.testing.assert_allclose(VALUE(part, own), answers["value"], rtol=1e-13)
    system = joint.at(theta).system
    np.testing.assert_allclose(system.D, np.full(3, np.exp(theta[0])))
    np.testing.assert_allclose(system.r, np.exp(theta[1:]))
    np.testing.assert_array_equal(system.front, [-5.0, 0.0, -5.0])


def test_gradients_against_differences_and_the_taylor_remainder():
    joint = pdefit.Recordings(ragged(), batch=pdefit.batches.Loop())
    theta, v = joint.theta0, jnp.asarray([0.3, -1.0, 0.4, 0.7])
    loss, gradient = eqx.filter_jit(lambda joint, theta: joint.value_and_grad(theta))(joint, theta)
    slope = float(gradient @ v)
    steps = 0.02 / 2.0 ** np.arange(4)
    far, near = (VALUE(joint, theta + s * v) - VALUE(joint, theta - s * v) for s in (2e-3, 1e-3))
    np.testing.assert_allclose((8 * near - far) / 12e-3, slope, rtol=1e-8)
    left = [abs(float(VALUE(joint, theta + h * v) - loss) - h * slope) for h in steps]
    assert np.all(np.log2(np.divide(left[:-1], left[1:])) > 1.9)
    # the value itself may be differentiated too, through every batch
    through = eqx.filter_jit(lambda joint, theta: jax.grad(joint.value)(theta))
    np.testing.assert_allclose(through(joint, theta), gradient, rtol=1e-11)


def test_memory_falls_from_all_at_once_to_one_after_the_other():
    functionals = [
        recording(f, count=9, stop=4.0, adjoint=pdefit.adjoints.Checkpointed()) for f in (-5.0, 0.0, 5.0, 10.0)
    ]

    def bytes_of(batch):
        joint = pdefit.Recordings(functionals, batch=batch)
        gradient = eqx.filter_jit(lambda joint, theta: joint.value_and_grad(theta))
        return gradient.lower(joint, joint.theta0).compile().compiled.memory_analysis().temp_size_in_bytes

    vmap, chunk, loop = map(bytes_of, (pdefit.batches.Vmap(), pdefit.batches.Chunk(2), pdefit.batches.Loop()))
    assert vmap > 1.3 * chunk > 1.3 * 1.5 * loop, (vmap, chunk, loop)


def orbits(sigma=1e-3, frames=25, length=1.5, controls=None, seed=0, **options):
    """Planets from positions, velocities at the starts of segments free."""
    return positions_functional(
        sigma=sigma, noise=np.random.default_rng(seed), length=length, controls=controls, **options
    )


def test_segments_run_inside_the_batch_with_free_node_states():
    mass = {"gm": pdefit.Control(pdefit.transforms.Log()), "nodes": {"velocity": pdefit.transforms.Identity()}}
    functionals = [orbits(seed=s, controls=mass) for s in (1, 2)]
    joint = pdefit.Recordings(functionals, batch=pdefit.batches.Loop())
    assert joint.controls.size == 3 + 2 * 4 * 6 and joint.groups == 8
    theta = joint.theta0 + 0.01 * jax.random.normal(jax.random.key(0), (joint.controls.size,))
    squares = eqx.filter_jit(lambda f, theta: dense(f.normal_equations(theta)))
    parts = [{"sum": squares(f, theta[c])} for f, c in zip(functionals, joint.columns, strict=True)]
    for found, want in zip(squares(joint, theta), added(joint, parts, "sum"), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-10 * np.max(np.abs(want)))
    with pytest.raises(pdefit.PdefitError, match="as many segments in each, but have 4, 2"):
        pdefit.Recordings([functionals[0], orbits(length=3.0, controls=mass)])


def test_segments_from_data_may_differ_in_number():
    system, data = planets()

    def cut(stop, **options):
        part = data.between(0.0, stop)
        problem = pdefit.Problem(system, system.init(None), pdefit.instruments.Select("position"))
        return pdefit.Functional(
            problem, part, {"gm": pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Value(np.array([1.1, 2e-3, 3e-3])))},
            formulation=pdefit.formulations.Segments(1.5), dt=0.02, **options,
        )  # fmt: skip

    verlet = {"solver": pdefit.solvers.VelocityVerlet()}
    functionals = [cut(6.0, **verlet), cut(2.5, **verlet)]
    joint = pdefit.Recordings(functionals)
    theta = joint.theta0
    np.testing.assert_allclose(VALUE(joint, theta), sum(VALUE(f, theta) for f in functionals), rtol=1e-12)
    assert joint.groups == sum(f.layout.segments for f in functionals) == 6
    # one segment pads the second recording
    halves = eqx.filter_jit(lambda joint, theta: joint.grouped_equations(theta).joined().half_square)(joint, theta)
    assert np.count_nonzero(halves) == 6
    found = pdefit.intervals(joint, theta)
    assert "6 segments" in found.method and found.degrees == 5


@pytest.mark.parametrize(
    "optimizer", [pdefit.optimizers.LevenbergMarquardt(), pdefit.optimizers.LBFGS()], ids=lambda o: type(o).__name__
)
def test_shared_and_own_parameters_of_different_fronts_are_recovered(optimizer):
    rates = (0.8, 1.0, 1.25)
    both = {"D": pdefit.transforms.Log(), "r": pdefit.Control(pdefit.transforms.Log(), scope="experiment")}
    functionals = [
        recording(front, r, count=5 + e, stop=2.0, noise=1e-7, guess=(0.6, 1.5), controls=both)
        for e, (front, r) in enumerate(zip((-8.0, -4.0, 0.0), rates, strict=True))
    ]
    fit = pdefit.fit(pdefit.Recordings(functionals, batch=pdefit.batches.Loop()), [optimizer])
    assert fit.converged and fit.status == "done"
    np.testing.assert_allclose(fit.problem.system.D, np.ones(3), rtol=1e-5)
    np.testing.assert_allclose(fit.problem.system.r, rates, rtol=1e-5)
    assert fit.history[0].theta.shape == (4,)


def test_own_unknowns_stay_near_their_own_guesses():
    controls = {
        "D": pdefit.Control(pdefit.transforms.Log()),
        "r": pdefit.Control(scope="experiment", within=0.1),
    }
    parts = [
        recording(r=1.0, guess=(0.7, 0.95), controls=controls),
        recording(r=1.6, guess=(0.7, 1.3), controls=controls),
    ]
    joint = pdefit.Recordings(parts)
    names, (lower, upper) = joint.controls.names(), joint.controls.bounds
    assert names == ["D", "r[0]", "r[1]"]
    np.testing.assert_allclose([lower[1:], upper[1:]], [[0.85, 1.2], [1.05, 1.4]])
    found = pdefit.fit(joint, [pdefit.Stage(pdefit.optimizers.LevenbergMarquardt())])
    r = np.asarray(found.theta[1:])
    assert r[0] == pytest.approx(1.0, abs=0.04) and r[1] == pytest.approx(1.4, abs=1e-12)
    again = found.functional.parts(found.theta)[1][0]
    np.testing.assert_allclose(again.controls.bounds[1], [np.inf, 1.4])


def test_initial_states_of_each_recording_are_found_with_a_shared_diffusivity():
    controls = {
        "D": pdefit.transforms.Log(),
        "y0": {"u": pdefit.Control(pdefit.transforms.Identity(), scope="experiment")},
    }
    functionals = [recording(f, noise=0.0, count=3, stop=0.5, guess=(0.8, 1.0), controls=controls) for f in (-5.0, 3.0)]
    wrong = [eqx.tree_at(lambda f: f.problem.y0.u, f, 0.9 * f.problem.y0.u) for f in functionals]
    fit = pdefit.fit(pdefit.Recordings(wrong), [pdefit.optimizers.LevenbergMarquardt()])
    np.testing.assert_allclose(fit.problem.system.D, 1.0, rtol=1e-5)
    for found, functional in zip(fit.problem.y0.u, functionals, strict=True):
        np.testing.assert_allclose(found, functional.problem.y0.u, atol=1e-6)


def without_the_last_recording(_, joint, theta):
    """The gradient of all recordings but the last, with the value and growth of all."""
    value, gradient, growth = GRADIENT(joint, theta)
    part, own = joint.parts(theta)[-1]
    return value, gradient.at[joint.columns[-1]].add(-GRADIENT(part, own)[1]), growth


def test_certificates_pass_and_name_a_recording_that_says_nothing(monkeypatch):
    functionals = [recording(-5.0, count=2, stop=0.5), recording(0.0, count=3, stop=0.6)]
    joint = pdefit.Recordings(functionals)
    good = pdefit.certify(joint, joint.theta0, fit_cost=1e4)
    assert good.passed and good.scope["observations"] == 3
    assert {c.name.split(":")[0] for c in good.checks} >= {"all controls", "D", "r"}
    with monkeypatch.context() as planted:
        planted.setattr(traced.Traced, "watched_gradient", without_the_last_recording)
        assert "gradient against tangents" in pdefit.certify(joint, joint.theta0, fit_cost=1e4).reason
    blind = eqx.tree_at(lambda f: f.observations.mask["u"], functionals[1], jnp.zeros((3, 64), bool))
    joint = pdefit.Recordings([functionals[0], blind])
    bad = pdefit.certify(joint, joint.theta0, fit_cost=1e4)
    assert not bad.passed and "r[1]" in bad.reason and bad.hashes != good.hashes


def test_more_recordings_make_intervals_shorter():
    both = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}
    one = recording(noise=0.02, guess=(1.0, 1.0), controls=both)
    joint = pdefit.Recordings([one, one])
    single, many = (pdefit.intervals(j, one.theta0) for j in (one, joint))
    assert single.method == many.method
    np.testing.assert_allclose(single.error / many.error, np.sqrt(2), rtol=1e-2)


def test_stages_with_windows_and_weights_resume_with_the_same_bits():
    both = {"D": pdefit.transforms.Log(), "r": pdefit.Control(pdefit.transforms.Log(), scope="experiment")}
    functionals = [recording(f, noise=0.01, controls=both, count=5 + k) for k, f in enumerate((-5.0, 0.0))]
    joint = pdefit.Recordings(
        [eqx.tree_at(lambda f: f.observations.sigma["u"], f, f.observations.sigma["u"] / 2) for f in functionals]
    )
    stages = [
        pdefit.Stage(pdefit.optimizers.LevenbergMarquardt(), formulation=pdefit.formulations.Segments(0.5)),
        pdefit.Stage(
            pdefit.optimizers.LevenbergMarquardt(),
            formulation=pdefit.formulations.Single(),
            reweight=pdefit.Reweight(rounds=2),
        ),
    ]
    states = []
    whole = pdefit.fit(joint, stages, callback=lambda p: states.append(p.state()))
    assert any("sigma re-estimated" in e for e in whole.events)
    again = pdefit.fit(joint, stages, resume=states[len(states) // 2])
    np.testing.assert_array_equal(again.theta, whole.theta)
    sigma = whole.functional.observations.sigma["u"]
    assert sigma.shape[0] == 2 and np.all(sigma > joint.observations.sigma["u"] * 1.5)


def test_regularizers_of_shared_controls_count_once_and_of_own_ones_each():
    both = {
        "D": pdefit.transforms.Log(),
        "r": pdefit.Control(pdefit.transforms.Log(), scope="experiment", prior=pdefit.priors.Normal(1.0, 1.0)),
    }
    regularizers = (pdefit.regularizers.L2("D", 2.0), pdefit.regularizers.L2("r", 3.0))
    functionals = [recording(f, controls=both, regularizers=regularizers, guess=(0.7, 2.0)) for f in (-5.0, 0.0)]
    plain = [recording(f, controls={"D": pdefit.transforms.Log()}, guess=(0.7, 2.0)) for f in (-5.0, 0.0)]
    joint = pdefit.Recordings(functionals)
    extra = VALUE(joint, joint.theta0) - sum(VALUE(f, f.theta0) for f in plain)
    np.testing.assert_allclose(extra, 0.7**2 + 2 * (1.5 * 2.0**2 + 0.5), rtol=1e-10)
    assert len(joint.part(1).regularizers) == 2


def test_a_gauge_holds_a_sum_or_one_recording():
    own = {"r": pdefit.Control(scope="experiment", scale=2.0)}
    functionals = [recording(f, controls=own, guess=(0.7, r)) for f, r in ((-5.0, 1.0), (0.0, 3.0))]
    free = pdefit.Recordings(functionals)
    theta = free.theta0 + jnp.asarray([0.001, 0.002])
    # theta is in units of the scale, and starts from 0.5 and 1.5
    joint = pdefit.Recordings(functionals, gauge={"r": "sum"})
    np.testing.assert_allclose(VALUE(joint, theta) - VALUE(free, theta), 2003.0**2 / 2, rtol=1e-9)
    assert pdefit.certify(joint, theta).passed
    for e, other in ((0, 1), (1, 0)):
        joint = pdefit.Recordings(functionals, gauge={"r": e})
        assert joint.controls.names() == [f"r[{other}]"]
        moved = free.theta0.at[other].set(theta[other])
        value, gradient, _ = GRADIENT(joint, theta[other : other + 1])
        expected = GRADIENT(free, moved)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, expected[1][other : other + 1], rtol=1e-9)
        again, own = joint.each(lambda f, x: (f, x), theta[other : other + 1])
        np.testing.assert_array_equal(own, theta[other : other + 1])
        assert again.gauge == joint.gauge
    for wrong, message in (({"D": "sum"}, "scope experiment"), ({"r": 2}, "one of 2 recordings")):
        with pytest.raises(pdefit.PdefitError, match=message):
            pdefit.Recordings(functionals, gauge=wrong)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"guess": (0.8, 1.3)}, "'D' is shared, but its guess in recording 1"),
        ({"controls": {"D": pdefit.transforms.Log()}}, "the same controls, bounds, units and priors"),
        ({"controls": {"r": pdefit.transforms.Log()}}, "the same shared controls in all, but number 1 has r"),
        ({"solver": pdefit.solvers.VelocityVerlet()}, "the same solver, adjoint and batch"),
        ({"formulation": pdefit.formulations.Segments(0.5)}, "the same formulation"),
    ],
)
def test_what_cannot_be_stacked_is_refused(second, message):
    with pytest.raises(pdefit.PdefitError, match=message.replace("[", r"\[")):
        pdefit.Recordings([recording(), recording(0.0, **second)])


class Named(pdefit.AbstractSystem):
    """u' = -k u from a place that a text tells."""

    time_unit: ClassVar[str] = "s"
    k: jax.Array = pdefit.parameter(positive=True)
    place: dict[str, Any] = eqx.field(default_factory=dict)
    order: int = eqx.field(static=True, default=2)

    def vector_field(self, t, y, args):
        return State(-self.k * y.u)

    def init(self, key):
        return State(jnp.ones(1))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            {"place": {"at": "top"}},
            {"place": {"at": "side"}},
            r"has \{'at': 'side'\} for problem.system.place, and number 0 ",
        ),
        (
            {},
            {"order": 4},
            "number 1 has 4 for problem.system.order, and number 0 has 2; make them equal, or write them as",
        ),
        ({}, {"k": jnp.ones(3)}, r"has f64\[3\] for problem.system.k, and number 0 has f64\[\]; "),
    ],
)
def test_a_part_in_which_systems_differ_is_named_with_both_values(first, second, message):
    ts = np.array([0.0, 0.1])
    functionals = []
    for given in (first, second):
        system = Named(**{"k": jnp.asarray(1.0), **given})
        data = pdefit.Observations.build(ts, {"u": np.ones((2, 1))})
        functionals.append(
            pdefit.Functional(pdefit.Problem(system, system.init(None)), data, {"y0": {"u": pdefit.Control()}}, dt=0.1)
        )
    with pytest.raises(pdefit.PdefitError, match=message) as error:
        pdefit.Recordings(functionals)
    assert "\n" not in str(error.value)


def test_no_recordings_and_the_hosted_driver_are_refused():
    with pytest.raises(pdefit.PdefitError, match="one functional or more"):
        pdefit.Recordings([])
    with pytest.raises(pdefit.PdefitError, match="Hosted evaluates one recording"):
        pdefit.fit(pdefit.Recordings([recording()]), [pdefit.optimizers.LBFGS()], driver=pdefit.drivers.Hosted())
    with pytest.raises(pdefit.PdefitError, match="scope"):
        pdefit.Control(scope="embryo")  # pyright: ignore[reportArgumentType]
