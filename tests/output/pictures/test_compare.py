"""What runs leave unexplained, beside each other in one scale."""

import contextlib

import films
import numpy as np
import pytest

from pdefit.data.readers.fields import open_film
from pdefit.output.pictures.compare import misfits, write_compare_page

FITTED = [0, 1, 2, 3]


@pytest.fixture
def left(tmp_path):
    """Misfits of two films of the same data, of which the second predicts them half as well."""
    fields = {"plane": films.PLANE, "line": films.LINE, "species": films.SPECIES}
    rng = np.random.default_rng(0)
    noise = {(name, i): rng.standard_normal(films.shape_of(where)) for name, where in fields.items() for i in range(6)}

    def values(size):
        return lambda name, kind, i: size * noise[name, i] if kind == "predicted" else 0 * noise[name, i]

    with contextlib.ExitStack() as stack:
        paths = {n: films.write_film(tmp_path / n, fields, values=values(size)) for n, size in (("a", 1.0), ("b", 2.0))}
        yield {n: misfits(stack.enter_context(open_film(path)), FITTED) for n, path in paths.items()}, noise


def test_misfits_are_prediction_minus_data(left):
    a, noise = left[0]["a"], left[1]
    assert [*a] == ["heat plane (K)", "voltage line (mV)", "species"]
    plane, line, species = a.values()
    expected = {name: np.stack([noise[name, i] for i in FITTED], -1) for name in ("plane", "line", "species")}
    # x runs to the right; the mean of noise times the root of the number of frames has the size of the noise
    np.testing.assert_allclose(plane.values.T, 2 * expected["plane"].mean(-1))
    np.testing.assert_allclose(line.values, expected["line"])
    np.testing.assert_allclose(species.values, expected["species"])
    for misfit, name in ((plane, "plane"), (line, "line"), (species, "species")):
        assert misfit.size == pytest.approx(np.sqrt(np.mean(expected[name] ** 2)))
    assert [axis.name for axis in line.quantity.axes] == ["s", "time"]


def test_all_runs_share_the_scale_of_the_noise(left, saved_figures, tmp_path):
    write_compare_page(tmp_path / "compare.html", left[0], tables={"results": {"chi2": ["1", "2"]}}, reports=["", ""])
    (figure,) = saved_figures
    titled = [(axes.get_title("left"), axes) for axes in figure.axes]
    panels = {title: axes for title, axes in titled if title}
    assert len(panels) == 6
    for name in ("heat plane (K)", "voltage line (mV)"):
        first, second = (panels[f"{run}: {name}"].images[0] for run in "ab")
        assert first.get_clim() == second.get_clim() and first.get_clim()[0] == -first.get_clim()[1]
        np.testing.assert_allclose(second.get_array(), 2 * first.get_array())
    assert panels["a: species"].get_ylim() == panels["b: species"].get_ylim()
    # the noise is the smallest residual of the runs, that of the first
    misfit = left[0]["a"]["species"]
    np.testing.assert_allclose(panels["a: species"].lines[0].get_ydata(), misfit.values[0] / misfit.size)
