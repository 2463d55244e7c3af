"""The result of a fit as a table."""

from problems import fisher_functional, positions_functional

import pdefit
from pdefit.inverse.objective.abstract import AbstractObjective


def _found(functional: AbstractObjective) -> pdefit.Fit:
    return pdefit.Fit(functional, functional.theta0, 2.0, 30.0, [], 7, "done", False, {}, ["<stopped> early"])


def test_a_table_of_estimates():
    found = _found(fisher_functional())
    assert repr(found) == "Fit: done, not converged, loss 30 to 2 in 7 iterations"
    found.loss_initial = float("nan")
    assert repr(found) == "Fit: done, not converged, loss not finite at the guess to 2 in 7 iterations"
    shown = found._repr_html_()
    assert "<td>D</td><td>mm^2/s</td><td>0.6</td>" in shown and "<td>r</td><td>1/s</td><td>1.5</td>" in shown
    assert "&lt;stopped&gt; early" in shown


def test_states_at_the_starts_of_segments_are_left_out():
    functional = positions_functional()
    shown = _found(functional)._repr_html_()
    assert functional.controls.nodes and "nodes" not in shown and "<td>gm</td>" in shown


def test_a_field_is_shown_by_its_range():
    field = pdefit.Control(pdefit.transforms.Identity())
    shown = _found(fisher_functional({"y0.u": field}))._repr_html_()
    assert "<td>y0.u</td>" in shown and "(64 values)</td>" in shown


def test_many_recordings_have_rows_of_their_own():
    own = pdefit.Control(pdefit.transforms.Log(), scope="experiment")
    parts = [fisher_functional({"D": pdefit.transforms.Log(), "r": own}, guess=(0.6, r)) for r in (1.5, 2.0)]
    shown = _found(pdefit.Recordings(parts))._repr_html_()
    assert "<td>r[0]</td><td>1/s</td><td>1.5</td>" in shown and "<td>r[1]</td><td>1/s</td><td>2</td>" in shown
    assert shown.count("<td>D</td>") == 1


def test_intervals_name_their_elements():
    functional = fisher_functional(noise=0.02)
    found = pdefit.intervals(functional, functional.theta0)
    assert (found.names, found.units) == (("D", "r"), ("mm^2/s", "1/s"))
    row = f"<td>D</td><td>mm^2/s</td><td>0.6</td><td>{found.low[0]:.5g} to {found.high[0]:.5g}</td>"
    assert row in found._repr_html_()
