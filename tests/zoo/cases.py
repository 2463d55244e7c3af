"""Thirty-seven small smooth systems, each with a fit of its own, on which the certificate must not raise a false alarm.

`CASES[name].draw(seed, off)` makes data from parameters that the seed draws, and a functional that starts from others.
"""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_cardiac import BOCF, EPI, AlievPanfilov
from pdefit_cardiac.parameter_sets import ALIEV_PANFILOV
from pdefit_particles import Gravity
from pdefit_reaction import FisherKPP

import pdefit
from zoo.case import Case
from zoo.equations import (
    Drive,
    allen_cahn,
    brusselator,
    burgers,
    chua,
    double_pendulum,
    duffing,
    epidemic,
    fermi_pasta_ulam,
    fitzhugh_nagumo,
    gray_scott,
    kdv,
    kuramoto,
    kuramoto_sivashinsky,
    lennard_jones,
    logistic,
    lorenz,
    lorenz96,
    lotka_volterra,
    morris_lecar,
    network,
    oregonator,
    patterns,
    pendulum,
    robertson,
    roessler,
    schroedinger,
    swift_hohenberg,
    toda,
    van_der_pol,
)


def line(n: int, length: float) -> np.ndarray:
    return np.arange(n) * length / n


def two(n: int = 33, stop: float = 4.0) -> np.ndarray:
    return np.linspace(0.0, stop, n)


LOG = pdefit.transforms.Log()
FREE_3 = {"a": LOG, "b": LOG, "c": LOG}
X32 = line(32, 2 * np.pi)
SOLITON = 2.0 / np.cosh(line(64, 20.0) - 7.0) ** 2
PACKET = np.stack([np.cos(line(32, 16.0) * np.pi / 4), np.sin(line(32, 16.0) * np.pi / 4)]) / np.cosh(
    line(32, 16.0) - 8
)
BODIES = np.array(
    [[[0.0, 0.0], [1.15, 0.1], [0.5, 1.1], [1.7, 1.05]], [[0.1, 0.0], [-0.2, 0.3], [0.0, -0.3], [0.1, 0.0]]]
)
THREE = {
    "names": ("one", "two", "three"),
    # a light body falls past a heavy one at a twentieth of their first distance
    "position": [[0.0, 0.0], [1.0, 0.0], [-0.9, 2.0]],
    "velocity": [[0.0, 0.0], [0.0, 0.3], [0.4, 0.0]],
    "length_unit": "1",
}
CABLE = pdefit.CartesianGrid(shape=(24,), extent=(0.6,), length_unit="cm")
FRONT = pdefit.CartesianGrid(shape=(48,), extent=(40.0,), origin=(-20.0,))
SIR = np.array([0.98, 0.02, 0.0])
KVAERNO = diffrax.Kvaerno3()
MLP = eqx.nn.MLP(2, 2, 6, 1, activation=jnp.tanh, key=jax.random.key(5))
SEGMENTS = {"formulation": pdefit.formulations.Segments(0.5)}

CASES: dict[str, Case] = {
    "lorenz": Case(lorenz, (10.0, 28.0, 8 / 3), [1.0, 1.0, 20.0], two(41, 2.0), 0.01, FREE_3),
    "lorenz_long": Case(lorenz, (10.0, 28.0, 8 / 3), [1.0, 1.0, 20.0], two(81, 8.0), 0.01, spread=0.02),
    "lorenz_segments": Case(
        lorenz, (10.0, 28.0, 8 / 3), [1.0, 1.0, 20.0], two(41, 4.0), 0.01, FREE_3, options=SEGMENTS
    ),
    "lorenz96": Case(lorenz96, (8.0, 1.0), 1 + np.sin(np.arange(12.0)), two(41, 3.0), 0.02),
    "roessler": Case(roessler, (0.2, 0.2, 5.7), [1.0, 2.0, 0.1], two(41, 20.0), 0.05, FREE_3, spread=0.1),
    "chua": Case(chua, (10.0, 14.87), [0.4, -0.1, 0.2], two(41, 10.0), 0.02, spread=0.05),
    "van_der_pol": Case(van_der_pol, (1.0, 1.0), [2.0, 0.0], two(41, 20.0), 0.05),
    "van_der_pol_stiff": Case(van_der_pol, (10.0, 1.0), [2.0, 0.0], two(33, 20.0), 0.02, solver=KVAERNO, spread=0.1),
    "duffing": Case(
        duffing,
        (0.2, 0.5, 1.0),
        [1.0, 0.0],
        two(41, 20.0),
        0.05,
        {"a": LOG, "c": LOG, "args": {"strength": LOG, "rate": pdefit.transforms.Identity()}},
        args=Drive(0.4, 1.2),
        spread=0.1,
    ),
    "pendulum": Case(
        pendulum,
        (1.0, 0.05),
        [2.5, 0.0],
        two(41, 20.0),
        0.05,
        {"a": LOG, "b": LOG, "y0": {"u": pdefit.transforms.Identity()}},
    ),
    "double_pendulum": Case(double_pendulum, (9.8, 1.5), [2.0, 2.2, 0.0, 0.0], two(33, 3.0), 0.01, spread=0.05),
    "lotka_volterra": Case(lotka_volterra, (1.0, 0.5, 1.2), [1.0, 2.0], two(41, 15.0), 0.05, FREE_3),
    "fitzhugh_nagumo": Case(fitzhugh_nagumo, (0.08, 0.7, 0.8), [-1.0, 1.0], two(41, 60.0), 0.1, FREE_3),
    "morris_lecar": Case(morris_lecar, (1.0, 2.0, 0.4), [-0.3, 0.1], two(41, 30.0), 0.05, FREE_3, spread=0.1),
    "brusselator": Case(brusselator, (1.0, 3.0), [1.0, 1.0], two(41, 15.0), 0.02),
    "oregonator": Case(oregonator, (77.27, 0.161), [4.0, 1.1, 4.0], two(25, 2.0), 0.01, solver=KVAERNO, spread=0.05),
    "robertson": Case(
        robertson,
        (0.04, 1.0, 1.0),
        [0.98, 3.25e-5, 0.02],
        two(21, 2.0),
        0.01,
        FREE_3,
        solver=KVAERNO,
        noise=0.0,
        spread=0.02,
    ),
    "kuramoto": Case(kuramoto, (2.0, 1.0, 0.1), np.cos(3 * np.arange(8.0)), two(33, 10.0), 0.05, FREE_3),
    "kdv": Case(
        kdv, (6.0, 1.0), SOLITON, two(21, 0.5), 0.002, {"a": LOG, "b": LOG, "y0": {"u": pdefit.transforms.Identity()}}
    ),
    "burgers": Case(burgers, (1.0, 0.02), 1 + np.sin(2 * np.pi * line(48, 1.0)), two(21, 0.6), 0.005),
    "kuramoto_sivashinsky": Case(
        kuramoto_sivashinsky,
        (1.0, 1.0),
        np.cos(line(48, 22.0) * 4 * np.pi / 22) + 0.3,
        two(31, 30.0),
        0.05,
        {"a": LOG, "b": LOG},
        solver=pdefit.solvers.IMEX(),
        symbol=lambda k, p: k**2 - p[1] * k**4,
        length=22.0,
        spread=0.05,
    ),
    "swift_hohenberg": Case(
        swift_hohenberg,
        (0.3, 0.5),
        0.3 * np.cos(X32 * 4) + 0.1 * np.cos(X32),
        two(21, 10.0),
        0.1,
        solver=pdefit.solvers.IMEX(),
        symbol=patterns,
        length=8 * np.pi,
        options={"adjoint": pdefit.adjoints.StoreAll()},
    ),
    "allen_cahn": Case(
        allen_cahn,
        (0.01, 1.0),
        np.sin(X32) + 0.3 * np.cos(3 * X32),
        two(21, 5.0),
        0.05,
        solver=pdefit.solvers.IMEX(),
        symbol=lambda k, p: -p[0] * k**2,
        length=2 * np.pi,
        observe=pdefit.instruments.Subsample((3,)),
    ),
    "gray_scott": Case(
        gray_scott,
        (0.035, 0.06),
        np.stack([1 - 0.5 * np.exp(-20 * (line(32, 4.0) - 2) ** 2), 0.25 * np.exp(-20 * (line(32, 4.0) - 2) ** 2)]),
        two(21, 60.0),
        0.3,
        options={"adjoint": pdefit.adjoints.Checkpointed(3)},
    ),
    "schroedinger": Case(schroedinger, (1.0, 0.5), PACKET, two(21, 3.0), 0.02),
    "fisher": Case(
        None,
        (1.0, 1.0),
        None,
        two(17, 4.0),
        0.1,
        {"D": LOG, "r": LOG},
        spread=0.4,
        system=lambda **p: FisherKPP(grid=FRONT, front=-5.0, **p),
    ),
    "fisher_recordings": Case(
        None,
        (1.0, 1.0),
        None,
        two(9, 2.0),
        0.1,
        {"D": LOG, "r": pdefit.Control(LOG, scope="experiment")},
        recordings=3,
        system=lambda **p: FisherKPP(grid=FRONT, front=-5.0, **p),
    ),
    "bocf": Case(
        None,
        (EPI["D"], EPI["k_so"], EPI["tau_si"], EPI["theta_v"]),
        None,
        two(21, 10.0),
        0.05,
        {n: LOG for n in ("D", "k_so", "tau_si", "theta_v")},
        system=lambda **p: BOCF(grid=CABLE, **{**EPI, **p}),
    ),
    "aliev_panfilov": Case(
        None,
        (ALIEV_PANFILOV["D"], ALIEV_PANFILOV["k"], ALIEV_PANFILOV["mu1"]),
        None,
        two(21, 40.0),
        0.2,
        {n: LOG for n in ("D", "k", "mu1")},
        system=lambda **p: AlievPanfilov(grid=CABLE, **{**ALIEV_PANFILOV, **p}),
    ),
    "three_bodies": Case(
        None,
        (np.array([1.0, 0.01, 0.02]),),
        None,
        two(41, 6.0),
        0.005,
        {"gm": LOG},
        spread=0.1,
        observe=pdefit.instruments.Select("position"),
        solver=pdefit.solvers.Yoshida4(),
        system=lambda gm: Gravity(gm=gm, **THREE),
    ),
    "three_bodies_nodes": Case(
        None,
        (np.array([1.0, 0.01, 0.02]),),
        None,
        two(41, 4.0),
        0.01,
        {"gm": LOG, "nodes": {"velocity": pdefit.transforms.Identity()}},
        spread=0.1,
        system=lambda gm: Gravity(gm=gm, **THREE),
        options={"formulation": pdefit.formulations.Segments(1.0, 1e-3)},
        noise=1e-4,
    ),
    "toda": Case(
        toda, (1.0, 1.0), np.stack([np.exp(-((np.arange(12.0) - 6) ** 2)), np.zeros(12)]), two(33, 15.0), 0.05
    ),
    "fermi_pasta_ulam": Case(
        fermi_pasta_ulam,
        (0.25, 0.5, 1.0),
        np.stack([np.sin(2 * np.pi * np.arange(16) / 16), np.zeros(16)]),
        two(33, 30.0),
        0.1,
        FREE_3,
        options={"adjoint": pdefit.adjoints.Tangent()},
    ),
    "lennard_jones": Case(lennard_jones, (1.0, 1.0), BODIES, two(33, 2.0), 0.005, spread=0.02),
    "logistic": Case(
        logistic,
        (1.0, 2.0),
        np.array([0.1, 0.2, 0.4]),
        two(17, 8.0),
        0.1,
        {"a": pdefit.Control(LOG, prior=pdefit.priors.LogNormal(1.0, 0.5)), "b": LOG},
    ),
    "epidemic": Case(
        epidemic, (0.8, 0.2, 0.02), SIR, two(33, 40.0), 0.25, FREE_3, driver=lambda: pdefit.drivers.Hosted("4 kB", 600)
    ),
    "network": Case(
        network, (MLP, 1.0), [0.5, -0.3], two(33, 6.0), 0.05, {"a": pdefit.transforms.Identity(), "b": LOG}, spread=0.3
    ),
}
