"""Profiles of scalars, with the parabolas of the Gauss-Newton matrix."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation, UniformTriRefiner

from pdefit.output.pictures.study import Picture, Record
from pdefit.output.pictures.style import BAD, GOOD, TRUE, panels_of, with_unit

# panels at most
_MOST = 12
# beyond this ratio of its ends a profile has a logarithmic axis
_WIDE = 20.0
# a rise of J that is far outside of a joint region, in units of that at its edge
_FAR = 25.0


def draw_profiles(panels: Sequence[Axes], found: Record) -> None:
    """Draw the increase of J against each scalar, relative to the increase at the interval's ends, with the parabola.

    **Arguments:**

    - `panels`: the axes, one for each scalar.
    - `found`: the content of profiles.json.
    """
    for axes, one in zip(panels, found["profiles"], strict=False):
        values, rise = np.asarray(one["values"]), np.asarray(one["rise"])
        shown = rise <= 1.6
        matrix = np.asarray([one["matrix_values"], one["matrix_rise"]], float)
        axes.plot(*matrix, color="#999999", ls="--", lw=1.0, label="matrix")
        axes.plot(*_between(values[shown], rise[shown], one["estimate"]), color=GOOD, lw=1.2, label="profile")
        axes.plot(values[shown], rise[shown], "o", color=GOOD, ms=3)
        axes.axhline(1.0, color=TRUE, lw=0.8, ls=":")
        for end, edge in zip(one["ends"], (one["low"], one["high"]), strict=True):
            axes.axvline(edge, color=TRUE if end == "limit" else BAD, lw=0.8, ls=":" if end == "limit" else "-")
        ends = values[shown].min(), values[shown].max()
        if ends[0] > 0 and ends[1] / ends[0] > _WIDE:
            axes.set_xscale("log")
        room = 0.08 * (ends[1] - ends[0])
        left = ends[0] - room if axes.get_xscale() == "linear" else ends[0] / 1.1
        axes.set(ylim=(-0.05, 1.5), xlim=(left, ends[1] + room), xlabel=with_unit(one["control"], one["unit"]))


def draw_joint_profiles(panels: Sequence[Axes], found: Record) -> None:
    """Draw the increase of J over two scalars, relative to the increase at the edge of the joint region, and the estimate.

    **Arguments:**

    - `panels`: the axes, one for each pair.
    - `found`: the content of joint_profiles.json.
    """
    for axes, one in zip(panels, found["profiles"], strict=False):
        shape = _refined(one["first"], one["second"], one["rise"])
        shades = axes.tricontourf(*shape, levels=[0, 0.25, 0.5, 1, 2, 4], cmap="Blues_r")
        axes.tricontour(*shape, levels=[1.0], colors=TRUE, linewidths=1.2)
        axes.plot(*one["estimate"], "o", color=BAD, ms=4)
        across, up = map(with_unit, one["controls"], one["units"])
        axes.set(xlabel=across, ylabel=up)
        axes.figure.colorbar(shades, ax=axes, label="rise of J (1: the 95 % region)")


def _name(fig: Figure, panels: Sequence[Axes], found: Record) -> None:
    fig.supylabel("rise of J (1: the 95 % limit)", fontsize=9)
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)


def _shape(found: Record) -> tuple[int, int]:
    return panels_of(min(len(found["profiles"]), _MOST), 3)


def _panels(fig: Figure, found: Record) -> list[Axes]:
    panels = fig.subplots(*_shape(found), squeeze=False).ravel()
    for axes in panels[len(found["profiles"]) :]:
        axes.set_visible(False)
    return panels[: len(found["profiles"])].tolist()


def _size(found: Record, width: float, height: float, beside: float, below: float) -> tuple[float, float]:
    down, across = _shape(found)
    return width * across + beside, height * down + below


PROFILES = Picture("profiles.json", lambda found: _size(found, 2.35, 1.95, 0.3, 0.5), _panels, draw_profiles, _name)
JOINT_PROFILES = Picture(
    "joint_profiles.json", lambda found: _size(found, 2.9, 2.5, 0.6, 0.3), _panels, draw_joint_profiles
)


def _between(values: np.ndarray, rise: np.ndarray, estimate: float) -> tuple[np.ndarray, np.ndarray]:
    """Intermediate values and the increase there; its signed root is interpolated linearly, exact for a parabola."""
    root = np.sign(values - estimate) * np.sqrt(np.maximum(rise, 0.0))
    fine = np.union1d(np.linspace(values[0], values[-1], 100), values)
    return fine, np.interp(fine, values, root) ** 2


def _refined(
    first: list[float], second: list[float], rise: list[list[float | None]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A surface refined by cubic interpolation between grid points: x, y and the surface."""
    # missing where the model blows up, which is far outside
    values = np.asarray([[_FAR if x is None else min(x, _FAR) for x in row] for row in rise])
    places = np.meshgrid(*(np.arange(n) for n in values.shape), indexing="ij")
    fine, values = UniformTriRefiner(Triangulation(*map(np.ravel, places))).refine_field(np.ravel(values), subdiv=2)
    x, y = (np.interp(at, np.arange(len(of)), of) for at, of in ((fine.x, first), (fine.y, second)))
    return x, y, values
