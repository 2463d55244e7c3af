"""Formulas of derived quantities: what they may name, and the scale on which an interval is symmetric."""

import numpy as np
import pytest
from problems import decays, fisher_functional, lines

import pdefit
from pdefit._util.errors import PdefitError
from pdefit.inverse.uncertainty.quantities import quantities, read_formulas

LOG, TS = pdefit.transforms.Log(), np.linspace(0.0, 3.0, 5)


@pytest.fixture(scope="module")
def functional():
    """a is positive, b of either sign, and c known as 3.1."""
    return lines(TS, controls={"a": LOG, "b": pdefit.transforms.Identity()})[0]


@pytest.mark.parametrize(
    ("formula", "scale"),
    [
        ("a", "Log"), ("b", "Identity"), ("c", "Log"), ("-a", "Identity"), ("a / c", "Log"), ("log(2) / a", "Log"),
        ("log(0.5) / a", "Identity"), ("log(c) / a", "Identity"), ("a - c", "Identity"), ("a + 2 * c", "Log"),
        ("exp(b)", "Log"), ("a^b", "Log"), ("b^2", "Identity"), ("sqrt(a) * exp(-b)", "Log"), ("a * b", "Identity"),
        ("abs(b)", "Identity"), ("1 - a / c", "Identity"), ("2", "Log"), ("-2", "Identity"),
    ],
)  # fmt: skip
def test_a_formula_that_is_always_positive_has_the_scale_of_a_logarithm(functional, formula, scale):
    (bound,) = quantities(functional, read_formulas({"q": formula}))
    assert type(bound.transform).__name__ == scale


@pytest.mark.parametrize(
    ("formulas", "said"),
    [
        ({"R0": "a / gamma"}, r"No scalar parameter \(derive.R0\) is called 'gamma'; there are: a, b, c"),
        ({"a": "b"}, "derive.a has the name of a parameter; choose another name"),
        ({"c": "b"}, "derive.c has the name of a parameter; choose another name"),
        ({"R0": "a / "}, "The formula 'a / ' cannot be read: it ends too early"),
        ({"R0": "a.__class__"}, r"No scalar parameter \(derive.R0\) is called 'a.__class__'"),
        ({"R 0": "a"}, r"derive expects names and formulas such as {R0: beta / gamma}, but got {'R 0': 'a'}"),
        ("a / b", "derive expects names and formulas"),
    ],
)
def test_what_means_nothing_is_refused_in_one_sentence(functional, formulas, said):
    with pytest.raises(PdefitError, match=said):
        quantities(functional, read_formulas(formulas))


def test_a_field_is_no_scalar_and_elements_of_an_array_are():
    start = fisher_functional({"y0": {"u": pdefit.Control()}, "r": LOG}, guess=(1.0, 2.0))
    with pytest.raises(PdefitError, match=r"No scalar parameter \(derive.q\) is called 'y0.u'"):
        quantities(start, read_formulas({"q": "2 * y0.u"}))
    with pytest.raises(PdefitError, match="derive.r has the name of a parameter"):
        quantities(start, read_formulas({"r": "D"}))
    (speed,) = quantities(start, read_formulas({"q": "2 * sqrt(D * r)"}))
    assert speed.places == {"r": 0} and speed.known == {"D": 1.0} and speed.unit == ""
    (alone,) = quantities(start, read_formulas({"q": "r"}))
    assert alone.unit == "1/s"
    first = decays(1, controls={"y0": {"u": LOG}})[0]
    (one,) = quantities(first, read_formulas({"q": "y0.u.2 / y0.u.0"}))
    assert one.places == {"y0.u.2": 2, "y0.u.0": 0}
