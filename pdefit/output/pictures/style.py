"""Style of all figures: colours, lines, sizes."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pdefit._util.atomic import beside

# Okabe and Ito's palette, distinguishable with colour-blind eyes (https://jfly.uni-koeln.de/color)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#332288", "#8C6D1F")
GOOD, BAD, PALE = COLORS[0], COLORS[1], "#C9D6E2"
# colours of the truth, the observations, the prediction, and the start of the forecast
TRUE, OBSERVED, PREDICTED, BEYOND = "#000000", COLORS[6], COLORS[0], COLORS[1]
NAMES = {"true": "truth", "observed": "observed", "predicted": "prediction"}
_LOOKS: dict[str, dict[str, Any]] = {
    "observed": {"color": OBSERVED, "ls": "", "marker": ".", "ms": 5, "mew": 0},
    "true": {"color": TRUE, "lw": 0.9},
    "predicted": {"color": PREDICTED, "lw": 1.4},
}
# colour maps: perceptually uniform for values, with a white zero for errors, grey for missing values
SEQUENTIAL, DIVERGING, MISSING = "viridis", "RdBu_r", "#D9D9D9"
DPI = 160
FORMATS = ("png", "svg", "pdf")

_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "xtick.direction": "out",
    "savefig.facecolor": "white",
    # text in SVG and PDF stays text, and the same run gives the same bytes
    "svg.fonttype": "none",
    "svg.hashsalt": "pdefit",
    "pdf.fonttype": 42,
}


def looks(kinds: Collection[str], **predicted: Any) -> dict[str, dict[str, Any]]:
    """Styles of lines of these kinds, in the order in which they are drawn.

    A prediction is dashed where the truth is drawn too. Keywords change the style of the prediction.
    """
    found = {kind: look for kind, look in _LOOKS.items() if kind in kinds}
    found["predicted"] = {**found["predicted"], "ls": "--" if "true" in kinds else "-", **predicted}
    return found


@contextmanager
def styled() -> Iterator[None]:
    """Style of figures inside the block. No window is opened, and no global state is changed after it."""
    with matplotlib.rc_context(_RC):
        yield


@contextmanager
def figure(path: Path, width: float = 7.0, height: float = 3.6, layout: Any = "constrained") -> Iterator[Figure]:
    """Figure that is saved when the block ends, in the format that the suffix of `path` names.

    **Arguments:**

    - `width`, `height`: in inches.
    - `layout`: of matplotlib; None where parts stay where they are put.
    """
    with styled():
        fig = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(fig)
        yield fig
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path) as neighbour:
            fig.savefig(neighbour, dpi=DPI)
