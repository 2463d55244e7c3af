"""The bootstrap beside the covariance of a linear problem, which is known."""

import numpy as np
import pytest
from problems import decays

import pdefit
from pdefit._util.errors import PdefitError

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


def test_a_bootstrap_of_segments_is_refused():
    (functional,) = decays(1)
    cut = functional.reformulated(pdefit.formulations.Segments(0.5), functional.theta0)
    with pytest.raises(PdefitError, match="one trajectory"):
        pdefit.bootstrap(cut, cut.theta0)
    with pytest.raises(PdefitError, match="2 or more"):
        pdefit.Bootstrap(count=1)
