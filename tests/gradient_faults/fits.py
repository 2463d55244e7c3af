"""Small fits that faults are planted in."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from zoo import equations
from zoo.cases import FREE_3, LOG, line
from zoo.equations import Flow, SplitFlow, State, lotka_volterra

import pdefit

CYCLE = np.array([1.0, 2.0])


def flow(
    rate: Callable = lotka_volterra,
    at: tuple[float, ...] = (1.0, 0.5, 1.2),
    u0: Any = CYCLE,
    stop: float = 10.0,
    frames: int = 41,
    dt: float = 0.05,
    free: Any = None,
    cls: type = Flow,
    clean: Callable | None = None,
    guess: float = 0.9,
    noise: float = 0.02,
    args: Any = None,
    observe: Any = None,
    **options: Any,
) -> pdefit.Functional:
    """Data of `clean` (default: the rate itself), fitted by another guess."""
    free = FREE_3 if free is None else free
    ts, y0 = np.linspace(0.0, stop, frames), State(jnp.asarray(u0, float))
    extra = {k: options.pop(k) for k in ("symbol", "length") if k in options}
    names = ("a", "b", "c")[: len(at)]
    right = {"symbol": extra["symbol"], "length": extra["length"]} if extra else {}
    truth = (SplitFlow if extra else Flow)(clean or rate, *at, **right)
    look = pdefit.instruments.ObserveAll() if observe is None else observe
    solver = {k: v for k, v in options.items() if k == "solver"}
    data = pdefit.simulate(
        truth, y0, ts, dt=dt, observe=look, args=args, **({} if solver else {"solver": pdefit.solvers.RK4()})
    )
    data = pdefit.add_noise(data, noise, jax.random.key(1))
    wrong = [x * (guess if n in free else 1.0) for n, x in zip(names, at, strict=True)]
    problem = pdefit.Problem(cls(rate, *wrong, **extra), y0, look, args=args)
    return pdefit.Functional(problem, data, free, dt=dt, **options)


def segments(controls: Any = None, **options: Any) -> pdefit.Functional:
    """Multiple shooting with free node states."""
    controls = {**FREE_3, "nodes": {"u": pdefit.transforms.Identity()}} if controls is None else controls
    return flow(free=controls, formulation=pdefit.formulations.Segments(2.0, 1e-2), **options)


def recordings(**options: Any) -> Any:
    """Three of them, with a parameter of their own."""
    free = {
        "a": pdefit.Control(LOG, prior=pdefit.priors.LogNormal(1.3, 0.2)),
        "b": pdefit.Control(LOG, scope="experiment"),
        "c": LOG,
    }
    parts = [
        flow(u0=u0, free=free, at=(1.0, b, 1.2), guess=0.9, frames=31, **options)
        for u0, b in (((1.0, 2.0), 0.5), ((2.0, 1.0), 0.6), ((0.5, 1.5), 0.45))
    ]
    return pdefit.Recordings(parts)


def field(rate: Callable = equations.burgers, **options: Any) -> pdefit.Functional:
    """A front of which the initial state is unknown, too, and kept smooth."""
    free = {"a": LOG, "b": LOG, "y0": {"u": pdefit.Control(smoothing=2.0)}}
    smooth = (pdefit.regularizers.H1("y0.u", 1.0),)
    return flow(
        rate,
        (1.0, 0.02),
        1 + np.sin(2 * np.pi * line(32, 1.0)),
        0.4,
        21,
        0.01,
        clean=equations.burgers,
        **{"free": free, "regularizers": smooth, **options},
    )


def priors(**options: Any) -> pdefit.Functional:
    return flow(
        free={"a": pdefit.Control(LOG, prior=pdefit.priors.LogNormal(2.0, 0.02)), "b": LOG, "c": LOG}, **options
    )


def tiers(device: str = "3 kB", host: Any = 160, file: Any = 0, **options: Any) -> pdefit.drivers.Hosted:
    """Fourteen pieces with ten checkpoints."""
    return pdefit.drivers.Hosted(device, host, file, **options)
