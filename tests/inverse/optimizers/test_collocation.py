"""Collocation: its elimination, its derivatives, and what it finds from far guesses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_populations import LotkaVolterra
from problems import fisher_functional
from resumed import resumed_alike, run
from small_systems import Level

import pdefit
from pdefit.inverse.fit.stages import Stage
from pdefit.inverse.optimizers._first_states import first_states

TS = np.linspace(0.0, 10.0, 41)
TRUTH = {"alpha": 0.7, "beta": 0.9, "gamma": 0.5, "delta": 0.6}
ALL = tuple(TRUTH)
LM = pdefit.optimizers.LevenbergMarquardt()


def cycle(factors=(0.1, 10.0, 10.0, 0.1), noise=0.0, shown=("prey", "predator"), unknown=ALL, free=True, **options):
    """The rates named in `unknown`, each a factor from its true value, and the initial state where it is free."""
    truth = LotkaVolterra(**{n: jnp.asarray(v) for n, v in TRUTH.items()})
    y0 = truth.init(None)
    clean = pdefit.simulate(truth, y0, TS, dt=0.02)
    data = pdefit.add_noise(clean, noise, jax.random.key(3))
    data = pdefit.Observations.build(TS, {n: data.values[n] for n in shown}, {n: data.sigma[n] for n in shown})
    start = {n: jnp.asarray(TRUTH[n] * (f if n in unknown else 1.0)) for n, f in zip(TRUTH, factors, strict=True)}
    guess = {
        n: pdefit.guesses.FromData() if n in shown else pdefit.guesses.Value(1.0) for n in truth.init(None)._fields
    }
    controls = {n: pdefit.transforms.Log() for n in unknown}
    if free:
        controls["y0"] = {n: pdefit.Control(guess=g) for n, g in guess.items()}
    problem = pdefit.Problem(LotkaVolterra(**start), y0, pdefit.instruments.Select(shown))
    return pdefit.Functional(problem, data, controls, dt=0.05, **options)


def rates(found):
    values = found.functional.controls.values(found.theta)
    return np.array([float(values[n]) / TRUTH[n] - 1 for n in ALL if n in values])


def dense(equations):
    """The matrix and the gradient of a bordered system, the shared numbers first."""
    (m, n, k), corner = equations.border.shape, equations.corner
    whole = np.zeros((k + m * n, k + m * n))
    whole[:k, :k] = corner
    for i in range(m):
        at = slice(k + i * n, k + (i + 1) * n)
        whole[at, at], whole[at, :k], whole[:k, at] = equations.diagonal[i], equations.border[i], equations.border[i].T
        if i:
            before = slice(k + (i - 1) * n, k + i * n)
            whole[at, before], whole[before, at] = equations.below[i - 1], equations.below[i - 1].T
    return whole, np.concatenate([equations.shared, np.ravel(equations.gradient)])


@pytest.fixture(scope="module", params=[1, 2])
def system(request):
    """Residuals of a noisy record that shows the prey, with their normal equations at some states."""
    J = cycle(
        (1.3, 1.0, 0.8, 1.0), 0.02, ("prey",), ("alpha", "gamma"), regularizers=(pdefit.regularizers.L2("alpha", 0.3),)
    )
    residuals = pdefit.optimizers.Collocation(pieces=request.param).on(J).residuals
    x = jnp.asarray(np.random.default_rng(1).uniform(0.3, 1.5, (residuals.times.size, 2)))
    at = J.theta0 + 0.1, x, jnp.asarray([0.1, 0.3])
    return residuals, at, residuals.equations(*at)


def test_blocks_are_those_of_the_jacobian(system):
    residuals, (theta, x, sigma), equations = system

    def vector(z):
        parts = residuals.parts(z[: theta.size], z[theta.size :].reshape(x.shape), sigma)
        return jnp.concatenate([jnp.ravel(p) for p in parts])

    z = jnp.concatenate([theta, jnp.ravel(x)])
    r, jacobian = vector(z), jax.jacfwd(vector)(z)
    matrix, gradient = dense(equations)
    np.testing.assert_allclose(matrix, jacobian.T @ jacobian, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, jacobian.T @ r, rtol=1e-9, atol=1e-9)


def test_elimination_solves_the_dense_system(system):
    equations, states, shared = system[2], jnp.asarray([1.0, 2.0]), jnp.asarray([1.0, 2.0, 3.0, 4.0])
    matrix, gradient = dense(equations)
    damped = matrix + np.diag(np.concatenate([shared, np.tile(states, len(equations.gradient))]))
    found = np.concatenate([np.ravel(part) for part in equations.step(states, shared)])
    np.testing.assert_allclose(found, -np.linalg.solve(damped, gradient), rtol=1e-8)


def test_states_lie_on_the_data_and_between_them():
    J = cycle(shown=("prey",))
    residuals = pdefit.optimizers.Collocation(pieces=2).on(J).residuals
    x, seen = first_states(J, residuals.times), np.asarray(J.observations.values["prey"])
    np.testing.assert_array_equal(residuals.times[::2], TS)
    np.testing.assert_array_equal(x[::2, 0], seen)
    np.testing.assert_allclose(x[1::2, 0], (seen[1:] + seen[:-1]) / 2)
    # the predator is at its guess
    np.testing.assert_array_equal(x[:, 1], 1.0)


def test_rates_ten_times_off_are_found():
    found = pdefit.fit(cycle(), [Stage(pdefit.optimizers.Collocation())])
    # what is left without noise is the error of intervals of 0.25
    assert 1e-7 < np.max(np.abs(rates(found))) < 3e-4 and not found.converged
    finer = pdefit.fit(cycle(), [Stage(pdefit.optimizers.Collocation(pieces=2))])
    # of fourth order
    assert np.max(np.abs(rates(finer))) < np.max(np.abs(rates(found))) / 10


@pytest.mark.parametrize("shown", [("prey", "predator"), ("prey",)])
def test_the_next_stage_ends_where_a_fit_from_near_the_truth_does(shown):
    """With hidden predators, too, of which the data know no number, so that b is given."""
    unknown = ALL if len(shown) == 2 else ("alpha", "gamma", "delta")
    minimum = pdefit.optimizers.LevenbergMarquardt(decrement=0.0)
    near = pdefit.fit(cycle((1.1,) * 4, 0.02, shown, unknown), [minimum])
    far = cycle(noise=0.02, shown=shown, unknown=unknown)
    found = pdefit.fit(far, [pdefit.optimizers.Collocation(), minimum])
    assert found.converged and near.converged
    np.testing.assert_allclose(found.loss, near.loss, rtol=1e-8)
    np.testing.assert_allclose(rates(found), rates(near), atol=1e-4)


def test_a_known_start_is_kept():
    found = pdefit.fit(cycle(unknown=("alpha", "gamma"), free=False, noise=0.02), [pdefit.optimizers.Collocation()])
    assert np.max(np.abs(rates(found))) < 0.02


def test_a_plain_field():
    """D and r of a front from three times too large and too small."""
    J = fisher_functional(guess=(3.0, 0.3), count=17)
    found = pdefit.fit(J, [pdefit.optimizers.Collocation()])
    D, r = (float(x) for x in J.controls.values(found.theta).values())
    assert abs(D - 1) < 0.01 and abs(r - 1) < 0.01


def test_it_goes_on_to_the_same_bits():
    J = cycle(noise=0.02)
    stages = [Stage(pdefit.optimizers.Collocation(), 6), Stage(LM, 3)]
    whole, rows, states = run(J, stages)
    inside = [s for s in states if s.numbers["stage"] == 0]
    assert inside and list(resumed_alike(J, stages, whole, rows, [inside[0], states[-1]]))


def test_missing_values_and_an_unseen_end_are_filled_by_the_model():
    J = cycle(noise=0.01)
    mask = {n: np.asarray(m).copy() for n, m in J.observations.mask.items()}
    mask["prey"][30:] = False
    J = eqx.tree_at(lambda f: f.observations.mask, J, {n: jnp.asarray(m) for n, m in mask.items()})
    assert np.max(np.abs(rates(pdefit.fit(J, [pdefit.optimizers.Collocation()])))) < 0.03


def test_what_it_cannot_do_is_refused():
    collocation = pdefit.optimizers.Collocation()
    with pytest.raises(pdefit.PdefitError, match="one trajectory"):
        collocation.on(cycle(free=False, formulation=pdefit.formulations.Segments(2.0)))
    level = pdefit.Problem(Level(k=jnp.asarray(1.0)), Level.example(8).y0)
    data = pdefit.simulate(level.system, level.y0, np.linspace(0.0, 1.0, 3), dt=0.1)
    with pytest.raises(pdefit.PdefitError, match="without a constraint"):
        collocation.on(pdefit.Functional(level, data, {"k": pdefit.transforms.Log()}, dt=0.1))
    with pytest.raises(pdefit.PdefitError, match="matrices of every state"):
        pdefit.optimizers.Collocation(pieces=2000).on(fisher_functional())
    with pytest.raises(ValueError, match="0 < last <= first"):
        pdefit.optimizers.Collocation(last=20.0)
