"""Formulas: what they mean, what they are written as, and what is no formula."""

import jax.numpy as jnp
import numpy as np
import pytest

from pdefit._util.errors import PdefitError
from pdefit.systems.terms.expression import Expression, _Reader

POINT = {"x": jnp.asarray(0.7), "y": jnp.asarray(-1.3), "c1": jnp.asarray(2.0)}
MEANT = {
    "x * y - c1 * y^2": lambda x, y, c: x * y - c * y**2,
    "-x^2": lambda x, y, c: -(x**2),
    "2^-x": lambda x, y, c: 2**-x,
    "x^2^3": lambda x, y, c: x**8,
    "x - y - c1": lambda x, y, c: x - y - c,
    "x - (y - c1)": lambda x, y, c: x - (y - c),
    "x / y / c1": lambda x, y, c: x / y / c,
    "x / (y * c1)": lambda x, y, c: x / (y * c),
    "(-x)^2 + (x + y) * c1": lambda x, y, c: x**2 + (x + y) * c,
    "--x": lambda x, y, c: x,
    "x + -y": lambda x, y, c: x - y,
    "c1 * x / (0.5 + x) + sin(x)*exp(-y) - tanh(x/2) + sqrt(x) + abs(y) + log(x)": lambda x, y, c: (
        c * x / (0.5 + x) + np.sin(x) * np.exp(-y) - np.tanh(x / 2) + np.sqrt(x) + np.abs(y) + np.log(x)
    ),
    "1.5e-3 * x + .25": lambda x, y, c: 1.5e-3 * x + 0.25,
}


@pytest.mark.parametrize("text", MEANT)
def test_a_formula_means_what_it_says_and_is_written_so_again(text):
    found = Expression.parse(text)
    wanted = MEANT[text](0.7, -1.3, 2.0)
    assert float(found(POINT)) == pytest.approx(wanted, rel=1e-12)
    assert Expression.parse(str(found)) == found


def test_names_may_be_paths_of_numbers_where_these_are_allowed():
    text = "gm.Mars / y0.u[3].17 - k[1] * x.2e3"
    found = Expression.parse(text, paths=True)
    assert found.names == ("gm.Mars", "y0.u[3].17", "k[1]", "x.2e3") and str(found) == text
    with pytest.raises(PdefitError, match="'gm.Mars' is no name"):
        Expression.parse(text)


def test_latex_and_names():
    found = Expression.parse("c1 * prey * x_2 / (K + x_2^2) - sqrt(x)")
    assert found.names == ("c1", "prey", "x_2", "K", "x")
    assert found.latex({"c1": "0.9"}) == r"\frac{0.9 \, \mathrm{prey} \, x_{2}}{K + x_{2}^{2}} - \sqrt{x}"
    assert Expression.parse("abs(x) + exp(-x)").latex() == r"\left|x\right| + \exp\left(-x\right)"


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "^", "negative"])
def test_every_part_is_written_once(sign, monkeypatch):
    written, write = [], Expression.latex

    def counted(self, words=None):
        written.append(self)
        assert len(written) <= 121
        return write(self, words)

    monkeypatch.setattr(Expression, "latex", counted)
    x = chain = Expression("name", value="x")
    for _ in range(60):
        chain = Expression(sign, (chain,) if sign == "negative" else (chain, x))
    assert chain.latex().count("x") == (1 if sign == "negative" else 61)


HOSTILE = [
    "", " ", "x +", "* x", "x y", "(x", "x)", "2 x", "x ** 2", "x^", "f(x)", "sin()", "sin(x, y)", "x = 2", "x; y", "0x1F",
    "__import__('os')", "x.__class__", "lambda: 1", "[x]", "{x}", "x if y else 0", "'a'", '"a"', "x\\y", "x\ny?", "1e999",
    "x@y", "x%y", "x//y", "!x", "~x", "x<y", "eval(x)", "exec(x)", "open(x)", "x[0]", "1..2", "é + x", "٣ + x", "x\x00", "$x$",
    "(" * 40 + "x" + ")" * 40, "x^" * 40 + "x", "x + " * 200 + "x", "-" * 600 + "x", "sin(" * 35 + "x" + ")" * 35,
]  # fmt: skip


def test_what_is_no_formula_is_one_sentence():
    for text in HOSTILE:
        with pytest.raises(PdefitError) as error:
            Expression.parse(text)
        assert len(str(error.value)) < 260 and "\n" not in str(error.value), text


@pytest.mark.parametrize("wrong", [12, None, ["x"]])
def test_a_formula_that_is_no_text_is_one_sentence(wrong):
    with pytest.raises(PdefitError, match=r"A formula is a text of at most 500 characters, such as 'x \* y', but got "):
        _Reader(wrong)


def test_noise_of_signs_is_a_formula_or_one_sentence():
    draw = np.random.default_rng(0)
    pieces = ["x", "y", "sin", "(", ")", "+", "-", "*", "/", "^", "1", ".", "e", " ", "_", ",", "%", "2.5", "\t"]
    for _ in range(2000):
        text = "".join(draw.choice(pieces, draw.integers(1, 25)))
        try:
            found = Expression.parse(text)
        except PdefitError as error:
            assert "cannot be read" in str(error)
        else:
            assert Expression.parse(str(found)) == found
