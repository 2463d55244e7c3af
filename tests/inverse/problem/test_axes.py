"""Axes of fields for files and pictures."""

import numpy as np
from problems import fisher_functional

import pdefit
from pdefit.inverse.problem.axes import file_name, film_axes, observed_axes


def test_an_instrument_that_moves_points_has_axes_of_its_own_beside_the_field():
    functional = fisher_functional(guess=(1.0, 1.0))
    problem, data = functional.problem, functional.observations
    alone = film_axes(problem, data)
    assert [*alone.all] == ["u"] and alone.measured == {} and alone.named("u") == "u"
    x = alone.fields["u"].coords["x"]
    coarse = pdefit.Problem(problem.system, problem.y0, pdefit.instruments.Subsample((4,), (2,)))
    values = {"u": np.asarray(data.values["u"])[:, 2::4]}
    record = pdefit.Observations.build(np.asarray(data.ts), values)
    axes = film_axes(coarse, record)
    assert [*axes.all] == ["u_state", "u"] and axes.named("u") == "u_state"
    np.testing.assert_allclose(observed_axes(coarse, record)["u"].coords["u_x"], x[2::4])
    # without a record a film has the states alone
    assert [*film_axes(coarse).all] == ["u"]
    assert file_name("y0.v[3]") == "v_3"
