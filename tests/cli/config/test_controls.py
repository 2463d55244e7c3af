import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.cli.config._controls import read_controls
from pdefit.inverse.controls.guesses import FromData, Perturb, Value
from pdefit.inverse.controls.priors import LogNormal, Normal
from pdefit.inverse.controls.transforms import Identity, Log, Log10, Logit, Scale, Softplus


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("identity", Identity()),
        ("log", Log()),
        ("log10", Log10()),
        ("softplus", Softplus()),
        ("logit", Logit()),
        ({"logit": [0.5, 2]}, Logit(0.5, 2.0)),
        ({"scale": 3}, Scale(3.0)),
        ({"scale": "1e-3"}, Scale(1e-3)),
    ],
)
def test_transforms(words, expected):
    for node in (words, {"transform": words}):
        if isinstance(node, str) or "transform" in node:
            assert read_controls({"D": node})["D"].transform == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"guess": 2}, {"guess": Value(2.0)}),
        ({"guess": "1e-3"}, {"guess": Value(1e-3)}),
        ({"guess": "data"}, {"guess": FromData()}),
        ({"guess": {"perturb": [0.3, "3e0"]}}, {"guess": Perturb(0.3, 3.0)}),
        ({"guess": None, "unit": "mm"}, {"guess": None, "unit": "mm"}),
        ({"bounds": [0, "1e2"]}, {"bounds": (0.0, 100.0)}),
        ({"bounds": None}, {"bounds": None}),
        ({"prior": {"normal": [1, 0.5]}}, {"prior": Normal(1.0, 0.5)}),
        ({"prior": {"log_normal": [1, "5e-1"]}}, {"prior": LogNormal(1.0, 0.5)}),
        ({"scale": "1e-3"}, {"scale": 1e-3}),
        ({"smoothing": 4}, {"smoothing": 4.0}),
        ({"modes": 60}, {"modes": 60}),
        ({"scope": "shared"}, {}),
        ({"estimate": False}, {"estimate": False}),
    ],
)
def test_words(words, expected):
    control = read_controls({"D": words})["D"]
    defaults = {
        "guess": None, "bounds": None, "prior": None, "unit": None, "scale": 1.0, "smoothing": None, "modes": None,
        "estimate": True
    }  # fmt: skip
    assert control.transform == Identity()
    assert {name: getattr(control, name) for name in defaults} == defaults | expected


def test_a_guess_may_be_an_array():
    guess = read_controls({"gm": {"guess": [[1, "2e0"], [3, 4]]}})["gm"].guess
    np.testing.assert_array_equal(np.asarray(guess.number), [[1.0, 2.0], [3.0, 4.0]])


def test_controls_nest_like_the_problem():
    read = read_controls({"D": "log", "y0": {"u": {"guess": "data"}, "force": {"x": "identity"}}})
    assert read["D"].transform == Log()
    assert read["y0"]["u"].guess == FromData() and read["y0"]["force"]["x"].transform == Identity()


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"D": "lgo"}, ("controls.D", "did you mean log")),
        ({"D": {"transform": "lgit"}}, ("controls.D.transform", "did you mean logit")),
        ({"D": {"transform": {"logit": [2, 1]}}}, ("controls.D.transform", "lower < upper")),
        ({"D": {"transform": {"logit": [1, 2, 3]}}}, ("controls.D.transform",)),
        ({"D": {"transform": {"log": [1]}}}, ("controls.D.transform",)),
        ({"D": {"guess": {"pertrub": [1, 2]}}}, ("controls.D.guess", "did you mean perturb")),
        ({"D": {"guess": {"perturb": [1]}}}, ("controls.D.guess", "two numbers")),
        ({"D": {"guess": {"perturb": [1, 2], "data": 3}}}, ("controls.D.guess expects a number, a list, data or",)),
        ({"D": {"guess": {"perturb": [3, 1]}}}, ("controls.D.guess", "low <= high")),
        ({"D": {"prior": {"lognormal": [1, 1]}}}, ("controls.D.prior", "did you mean log_normal")),
        ({"D": {"prior": {"normal": [1, 0]}}}, ("controls.D.prior", "positive")),
        ({"D": {"prior": "normal"}}, ("controls.D.prior", "normal")),
        ({"D": {"prior": {"measured": [1, 2]}}}, ("controls.D.prior.measured", "it takes no numbers")),
        ({"y0": {"u": 3}}, ("controls.y0.u", "3")),
        (["D"], ("controls", "mapping")),
    ],
)
def test_a_wrong_word_is_one_sentence_that_names_the_place(node, words):
    with pytest.raises(PdefitError) as error:
        read_controls(node)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)
