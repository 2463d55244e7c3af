import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_particles import Gravity
from problems import fisher, fisher_functional, planets_functional

import pdefit
from pdefit.inverse.certify.direction import direction
from pdefit.inverse.controls.bind import bind


def resolved(controls, seed=0):
    truth = fisher()
    y0 = truth.init(None)
    data = pdefit.simulate(truth, y0, np.array([0.0, 1.0]), dt=0.05)
    return bind(pdefit.Problem(truth, y0), controls, jax.random.key(seed), data)


def test_theta_and_problem_are_two_views_of_the_same():
    functional = fisher_functional(
        controls={
            "D": pdefit.Control(pdefit.transforms.Log(), scale=2.0),
            "r": pdefit.transforms.Logit(0.0, 5.0),
            "y0": {"u": pdefit.Control(pdefit.transforms.Identity(), smoothing=3.0)},
        }
    )
    theta = functional.theta0 + 0.01 * jax.random.normal(jax.random.key(0), functional.theta0.shape)
    problem = functional.at(theta)
    np.testing.assert_allclose(functional.controls.theta(problem), theta, atol=1e-12)
    np.testing.assert_allclose(problem.system.D, np.exp(2 * theta[0]), rtol=1e-13)
    assert functional.controls.names()[:3] == ["D", "r", "y0.u.0"]


def test_values_are_in_the_order_of_theta():
    functional = fisher_functional(controls={"r": pdefit.transforms.Log(), "D": pdefit.transforms.Identity()})
    assert [*functional.controls.values(functional.theta0)] == ["r", "D"] == functional.controls.names()


def test_guesses_are_values_factors_or_data():
    controls, problem = resolved(
        {
            "D": pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Value(0.3)),
            "r": pdefit.Control(guess=pdefit.guesses.Perturb(0.5, 0.6)),
            "y0": {"u": pdefit.Control(guess=pdefit.guesses.FromData())},
        }
    )
    assert float(problem.system.D) == 0.3
    assert 0.5 <= float(problem.system.r) <= 0.6
    np.testing.assert_array_equal(problem.y0.u, fisher().init(None).u)


def test_a_control_without_words_has_the_value_of_the_problem_as_guess():
    controls, problem = resolved({"D": {}, "y0": {}})
    assert controls.names() == ["D"] and problem.system.D == fisher().D


def _bodies(guess, fields=("position",), **changes):
    """Three bodies seen four times, and the guess of their velocities."""
    system = Gravity(gm=np.ones(3))
    ts = np.arange(4.0)
    rng = np.random.default_rng(0)
    position, velocity = rng.normal(size=(2, 3, 3))
    values = {"position": position + velocity * ts[:, None, None], "velocity": np.broadcast_to(velocity, (4, 3, 3))}
    data = pdefit.Observations.build(ts, {n: values[n] for n in fields} | changes)
    state = system.init_from_data(pdefit.Observations.build(ts, {"position": values["position"]}))
    start = type(state)(state.position, jnp.zeros((3, 3)))
    controls = {"y0": {"velocity": pdefit.Control(guess=guess)}}
    return (
        bind(pdefit.Problem(system, start), controls, jax.random.key(0), data)[1].y0.velocity,
        state.velocity,
        velocity,
    )


def test_the_guess_of_a_hidden_field_is_what_the_system_makes_of_the_data():
    found, made, true = _bodies(pdefit.guesses.FromData())
    np.testing.assert_array_equal(found, made)
    assert np.any(np.asarray(found) != 0)
    # an observed one is taken as it was seen, missing points at their nominal values
    assert np.allclose(_bodies(pdefit.guesses.FromData(), ("position", "velocity"))[0], true)
    holes = np.broadcast_to(np.where(np.arange(3) == 1, np.nan, true), (4, 3, 3))
    found, _, _ = _bodies(pdefit.guesses.FromData(), velocity=holes)
    np.testing.assert_allclose(found, np.where(np.arange(3) == 1, 0, true))


def test_a_guess_from_data_that_cannot_be_says_what_works():
    data = pdefit.Observations.build([0.0, 1.0], {"v": np.ones((2, 3))})
    few = pdefit.Observations.build([0.0, 1.0], {"u": np.ones((2, 32))})
    problem = pdefit.Problem(fisher(), fisher().init(None))
    controls = {"y0": {"u": pdefit.Control(guess=pdefit.guesses.FromData())}}
    size = problem.y0.u.shape
    for observations, why in ((data, "it is not observed"), (few, f"it has shape {size} and was observed as (32,)")):
        with pytest.raises(pdefit.PdefitError) as error:
            bind(problem, controls, jax.random.key(0), observations)
        for words in (
            why,
            "FisherKPP has no init_from_data",
            "give a number or an array",
            "initial state",
            "observe u",
        ):
            assert words in str(error.value)


def test_an_init_from_data_that_fails_is_one_sentence(monkeypatch):
    monkeypatch.setattr(Gravity, "init_from_data", lambda *_: {}["velocity"])
    system = Gravity(gm=np.ones(3), position=np.ones((3, 3)), velocity=np.zeros((3, 3)))
    data = pdefit.Observations.build([0.0, 1.0], {"position": np.ones((2, 3, 3))})
    controls = {"y0": {"velocity": pdefit.Control(guess=pdefit.guesses.FromData())}}
    with pytest.raises(
        pdefit.PdefitError, match="init_from_data of Gravity fails .'velocity'.; give a number or an array"
    ):
        bind(pdefit.Problem(system, system.init(None)), controls, jax.random.key(0), data)


def test_a_perturbed_guess_depends_on_the_seed_and_on_nothing_else():
    perturbed = pdefit.Control(guess=pdefit.guesses.Perturb(0.5, 2.0))
    alone = resolved({"r": perturbed})[1].system.r
    assert alone == resolved({"D": perturbed, "r": perturbed})[1].system.r
    assert alone != resolved({"r": perturbed}, seed=1)[1].system.r


def test_elements_are_named_by_their_labels():
    assert planets_functional().controls.names() == ["gm.sun", "gm.inner", "gm.outer"]


def test_a_control_that_is_not_estimated_keeps_its_guess():
    controls, problem = resolved(
        {"D": pdefit.Control(guess=pdefit.guesses.Value(0.4), estimate=False), "r": pdefit.transforms.Log()}
    )
    assert [c.path for c in controls.items] == ["r"] and float(problem.system.D) == 0.4


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ({}, "at least one control"),
        ({"Dd": pdefit.transforms.Log()}, "No control is called 'Dd'; did you mean D?"),
        ({"y0": {"w": pdefit.transforms.Log()}}, "No control in 'y0' is called 'w'"),
        ({"nodes": {"u": pdefit.transforms.Log()}}, "No control is called 'nodes'"),
        ({"y0": pdefit.transforms.Log()}, "name one of its leaves: u"),
        ({"D": 3.0}, "expects a Control"),
        ({"D": pdefit.Control(guess=pdefit.guesses.Value(5.0), bounds=(0.0, 1.0))}, "outside its bounds"),
        ({"D": pdefit.Control(guess=pdefit.guesses.Value(-1.0))}, "must be positive"),
        ({"D": pdefit.Control(pdefit.transforms.Logit(2.0, 3.0))}, "cannot represent"),
        ({"D": pdefit.Control(bounds=(1.0, 1.0))}, "low < high"),
        ({"D": pdefit.Control(guess=pdefit.guesses.Value(np.ones(3)))}, "has shape"),
        ({"D": pdefit.Control(guess=pdefit.guesses.FromData())}, "cannot come from data"),
        ({"D": pdefit.Control(pdefit.transforms.Log(), bounds=(-1.0, 4.0))}, "outside the domain of Log"),
        ({"y0": {"u": pdefit.Control(smoothing=2.0, bounds=(-1.0, 2.0))}}, "use a logit transform"),
        ({"y0": {"u": pdefit.Control(modes=8, bounds=(-1.0, 2.0))}}, "remove bounds"),
        ({"y0": {"u": pdefit.Control(modes=8, within=1.0)}}, "remove within"),
        ({"y0": {"u": pdefit.Control(smoothing=2.0, within=1.0)}}, "use a logit transform"),
        ({"D": pdefit.Control(pdefit.transforms.Log(), within=5.0)}, "outside the domain of Log"),
        ({"y0": {"u": pdefit.Control(modes=8, smoothing=2.0)}}, "remove smoothing"),
        ({"y0": {"u": pdefit.Control(modes=65)}}, "at most one mode for each cell"),
        ({"D": pdefit.Control(modes=1)}, "a field of one to three axes"),
    ],
)
def test_mistakes_are_named(controls, message):
    with pytest.raises(pdefit.PdefitError, match=None) as error:
        resolved(controls)
    assert message in str(error.value)


def test_a_basis_is_that_of_modes_and_has_a_name():
    for words, said in (
        ({"basis": "polynomials"}, "is that of modes"),
        ({"modes": 4, "basis": "chebyshev"}, "chebyshev"),
    ):
        with pytest.raises(pdefit.PdefitError, match=said):
            pdefit.Control(**words)


def test_bounds_become_a_box_in_search_space():
    controls, _ = resolved(
        {"D": pdefit.Control(pdefit.transforms.Log(), bounds=(0.1, 10.0)), "r": pdefit.transforms.Log()}
    )
    lower, upper = controls.bounds
    np.testing.assert_allclose(lower, [np.log(0.1), -np.inf])
    np.testing.assert_allclose(upper, [np.log(10.0), np.inf])


def test_a_distance_from_the_guess_bounds_each_element_with_the_bounds():
    size = pdefit.guesses.Value(2.0)
    controls, problem = resolved(
        {"D": pdefit.Control(guess=size, within=0.5, bounds=(1.8, 9.0)), "y0": {"u": pdefit.Control(within=0.1)}}
    )
    u, (lower, upper) = np.ravel(problem.y0.u), controls.bounds
    np.testing.assert_allclose(lower, [1.8, *(u - 0.1)])
    np.testing.assert_allclose(upper, [2.5, *(u + 0.1)])


def test_controls_tell_what_of_theta_is_whose():
    """Places, numbers, what tables list, and what is at a bound, to the round-off of a step that ends there."""
    bounded = pdefit.Control(pdefit.transforms.Log(), bounds=(0.01, 1.0))
    controls = fisher_functional(
        controls={"D": bounded, "r": {}, "y0": {"u": pdefit.Control(bounds=(0.0, 2.0))}}
    ).controls
    assert [(c.path, span) for c, span in controls.spans] == [
        ("D", slice(0, 1)), ("r", slice(1, 2)), ("y0.u", slice(2, controls.size))
    ]  # fmt: skip
    assert (
        controls.numbers.all() and controls.tabulated.size == controls.size and len(controls.units()) == controls.size
    )
    assert list(np.flatnonzero(controls.mask(lambda c: c.is_state))) == list(range(2, controls.size))
    theta = np.full(controls.size, 0.5)
    theta[[0, 2, 3, 4]] = np.log(0.01) * (1 - 1e-16), 0.0, 2 - 2e-16, 2 - 1e-14
    assert list(np.flatnonzero(controls.bounds.at(theta))) == [0, 2, 3]
    np.testing.assert_array_equal(controls.bounds.free(theta), ~controls.bounds.at(theta))


def test_a_direction_moves_each_control_by_about_its_own_size():
    controls, problem = resolved({"D": pdefit.Control(pdefit.transforms.Log()), "y0": {"u": {}}})
    theta = controls.theta(problem)
    along = np.random.default_rng(0).normal(size=theta.shape)
    # the logarithm of a number by itself, a field by its root mean square
    number, *field = along * np.asarray(controls.sizes(theta, along))
    assert abs(number) == pytest.approx(1.0 if abs(along[0]) > 1 else abs(along[0]))
    assert np.sqrt(np.mean(np.square(field))) == pytest.approx(float(np.sqrt(np.mean(problem.y0.u**2))))
    v = np.asarray(direction(controls, theta, jax.random.key(1)))
    np.testing.assert_array_equal(v, direction(controls, theta, jax.random.key(1)))
    assert not np.array_equal(v, direction(controls, theta, jax.random.key(2)))
    assert abs(v[0]) == pytest.approx(1.0)
