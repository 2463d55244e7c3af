"""The quality of a fit of one record."""

import numpy as np
from problems import decays

import pdefit
from pdefit.analysis.goodness.quality import setting_of
from pdefit.analysis.goodness.remainder import Remainder


def test_unknown_functions_of_time_and_a_free_start_decide_what_loud_frames_mean():
    decay = decays(1)[0]
    problem = pdefit.Problem(
        decay.problem.system, decay.problem.y0, args=pdefit.Inputs(q=pdefit.TimeSeries([0.0, 1.0], [1.0, 1.0]))
    )
    log = pdefit.transforms.Log()
    for controls, courses, free in (
        ({"k": log, "args": {"q": {"values": log}}}, ("args.q.values",), False),
        ({"k": log, "y0": {"u": log}}, (), True),
    ):
        setting = setting_of(pdefit.Functional(problem, decay.observations, controls, dt=0.02))
        assert (setting.courses, setting.start_is_free) == (courses, free)
        np.testing.assert_array_equal(setting.times, decay.observations.ts)


def test_films_are_made_once_and_residuals_are_one_vector_beside_what_numbers_took_up():
    decay = decays(1)[0]
    r, d = np.random.default_rng(0).normal(size=(2, *np.shape(decay.fitted("u"))))
    left = Remainder(decay, {"u": r}, [{"u": d}])
    (film,) = left.films
    assert left.films[0] is film and film.directions.shape[0] == 1
    np.testing.assert_allclose(left.beside(left.flat(left.residuals)) @ d.ravel(), 0, atol=1e-12)
    np.testing.assert_array_equal(left.replaced(2 * left.flat({"u": r})).residuals["u"], 2 * r)
    # an error of first order is twice the change with half the step, and all of it goes
    off = Remainder(decay, {"u": -2 * d}).without_discretisation([{"u": d}])
    np.testing.assert_allclose(off.residuals["u"], 0, atol=1e-10)
