"""Estimated sigma of linear models, whose hat matrix numpy knows."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from problems import lines

import pdefit
from pdefit.inverse.fit import reweight
from pdefit.inverse.fit.reweight import unknowns_by_variable

PLAIN = pdefit.transforms.Identity()
CONSTANT = pdefit.likelihoods.PredictedVariance(constant=None)
BOTH = pdefit.likelihoods.ByPrediction(variables={"u": CONSTANT, "v": CONSTANT})


def _traces(rows, prior=0.0):
    """The traces of the hat matrix over blocks of weighted rows."""
    inverse = np.linalg.inv(sum(x.T @ x for x in rows) + prior)
    return [np.trace(inverse @ x.T @ x) for x in rows]


def _squares(functional, designs, theta):
    return [
        np.sum((np.asarray(functional.observations.values[n]) - x @ theta) ** 2)
        for n, x in zip("uv", designs, strict=True)
    ]


@pytest.mark.parametrize("prior", [None, 0.3])
def test_shared_unknowns_count_once_over_both_variables(prior):
    controls = dict.fromkeys("ab", PLAIN)
    controls["c"] = PLAIN if prior is None else pdefit.Control(PLAIN, prior=pdefit.priors.Normal(3.0, prior))
    J, designs = lines([0.0, 0.5, 1.0, 1.5], controls=controls, sigma=(0.5, 2.0))
    theta = jnp.array([1.1, 2.2, 2.9])
    weighted = [x / s for x, s in zip(designs, (0.5, 2.0), strict=True)]
    exact = _traces(weighted, 0.0 if prior is None else np.diag([0.0, 0.0, prior**-2]))
    (found,) = unknowns_by_variable(J, theta)
    np.testing.assert_allclose([found["u"], found["v"]], exact, rtol=1e-9)
    if prior is None:
        assert sum(found.values()) == pytest.approx(3.0, rel=1e-9)
    new = BOTH.apply(J, theta)[0].observations.sigma
    sigma = [float(new[n].max()) for n in "uv"]
    by_hand = np.sqrt(np.array(_squares(J, designs, theta)) / (4 - np.array(exact)))
    np.testing.assert_allclose(sigma, by_hand, rtol=1e-9)


def test_a_fit_ends_at_the_fixed_point_of_restricted_maximum_likelihood():
    J, designs = lines([0.0, 0.5, 1.0, 1.5, 2.0])
    by = pdefit.likelihoods.ByPrediction(variables=BOTH.variables, rounds=60, tolerance=1e-8)
    method = pdefit.optimizers.LevenbergMarquardt(tolerance=1e-12)
    found = pdefit.fit(J, [pdefit.Stage(method, reweight=by)])
    sigma = np.ones(2)
    for _ in range(300):
        weighted = [x / s for x, s in zip(designs, sigma, strict=True)]
        values = [np.asarray(J.observations.values[n]) / s for n, s in zip("uv", sigma, strict=True)]
        theta = np.linalg.lstsq(np.concatenate(weighted), np.concatenate(values))[0]
        sigma = np.sqrt(np.array(_squares(J, designs, theta)) / (5 - np.array(_traces(weighted))))
    np.testing.assert_allclose([float(found.functional.observations.sigma[n].max()) for n in "uv"], sigma, rtol=1e-6)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-6)
    # so that the variance of all residuals is 1, and intervals are those of this sigma
    assert 2 * found.loss / (10 - 3) == pytest.approx(1.0, rel=1e-6)


@pytest.fixture(scope="module")
def two():
    """Recordings of 4 and of 4 frames, of which each has a slope a of its own."""
    own = dict.fromkeys("bc", PLAIN) | {"a": pdefit.Control(PLAIN, scope="experiment")}
    made = [lines(ts, seed, own) for seed, ts in enumerate(([0.0, 0.5, 1.0, 1.5], [0.0, 1.0, 1.5, 2.5]))]
    joint = pdefit.Recordings([J for J, _ in made])
    names = joint.controls.names()
    rows = []
    for e, (_, designs) in enumerate(made):
        for x in designs:
            row = np.zeros((4, 4))
            row[:, [names.index(f"a[{e}]"), names.index("b"), names.index("c")]] = x
            rows.append(row)
    return joint, [of for _, designs in made for of in designs], rows


def test_own_unknowns_count_in_their_recording(two):
    joint, _, rows = two
    found = unknowns_by_variable(joint, joint.theta0)
    np.testing.assert_allclose([of[n] for of in found for n in "uv"], _traces(rows), rtol=1e-9)


def test_recordings_share_an_estimated_sigma_or_have_their_own(two):
    joint, designs, rows = two
    left = []
    for (part, own), x in zip([p for p in joint.parts(joint.theta0) for _ in "uv"], designs, strict=True):
        at = own[np.array([part.controls.names().index(n) for n in "abc"])]
        left.append(np.sum((np.asarray(part.observations.values["uv"[len(left) % 2]]) - x @ at) ** 2))
    squares, freedom = np.reshape(left, (2, 2)), 4 - np.reshape(_traces(rows), (2, 2))
    for shared, exact in (((), squares / freedom), (("u",), np.stack([squares.sum(0) / freedom.sum(0)] * 2))):
        by = pdefit.likelihoods.ByPrediction(variables=BOTH.variables, shared=shared)
        new = [part for part, _ in by.apply(joint, joint.theta0)[0].parts(joint.theta0)]
        sigma = np.array([[float(part.observations.sigma[n].max()) for n in "uv"] for part in new])
        np.testing.assert_allclose(sigma[:, 0], np.sqrt(exact[:, 0]), rtol=1e-9)
        np.testing.assert_allclose(sigma[:, 1], np.sqrt((squares / freedom)[:, 1]), rtol=1e-9)


def test_a_variable_that_a_recording_lacks_keeps_its_sigma_there(two):
    joint = two[0]
    lacking = eqx.tree_at(lambda f: f.observations.mask["v"], joint, replace_fn=lambda m: m.at[1].set(False))
    for shared in ((), ("v",)):
        by = pdefit.likelihoods.ByPrediction(variables=BOTH.variables, shared=shared)
        new = by.apply(lacking, joint.theta0)[0].observations.sigma["v"]
        assert np.all(np.isfinite(new)) and np.all(new[0] != 1.0) and np.all(new[1] == 1.0)


def test_many_unknowns_are_shared_in_proportion_to_the_values(two, monkeypatch):
    monkeypatch.setattr(reweight, "_MOST_TANGENTS", 0)
    found = unknowns_by_variable(two[0], two[0].theta0)
    # each has a quarter of the values
    np.testing.assert_allclose([of[n] for of in found for n in "uv"], 1.0)
