"""Pathways: their invariants, Robertson's reference values, and a network that replaces a rate."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pdefit_pathways import (
    Apoptosis,
    Glycolysis,
    HybridApoptosis,
    HybridGlycolysis,
    ReducedRobertson,
    Robertson,
)

import pdefit

APOPTOSIS = {
    "k1": 0.9612, "kd1": 36.0, "kd2": 28.8, "k3": 24.48, "kd3": 180.0, "kd4": 3.6, "k5": 25200.0, "kd5": 0.06012, "kd6": 0.6012,
}  # fmt: skip
GLYCOLYSIS = {
    "J0": 2.5, "k1": 100.0, "K1": 0.52, "q": 4.0, "k2": 6.0, "N": 1.0, "k6": 12.0, "k3": 16.0, "A": 4.0, "k4": 100.0,
    "kappa": 13.0, "k5": 1.28, "psi": 0.1, "k": 1.8,
}  # fmt: skip


def run(system, ts, rtol=1e-7, atol=1e-10):
    """The film of a system from its initial state."""
    steps, y = pdefit.Adaptive(rtol, atol), system.init(None)
    values = pdefit.simulate(system, y, np.asarray(ts), solver=diffrax.Kvaerno5(), steps=steps).values
    return type(y)(**{name: np.asarray(x) for name, x in values.items()})


def test_a_cell_dies_only_with_little_inhibitor_and_keeps_its_caspase():
    dies, lives = Apoptosis(**APOPTOSIS), Apoptosis(**APOPTOSIS, start=(1.34, 1.0, 2.67, 0.0, 0.0, 0.0, 0.29, 0.0))
    ends = [run(system, [0.0, 16.0]) for system in (dies, lives)]
    for system, film in zip((dies, lives), ends, strict=True):
        for kept in jax.vmap(system.invariants)(film).values():
            np.testing.assert_allclose(kept, kept[0], rtol=1e-9)
    # what is cut is gone from procaspase 3, and active where no inhibitor is left
    assert ends[0].y4[-1] > 5 * ends[1].y4[-1]


def test_robertson_has_its_reference_values():
    """At 40 s, after E. Hairer and G. Wanner, Solving Ordinary Differential Equations II (Springer, 1996)."""
    film = run(Robertson(k1=0.04, k2=3e7, k3=1e4), [0.0, 40.0], 1e-8, 1e-13)
    found = [float(x[-1]) for x in film]
    np.testing.assert_allclose(found, [0.7158270688, 9.185534765e-6, 0.2841637457], rtol=1e-5)
    assert sum(found) == pytest.approx(1.0, abs=1e-12)


def test_two_of_robertsons_species_go_as_in_all_three():
    ts, numbers = [0.0, 0.01, 1.0, 40.0], {"k1": 0.04, "k2": 3e7, "k3": 1e4}
    films = [run(system(**numbers), ts, 1e-8, 1e-13) for system in (ReducedRobertson, Robertson)]
    for name in ("y1", "y2"):
        np.testing.assert_allclose(*(getattr(film, name) for film in films), rtol=1e-6, atol=1e-12)


def test_glycolysis_rests_where_its_flows_balance():
    """Without inflow and consumption of ATP everything is at rest; a network replaces one rate only."""
    system = Glycolysis(**GLYCOLYSIS)
    y = system.init(None)
    rates = system.vector_field(0.0, y, None)
    # every glucose makes two three-carbon sugars: what leaves y1 comes into y2, y3, y4 and y7 or goes to glycerol
    v = GLYCOLYSIS["J0"] - rates.y1
    lost = GLYCOLYSIS["k6"] * y.y2 * y.y5 + GLYCOLYSIS["k4"] * y.y4 * y.y5 + GLYCOLYSIS["kappa"] * (y.y4 - y.y7)
    assert rates.y2 + rates.y3 + rates.y4 == pytest.approx(float(2 * v - lost), rel=1e-12)
    hybrid = HybridGlycolysis(**GLYCOLYSIS)
    others = hybrid.vector_field(0.0, y, None)
    assert others.y1 == hybrid.net(y.y1, y.y6) and np.array_equal(np.ravel(others)[1:], np.ravel(rates)[1:])


def test_a_network_starts_near_zero_and_is_a_parameter_beside_the_rates():
    hybrid, known = HybridApoptosis(**APOPTOSIS), Apoptosis(**APOPTOSIS)
    y = hybrid.init(None)._replace(y4=jnp.asarray(0.01), y6=jnp.asarray(0.02))
    assert set(pdefit.parameters(HybridApoptosis)) == {*APOPTOSIS, "net"}
    assert 0 < abs(float(hybrid.activation(y))) < 0.5
    others = (np.delete(np.ravel(s.vector_field(0.0, y, None)), 3) for s in (hybrid, known))
    np.testing.assert_array_equal(*others)
