"""What the functional counts, and what it refuses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import GRID, VALUE, fisher, fisher_functional, planets, planets_functional

import pdefit
from pdefit._util.trees import cast

VALUE_AND_GRAD = eqx.filter_jit(pdefit.Functional.value_and_grad)


def front_data(ts=(0.0, 1.0, 2.0)):
    truth = fisher()
    return truth, truth.init(None), pdefit.simulate(truth, truth.init(None), np.asarray(ts), dt=0.05)


def test_value_is_half_the_weighted_squared_misfit_plus_extras():
    truth, y0, data = front_data()
    data = pdefit.Observations.build(data.ts, data.values, {"u": 0.1})
    prior, ridge = pdefit.priors.Normal(1.2, 0.5), pdefit.regularizers.L2("r", 3.0, 0.5)
    functional = pdefit.Functional(
        pdefit.Problem(fisher(0.6), y0),
        data,
        {"D": pdefit.Control(pdefit.transforms.Log(), prior=prior), "r": pdefit.transforms.Log()},
        dt=0.05,
        regularizers=(ridge,),
    )
    model = pdefit.simulate(fisher(0.6), y0, data.ts, dt=0.05)
    misfit = np.sum((np.asarray(model.values["u"]) - np.asarray(data.values["u"])) ** 2) / 0.1**2 / 2
    extras = ((0.6 - 1.2) / 0.5) ** 2 / 2 + 3.0 * (1.0 - 0.5) ** 2 / 2
    np.testing.assert_allclose(VALUE(functional, functional.theta0), misfit + extras, rtol=1e-12)
    residuals = eqx.filter_jit(pdefit.Functional.residuals)(functional, functional.theta0)
    np.testing.assert_allclose(jnp.sum(residuals**2) / 2, misfit + extras, rtol=1e-12)
    assert residuals.size == 3 * 64 + 2 and functional.observed_values == 3 * 64


def test_missing_values_change_neither_loss_nor_gradient():
    """Whatever stands where the mask is False, and a whole missing frame, leaves no trace."""
    truth, y0, data = front_data()
    values = np.array(data.values["u"])
    values[1] = np.nan
    values[2, ::3] = np.nan
    holes = pdefit.Observations.build(data.ts, {"u": values})
    controls = {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()}
    problem = pdefit.Problem(fisher(0.6), y0)
    functional = pdefit.Functional(problem, holes, controls, dt=0.05)
    value, gradient = VALUE_AND_GRAD(functional, functional.theta0)
    poisoned = eqx.tree_at(lambda f: f.observations.values["u"], functional, jnp.where(holes.mask["u"], values, 1e9))
    again = VALUE_AND_GRAD(poisoned, functional.theta0)
    assert np.isfinite(value) and value > 0
    np.testing.assert_array_equal(again[0], value)
    np.testing.assert_array_equal(again[1], gradient)
    assert functional.observed_values == np.isfinite(values).sum()


def test_a_variable_that_was_never_seen_gives_zero():
    truth, y0, data = front_data()
    nothing = pdefit.Observations.build(data.ts, {"u": np.full((3, 64), np.nan)})
    functional = pdefit.Functional(pdefit.Problem(fisher(0.6), y0), nothing, {"D": pdefit.transforms.Log()}, dt=0.05)
    value, gradient = VALUE_AND_GRAD(functional, functional.theta0)
    assert value == 0 and gradient[0] == 0


def test_segments_share_the_record_without_losing_or_doubling_observations():
    functional = planets_functional(length=1.6)
    layout = functional.layout
    fitted = np.asarray(functional.fitted("position")).all(axis=(2, 3))
    np.testing.assert_array_equal(np.sort(layout.index[fitted]), np.arange(1, 25))
    # 0.25 between frames: windows of 1.75, the first that reaches 1.6
    np.testing.assert_array_equal(layout.nodes, [0, 7, 14, 21])
    assert fitted.sum(axis=1).tolist() == [7, 7, 7, 3]


def test_segments_and_single_agree_on_noise_free_data_at_the_truth():
    system, data = planets()
    for formulation in (
        pdefit.formulations.Single(),
        pdefit.formulations.Segments(1.5),
        pdefit.formulations.Segments(100.0),
    ):
        functional = pdefit.Functional(
            pdefit.Problem(system, system.init(None), pdefit.instruments.Select("position")), data,
            {"gm": pdefit.transforms.Log()}, formulation=formulation, dt=0.02,
        )  # fmt: skip
        assert VALUE(functional, functional.theta0) < 1e-20


def test_operators_compose():
    grid = pdefit.CartesianGrid(shape=(8, 6), extent=(1.0, 1.0))
    y = {"u": jnp.arange(48.0).reshape(grid.shape), "v": jnp.zeros(grid.shape)}
    seen = pdefit.instruments.Compose((pdefit.instruments.Select("u"), pdefit.instruments.Subsample((4, 3), (0, 1))))(
        0.0, y, None
    )
    np.testing.assert_array_equal(seen["u"], [[1, 4], [25, 28]])
    assert list(seen) == ["u"]
    assert pdefit.instruments.Subsample((3,))(0.0, jnp.arange(9.0), None)["y"].tolist() == [1, 4, 7]
    with pytest.raises(pdefit.PdefitError, match="did you mean u"):
        pdefit.instruments.Select("uu")(0.0, y, None)


def test_a_float32_run_keeps_its_dtype_and_sums_in_float64():
    # times that float32 cannot hold
    functional = fisher_functional(times=np.linspace(0.0, 1.0, 11))
    small = pdefit.Functional(
        cast(functional.problem, "float32"),
        cast(functional.observations, "float32"),
        {"D": pdefit.transforms.Log(), "r": pdefit.transforms.Log()},
        dt=0.05,
    )
    assert small.at(small.theta0).system.D.dtype == jnp.float32
    value, gradient = VALUE_AND_GRAD(small, small.theta0)
    expected, slope = VALUE_AND_GRAD(functional, functional.theta0)
    assert value.dtype == jnp.float64
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": {"w": np.zeros((3, 64))}}, "set observe to those that were measured"),
        ({"values": {"u": np.zeros((3, 32))}}, "make the grid match"),
        ({"dt": 5.0}, "beyond the stability limit"),
        ({"regularizers": (pdefit.regularizers.L2("r", 1.0),)}, "No control is called 'r'"),
        (
            {"formulation": pdefit.formulations.Segments(1.0), "controls": {"y0": {"u": pdefit.transforms.Identity()}}},
            "y0 has no influence",
        ),
        ({"frames": 1}, "two times or more"),
        (
            {"formulation": pdefit.formulations.Segments(1.0), "values": {"w": np.zeros((3, 64))}},
            "FisherKPP has no init_from_data",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(change, message):
    truth, y0, data = front_data()
    if "values" in change:
        data = pdefit.Observations.build(data.ts, change["values"])
    options = {"dt": 0.05, **{k: v for k, v in change.items() if k in ("dt", "regularizers", "formulation")}}
    with pytest.raises(pdefit.PdefitError) as error:
        controls = change.get("controls", {"D": pdefit.transforms.Log()})
        data = data.at(slice(0, change.get("frames", data.ts.size)))
        pdefit.Functional(pdefit.Problem(truth, y0), data, controls, **options)
    assert message in str(error.value)


def test_a_dense_jacobian_beyond_the_limit_is_refused(monkeypatch):
    functional = fisher_functional()
    monkeypatch.setattr("pdefit.inverse.objective.segment_jacobian._DENSE_LIMIT", 10)
    with pytest.raises(pdefit.PdefitError, match="stages=lbfgs"):
        functional.jacobian(functional.theta0)


def test_nothing_is_recompiled_for_new_values():
    """Parameters and data are arguments of the compiled function, never constants in it."""
    functional = fisher_functional()
    count = 0

    @eqx.filter_jit
    def value(f, theta):
        nonlocal count
        count += 1
        return f.value(theta)

    first = value(functional, functional.theta0)
    other = eqx.tree_at(
        lambda f: (f.problem.system.D, f.observations.values["u"]),
        functional,
        (2 * functional.problem.system.D, jnp.zeros((9, *GRID.shape))),
    )
    assert value(other, functional.theta0 + 1) != first and count == 1


def test_jit_and_vmap_over_starts():
    functional = fisher_functional()
    starts = functional.theta0[None] + 0.1 * jax.random.normal(jax.random.key(0), (3, 2))
    together = jax.jit(jax.vmap(lambda t: functional.value_and_grad(t)[1]))(starts)
    for start, gradient in zip(starts, together, strict=True):
        np.testing.assert_allclose(VALUE_AND_GRAD(functional, start)[1], gradient, rtol=1e-9)
