"""Pictures of the tutorials, from the variables that an example leaves. Each function is named after its example."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pdefit


def _figure(columns: int, width: float = 8.0, height: float = 2.8) -> tuple[Figure, Any]:
    return plt.subplots(1, columns, figsize=(width, height), layout="constrained")


def _film(axes: Any, values: Any, title: str, extent: tuple[float, float, float, float], **limits: float) -> Any:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("x (mm)" if "mm" in limits else "x")
    limits.pop("mm", None)
    return axes.imshow(np.asarray(values), origin="lower", aspect="auto", extent=extent, **limits)


def your_equation(g: dict[str, Any]) -> Figure:
    found, x, times = g["found"], g["x"], g["times"]
    fitted = pdefit.simulate(found.problem.system, found.problem.y0, times).values["u"]
    figure, axes = _figure(1, 6.0, 3.0)
    for i, colour in zip((0, 5, 10, 20), plt.get_cmap("viridis")([0.0, 0.3, 0.6, 0.9]), strict=True):
        axes.plot(x, g["film"][i], ".", color=colour, markersize=4)
        axes.plot(x, fitted[i], color=colour, label=f"{times[i]:g} s")
    axes.set(xlabel="x (mm)", ylabel="dye")
    axes.legend(title="dots: data, lines: fit", fontsize=8, title_fontsize=8)
    return figure


def your_film(g: dict[str, Any]) -> Figure:
    film, found = g["film"], g["found"]
    seen = np.where(np.asarray(film.mask["u"]), np.asarray(film.values["u"]), np.nan)
    fitted = np.asarray(pdefit.simulate(found.problem.system, found.problem.y0, film.ts).values["u"])
    extent = (0.0, g["grid"].extent[0], film.ts[0], film.ts[-1])
    figure, axes = _figure(3, 9.0)
    for a, values, title in zip(axes[:2], (seen, fitted), ("film", "fit"), strict=True):
        shown = _film(a, values, title, extent, vmin=0.0, vmax=1.0, mm=True)
    axes[0].set_ylabel("time (s)")
    figure.colorbar(shown, ax=axes[:2])
    left = _film(axes[2], (seen - fitted) / g["noise"].sigma, "residual / sigma", extent, vmin=-3, vmax=3, mm=True)
    left.set_cmap("RdBu")
    figure.colorbar(left, ax=axes[2])
    return figure


def hidden_fields(g: dict[str, Any]) -> Figure:
    times, extent = g["times"], (0.0, g["grid"].extent[0], g["times"][0], g["times"][-1])
    figure, axes = _figure(4, 10.0)
    panels = (g["film"].values["v"], g["hidden"], g["best"], np.asarray(g["best"]) - np.asarray(g["hidden"]))
    titles = ("seen: voltage", "hidden: recovery, truth", "recovery, estimate", "its error")
    for i, (a, values, title) in enumerate(zip(axes, panels, titles, strict=True)):
        limits = {"vmin": -0.2, "vmax": 0.2} if i == 3 else {"vmin": -0.8, "vmax": 1.6} if i else {}
        shown = _film(a, values, title, extent, **limits)
        shown.set_cmap("RdBu" if i == 3 else "viridis")
        figure.colorbar(shown, ax=a, location="bottom")
    axes[0].set_ylabel("time")
    assert len(times) > 1
    return figure


def chaos(g: dict[str, Any]) -> Figure:
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 4.2), sharex=True, layout="constrained")
    data = g["data"]
    for a, name, label in zip(axes, ("alone", "found"), ("single shooting", "multiple shooting"), strict=True):
        fit = g[name]
        a.plot(data.ts, data.values["u"][:, 0], ".", color="0.6", markersize=3, label="data")
        starts = fit.functional.starts(fit.problem)
        nodes = fit.functional.layout.nodes
        ends = [*nodes[1:], data.ts.size - 1]
        for i, (first, last) in enumerate(zip(nodes, ends, strict=True)):
            ts = np.linspace(data.ts[first], data.ts[last], 20 * (last - first) // 4 + 2)
            y0 = type(starts)(starts.u[i])
            run = pdefit.simulate(fit.problem.system, y0, ts, dt=0.01)
            a.plot(ts, run.values["u"][:, 0], color="C0" if i % 2 == 0 else "C1", linewidth=1)
        a.set(title=label, ylabel="x")
        a.title.set_fontsize(10)
    axes[1].set_xlabel("time")
    return figure


def recordings(g: dict[str, Any]) -> Figure:
    figure, axes = _figure(2, 8.0)
    rows = [("all three", g["known"], 0)] + [(f"dish {e}", one, 0) for e, one in enumerate(g["singles"])]
    for y, (name, known, i) in enumerate(rows[::-1]):
        axes[0].plot([known.low[i], known.high[i]], [y, y], color="C0" if name == "all three" else "0.5", linewidth=4)
        axes[0].plot(known.estimate[i], y, "k.")
    axes[0].set_yticks(range(len(rows)), [name for name, *_ in rows[::-1]])
    axes[0].axvline(g["D"], color="C3", linewidth=1)
    axes[0].set(xlabel="D (mm$^2$/s), line: truth")
    known = g["known"]
    for e, r in enumerate(g["rates"]):
        axes[1].plot([known.low[e + 1], known.high[e + 1]], [2 - e, 2 - e], color="C0", linewidth=4)
        axes[1].plot([r, r], [2 - e - 0.2, 2 - e + 0.2], color="C3", linewidth=1)
    axes[1].set_yticks(range(3), ["dish 2", "dish 1", "dish 0"])
    axes[1].set(xlabel="r (1/s)")
    return figure


def network(g: dict[str, Any]) -> Figure:
    u = np.linspace(-0.5, 1.5, 201)
    figure, axes = _figure(1, 5.5, 3.0)
    axes.axvspan(0.0, 1.0, color="0.92", label="densities in the film")
    axes.plot(u, u * (1 - u), "k--", label="truth")
    axes.plot(u, np.asarray(g["learnt"](u[:, None]))[:, 0], color="C0", label="network")
    axes.set(xlabel="u", ylabel="f(u)")
    axes.legend(fontsize=8)
    return figure
