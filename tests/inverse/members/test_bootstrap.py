"""The bootstrap beside the covariance of a linear problem, which is known."""

import numpy as np
import pytest
from problems import decays

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.inverse.members._drawn_recordings import drawn
from pdefit.inverse.objective.compiled import EQUATIONS, VALUE

LM = pdefit.optimizers.LevenbergMarquardt()


@pytest.mark.parametrize("kind", ["parametric", "blocks"])
def test_the_spread_of_repetitions_is_that_of_the_matrix(kind):
    (functional,) = decays(1, frames=60, sigma=0.02, noise=0.0)
    noisy = functional.observations.values["u"] + 0.02 * np.random.default_rng(3).standard_normal((60, 3))
    data = pdefit.Observations.build(functional.observations.ts, {"u": noisy}, 0.02)
    functional = pdefit.Functional(functional.problem, data, {"k": pdefit.transforms.Log()}, dt=0.1)
    fit = pdefit.fit(functional, [LM])
    matrix = pdefit.intervals(fit.functional, fit.theta, sigma_stated=True, equations=fit.equations)
    found = pdefit.bootstrap(fit.functional, fit.theta, pdefit.Bootstrap(400, kind, block=1), seed=2)
    # 400 repetitions tell a standard deviation to 3.5 %, and the residuals of one record theirs to 5 %
    assert found.failed == 0 and found.theta.std(ddof=1) / matrix.error[0] == pytest.approx(1.0, abs=0.16)
    assert found.low[0] < np.exp(fit.theta[0]) < found.high[0]
    again = pdefit.bootstrap(fit.functional, fit.theta, pdefit.Bootstrap(400, kind, block=1), seed=2)
    assert np.array_equal(again.theta, found.theta)


# one rate for decays of different rates: no noise has what this model misses
MANY = {"k": pdefit.transforms.Log(), "y0": {"u": pdefit.Control(scope="experiment")}}


def test_the_spread_over_drawn_recordings_is_that_of_their_scores():
    joint = pdefit.Recordings(decays(16, controls=MANY, frames=4, noise=0.01))
    alone = [float(VALUE(drawn(joint, row), joint.theta0)) for row in np.eye(16, dtype=int)]
    times = np.arange(16) % 3
    assert float(VALUE(drawn(joint, times), joint.theta0)) == pytest.approx(float(times @ alone), rel=1e-12)
    fit = pdefit.fit(joint, [LM])
    _, (_, gradient, arrow) = EQUATIONS(fit.functional, fit.theta)
    # the rate with the own first values adjusted
    inner, between, own = (
        np.asarray(x) for x in (arrow.matrix[:, 0, 0], arrow.matrix[:, 1:, 0], arrow.matrix[:, 1:, 1:])
    )
    adjusted = np.linalg.solve(own, between[:, :, None])[:, :, 0]
    slope = np.asarray(arrow.gradient)
    scores = slope[:, 0] - np.sum(adjusted * slope[:, 1:], axis=1)
    error = np.sqrt(np.sum(scores**2)) / np.sum(inner - np.sum(adjusted * between, axis=1))
    found = pdefit.bootstrap(fit.functional, fit.theta, pdefit.Bootstrap(100, "recordings"), seed=1)
    assert found.failed == 0 and found.names == ("k",) and found.theta.shape == (100, 1)
    # 100 repetitions tell a standard deviation to 7 %
    assert found.theta.std(ddof=1) / error == pytest.approx(1.0, abs=0.2)
    assert found.low[0] < np.exp(fit.theta[0]) < found.high[0]
    # from a minimum a few steps tell the same
    few = pdefit.bootstrap(fit.functional, fit.theta, pdefit.Bootstrap(20, "recordings", steps=4), seed=1)
    assert few.failed == 0 and few.theta.std() == pytest.approx(float(found.theta[:20].std()), rel=0.02)


def test_a_bootstrap_of_recordings_wants_recordings_that_share_something():
    single = decays(2)
    with pytest.raises(PdefitError, match="many recordings"):
        pdefit.bootstrap(single[0], single[0].theta0, pdefit.Bootstrap(kind="recordings"))
    apart = pdefit.Recordings(decays(2, controls={"k": pdefit.Control(pdefit.transforms.Log(), scope="experiment")}))
    with pytest.raises(PdefitError, match="only its own"):
        pdefit.bootstrap(apart, apart.theta0, pdefit.Bootstrap(kind="recordings"))
    prior = pdefit.Control(prior=pdefit.priors.Normal(1.0, 0.1), scope="experiment")
    known = pdefit.Recordings(decays(2, controls={"k": pdefit.transforms.Log(), "y0": {"u": prior}}))
    with pytest.raises(PdefitError, match="bounds instead"):
        pdefit.bootstrap(known, known.theta0, pdefit.Bootstrap(kind="recordings"))


def test_a_bootstrap_of_segments_is_refused():
    (functional,) = decays(1)
    cut = functional.reformulated(pdefit.formulations.Segments(0.5), functional.theta0)
    with pytest.raises(PdefitError, match="one trajectory"):
        pdefit.bootstrap(cut, cut.theta0)
    with pytest.raises(PdefitError, match="2 or more"):
        pdefit.Bootstrap(count=1)
