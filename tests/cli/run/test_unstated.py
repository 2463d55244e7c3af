"""Several variables without a stated sigma: each has one of its own, which residuals decide."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.cli.run.recordings import _of_seen
from pdefit.cli.run.unstated import with_estimated_sigma

EQUATIONS = '''
"""Two lines of very different size that share their curvature."""
from typing import NamedTuple
import jax
import jax.numpy as jnp
import pdefit

class State(NamedTuple):
    u: jax.Array
    v: jax.Array

class Sizes(pdefit.AbstractSystem):
    time_unit = "s"
    a: jax.Array = pdefit.parameter(positive=False)
    b: jax.Array = pdefit.parameter(positive=False)
    c: jax.Array = pdefit.parameter(positive=False)
    def vector_field(self, t, y, args):
        return State(1e3 * (self.a + self.c * t), 1e-3 * (self.b + self.c * t))
    def init(self, key):
        return State(jnp.zeros(()), jnp.zeros(()))
'''
EXPERIMENT = """
# Two lines.
system: {name: sizes, a: 0.5, b: 2.5, c: 2.0}
data: {path: DATA, variables: {u: u, v: v}, time: t}
dt: 0.5
stages: {main: {optimizer: {name: levenberg_marquardt, tolerance: 1.0e-10}, max_iterations: 30}}
controls: {a: identity, b: identity, c: identity}
"""
BENT = (
    EQUATIONS.replace("    v: jax.Array\n", "")
    .replace("1e3 * (self.a + self.c * t), 1e-3 * (self.b + self.c * t)", "1e3 * (self.a + self.c * t)")
    .replace("jnp.zeros(()), jnp.zeros(())", "jnp.zeros(())")
)
BENT = BENT.replace("class Sizes", "class Bent").replace("    b: jax.Array = pdefit.parameter(positive=False)\n", "")
WINDOWS = """
# A line that bends, in windows.
defaults: [override /formulation: segments]
system: {name: bent, a: 0.5, c: 2.0}
data: {path: DATA, variables: {u: u}, time: t}
dt: 0.25
formulation: {length: 1.0, continuity: 1.0e-4}
stages: {main: {optimizer: {name: levenberg_marquardt, tolerance: 1.0e-10}, max_iterations: 30}}
controls: {a: identity, c: identity, nodes: {u: {guess: data}}}
"""
SIZES, NOISE = np.array([1e3, 1e-3]), np.array([0.5, 0.02])


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """The experiment, its designs (2, T, 3) and values (2, T)."""
    folder, random, ts = tmp_path_factory.mktemp("unstated"), np.random.default_rng(0), np.arange(9) / 2
    designs = [np.stack([ts * (k == 0), ts * (k == 1), ts**2 / 2], 1) * SIZES[k] for k in range(2)]
    values = [x @ [1.0, 2.0, 3.0] + SIZES[k] * NOISE[k] * random.standard_normal(9) for k, x in enumerate(designs)]
    rows = "\n".join(",".join(map(repr, map(float, row))) for row in zip(ts, *values, strict=True))
    (folder / "sizes.csv").write_text(f"t,u,v\n{rows}\n")
    (folder / "sizes.py").write_text(EQUATIONS)
    (folder / "sizes.yaml").write_text(EXPERIMENT.replace("DATA", str(folder / "sizes.csv")))
    exp = pdefit.load_experiment(folder / "sizes.yaml", equations=folder / "sizes.py")
    return exp, np.stack(designs), np.stack(values)


def test_the_variable_of_small_noise_decides_however_small_its_values_are(case):
    exp, designs, values = case
    assert any("residuals decide one for each" in line for line in exp.choices) and not exp.sigma_stated
    assert exp.estimated == {"u": True, "v": True}
    found = exp.fit()
    sigma = np.std(values, axis=1)
    for _ in range(100):
        weighted = designs / sigma[:, None, None]
        theta = np.linalg.lstsq(np.concatenate(weighted), np.concatenate(values / sigma[:, None]))[0]
        inverse = np.linalg.inv(sum(x.T @ x for x in weighted))
        freedom = [9 - np.trace(inverse @ x.T @ x) for x in weighted]
        sigma = np.sqrt(np.sum((values - designs @ theta) ** 2, axis=1) / freedom)
    # rounds end where no sigma changes by more than a thousandth
    seen = [float(np.max(found.functional.observations.sigma[n])) for n in "uv"]
    np.testing.assert_allclose(seen, sigma, rtol=1e-3)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-4)
    # with equal weights the curvature is that of u alone, whose noise is 25 times as large
    alone = np.linalg.lstsq(designs[0][:, [0, 2]], values[0])[0][1]
    assert abs(alone - 3.0) > 5 * abs(theta[2] - 3.0)


@pytest.mark.parametrize("why", ["members share one program", "a stage has reweight", "cannot tell it"])
def test_where_residuals_cannot_tell_a_line_says_that_all_share_one(case, why):
    exp, before = case[0], case[0].choices[:-1]
    stages = [dataclasses.replace(exp.stages[-1], reweight=pdefit.Reweight() if "reweight" in why else None)]
    bare = dataclasses.replace(exp, stages=stages, choices=before)
    if why == "cannot tell it":
        few = {n: jnp.arange(9) < 3 for n in "uv"}
        bare = dataclasses.replace(bare, functional=eqx.tree_at(lambda f: f.observations.mask, exp.first, few))
    made = with_estimated_sigma(bare, why if "members" in why else "")
    (line,) = made.choices[len(before) :]
    assert line.startswith("one sigma for all variables (u, v)") and why in line
    assert made.stages == bare.stages and made.functional is bare.functional


def test_a_single_variable_has_a_sigma_where_gaps_are_weighed_against_it(tmp_path):
    """Windows of a line that bends, joined by gaps of about 1 beside noise of 50."""
    ts = np.arange(17) / 4
    design = 1e3 * np.stack([1 + 0 * ts, ts, ts**2 / 2], 1)
    values = design @ [2.0, 1.0, 3.0] + 50 * np.random.default_rng(0).standard_normal(17)
    (tmp_path / "bent.csv").write_text(
        "t,u\n" + "\n".join(f"{t},{u!r}" for t, u in zip(ts, values.tolist(), strict=True))
    )
    (tmp_path / "bent.py").write_text(BENT)
    (tmp_path / "bent.yaml").write_text(WINDOWS.replace("DATA", str(tmp_path / "bent.csv")))
    exp = pdefit.load_experiment(tmp_path / "bent.yaml", equations=tmp_path / "bent.py")
    assert exp.estimated == {"u": True} and exp.stages[-1].reweight is not None
    found, (best, square, *_) = exp.fit(), np.linalg.lstsq(design, values)
    error = 1e3 * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))[1:] * np.sqrt(square[0] / 14) / 1e3
    assert np.all(np.abs(np.asarray(found.theta[:2]) - best[1:]) < 0.01 * error)
    np.testing.assert_allclose(found.functional.observations.sigma["u"].max(), np.sqrt(square[0] / 14), rtol=2e-3)
    bare = dataclasses.replace(exp, stages=[dataclasses.replace(exp.stages[-1], reweight=None)])
    with pytest.raises(pdefit.PdefitError, match=r"because members share one program; state data\.sigma"):
        with_estimated_sigma(bare, "members share one program")


def test_sigma_where_nothing_was_measured_is_no_sigma_of_the_data():
    data = pdefit.Observations.build(np.arange(1.0, 4.0), {"u": np.array([1.0, np.nan, 3.0])}, sigma=0.1)
    data = data.with_nothing_at(0.0).with_sigma({"u": np.array([1.0, 0.2, 1.0, 0.2])})
    np.testing.assert_array_equal(_of_seen(data, "u"), [0.2, 0.2])
    np.testing.assert_array_equal(_of_seen(data.with_sigma({"u": 0.3}), "u"), [0.3])
