"""The order of the vector of residuals, read as `AbstractObjective.residuals` documents it; and its methods under jax.jit."""

from typing import ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit

LATER, SOONER = np.array([0.0, 0.5, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.5])
# an entry that is missing: time, row, column
HOLE = (1, 1, 2)


class Pair(NamedTuple):
    v: jax.Array
    b: jax.Array


class Growth(pdefit.AbstractSystem):
    """v' = a and b' = 2 a + c: linear, so that Euler's method is exact."""

    time_unit: ClassVar[str] = "s"
    a: jax.Array = pdefit.parameter(positive=True)
    c: jax.Array = pdefit.parameter(positive=True)

    def vector_field(self, t, y, args):
        return Pair(jnp.full_like(y.v, self.a), jnp.full_like(y.b, 2 * self.a + self.c))

    def init(self, key):
        return Pair(jnp.arange(2.0), jnp.arange(6.0).reshape(2, 3))


def moved(y, t, a=1.5, c=0.5):
    """The state after a time t, exactly."""
    return Pair(y.v + a * t, y.b + (2 * a + c) * t)


def functional(ts, controls, **options):
    random, system = np.random.default_rng(ts.size), Growth(a=jnp.asarray(1.5), c=jnp.asarray(0.5))
    shapes = {"v": (ts.size, 2), "b": (ts.size, 2, 3)}
    values = {n: random.normal(size=shape) for n, shape in shapes.items()}
    values["b"][HOLE] = np.nan
    sigma = {n: random.uniform(0.5, 2.0, shape) for n, shape in shapes.items()}
    data = pdefit.Observations.build(ts, values, sigma)
    problem = pdefit.Problem(system, system.init(None))
    # one stage and one level: programs compile in a third of the time
    options = {"solver": diffrax.Euler(), "adjoint": pdefit.adjoints.StoreAll(), "dt": 0.5, **options}
    return pdefit.Functional(problem, data, controls, **options)


RESIDUALS = eqx.filter_jit(lambda J: J.residuals(J.theta0))


def at(J, i, y):
    """Residuals of one time: variables by name, values in the order of the array; a missing one is zero."""
    y, data = jax.tree.map(np.asarray, (y, J.observations))
    return [
        float((getattr(y, n)[k] - data.values[n][(i, *k)]) / data.sigma[n][(i, *k)]) if data.mask[n][(i, *k)] else 0.0
        for n in ("b", "v")
        for k in np.ndindex(data.values[n].shape[1:])
    ]


def test_windows_then_times_then_variables_then_places_and_gaps_regularizers_and_priors_behind():
    controls = {
        "c": pdefit.Control(prior=pdefit.priors.Normal(0.1, 0.2)),
        "a": pdefit.Control(prior=pdefit.priors.Normal(1.0, 0.1)),
        "nodes": {"v": pdefit.Control(), "b": pdefit.Control()},
    }
    added = (pdefit.regularizers.L2("c", weight=4.0), pdefit.regularizers.L2("a", weight=9.0))
    J = functional(LATER, controls, formulation=pdefit.formulations.Segments(1.0, 0.1), regularizers=added)
    windows, expected = [[0, 1, 2], [2, 3], [3, 4]], list[float]()
    nodes = [jax.tree.map(lambda x, s=s: np.asarray(x)[s], J.problem.nodes) for s in range(3)]
    for s, frames in enumerate(windows):
        for i in frames:
            # a time that two windows share belongs to the first of them
            seen = at(J, i, moved(nodes[s], LATER[i] - LATER[frames[0]]))
            expected += [0.0] * 8 if s and i == frames[0] else seen
        expected += [0.0] * 8 * (3 - len(frames))
        for control in J.controls.nodes:
            name = control.path.removeprefix("nodes.")
            end = getattr(moved(nodes[s], LATER[frames[-1]] - LATER[frames[0]]), name)
            gap = (end - getattr(nodes[min(s + 1, 2)], name)) / np.asarray(J.continuity_sigma[control.path])[0]
            expected += np.ravel(np.zeros_like(gap) if s == 2 else gap).tolist()
    expected += [2.0 * 0.5, 3.0 * 1.5]
    expected += [{"a": 0.5 / 0.1, "c": 0.4 / 0.2}[c.path] for c in J.controls.items if c.prior is not None]
    np.testing.assert_allclose(RESIDUALS(J), expected, rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def joint():
    """Two recordings of different length that share a, each with its c."""
    c = pdefit.Control(prior=pdefit.priors.Normal(0.1, 0.2), scope="experiment")
    controls = {"a": pdefit.Control(prior=pdefit.priors.Normal(1.0, 0.1)), "c": c}
    return pdefit.Recordings([functional(ts, controls) for ts in (LATER, SOONER)], gauge={"c": "sum"})


def test_recordings_follow_each_other_with_what_they_share_behind(joint):
    expected = list[float]()
    for J, ts in ((joint.part(0), LATER), (joint.part(1), SOONER)):
        for i, t in enumerate(ts):
            expected += at(J, i, moved(J.problem.y0, t))
        expected += [0.0] * 8 * (LATER.size - ts.size) + [0.4 / 0.2]
    expected += [0.5 / 0.1, 1e3 * (0.5 + 0.5)]
    np.testing.assert_allclose(RESIDUALS(joint), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("part", [True, False], ids=["one", "recordings"])
def test_jit_takes_the_methods(joint, part):
    J = joint.part(1) if part else joint
    found, expected = (f(J.theta0) for f in (jax.jit(J.residuals_and_jacobian), J.residuals_and_jacobian))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)
