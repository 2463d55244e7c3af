"""A network is trained through `pdefit.fit`; the benchmark's numbers mean something only at its full length."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import spiral_neural_ode as spiral


def test_the_truth_is_the_published_spiral():
    J = spiral.functional(0)
    seen = np.asarray(J.observations.values["y"])
    assert seen.shape == (30, 2)
    np.testing.assert_allclose(seen[0], [2.0, 0.0])
    # u' = A^T u^3 at the start is (-0.8, 16)
    dt = spiral.TS[1]
    second = np.asarray([-0.1, 2.0]) * 8
    np.testing.assert_allclose((seen[1] - seen[0]) / dt, second, rtol=0.3, atol=0.5)


def test_a_network_learns_in_a_few_iterations():
    first, later = (spiral.train(0, iterations) for iterations in (2, 40))
    assert later.best < 0.2 * first.best
    assert abs(later.finer / later.best - 1) < 0.05
    assert spiral.functional(0).controls.size == 2 * 50 + 50 + 50 * 2 + 2
