"""Central differences of maps whose derivative is right, lost, or hidden by jumps: what the errors say."""

import numpy as np
import pytest

from pdefit.inverse.certify._taylor import Line, differences

COUNT = 50


def bounded(values):
    """Whether values are below a thousand, which those of all maps here are but where they blow up."""
    return bool(np.max(np.abs(values)) < 1e3)


def judged(f, tangent, noise, seed=0, few=False):
    """What differences of f along x say of its derivative at 0, with random errors in f."""
    draw = np.random.default_rng(seed)

    def noisy(x):
        return f(x) + noise / np.sqrt(COUNT) * draw.normal(size=COUNT)

    line = Line(noisy, 0.0, 1.0, lambda: noise, bounded)
    return differences(line, lambda q: q - tangent, float(np.linalg.norm(tangent)), 1e-6, few)


def waves(scale, draw):
    """Sines that bend over this distance, with the derivative at 0."""
    size, phase, speed = draw.normal(size=COUNT), draw.uniform(0, 6, COUNT), 1 + 0.3 * draw.normal(size=COUNT)
    return lambda x: scale * np.sin(speed * x / scale + phase) * size, speed * np.cos(phase) * size


@pytest.mark.parametrize("noise", [1e-15, 1e-12, 1e-9])
@pytest.mark.parametrize("scale", [10.0, 0.1, 0.01, 1e-3])
def test_smooth_maps_are_right_however_strongly_they_bend(scale, noise):
    for seed in range(4):
        found = judged(*waves(scale, np.random.default_rng(seed)), noise, seed)
        assert found.finding == "right", found
        assert found.constant <= max(1e-6, found.limit) and found.limit < 1e-3


@pytest.mark.parametrize(
    ("scale", "noise", "first"), [(10.0, 1e-14, -10), (0.1, 1e-11, -10), (1.0, 1e-9, -8), (1e-3, 3e-11, -12)]
)
def test_four_steps_decide_where_they_fit_and_measure_round_off(scale, noise, first):
    f, tangent = waves(scale, np.random.default_rng(5))
    found = judged(f, tangent, noise, few=True)
    assert found.finding == "right" and found.steps == tuple(2.0 ** (first - k) for k in range(4))
    assert found.constant < 1e-6 and 0.5 * noise < found.noise < 2 * noise


@pytest.mark.parametrize("lost", [0.1, 1e-3, 1e-5])
@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("few", [False, True])
def test_a_lost_part_of_the_derivative_is_found(scale, lost, few):
    f, tangent = waves(scale, draw := np.random.default_rng(1))
    missing = draw.normal(size=COUNT)
    found = judged(lambda x: f(x) + lost * np.sinh(x) * missing, tangent, 1e-13, few=few)
    assert found.finding == "wrong"
    expected = lost * np.linalg.norm(missing) / np.linalg.norm(tangent)
    np.testing.assert_allclose(found.constant, expected, rtol=1e-2)


@pytest.mark.parametrize("noise", [1e-14, 1e-10])
@pytest.mark.parametrize(
    ("count", "few"), [(3, False), (10, False), (100, False), (3000, False), (1000, True), (3000, True)]
)
def test_jumps_are_a_switch_however_densely_they_lie(count, few, noise):
    for seed in range(3):
        draw = np.random.default_rng(seed)
        f, tangent = waves(1.0, draw)
        where, size = draw.uniform(-0.1, 0.1, count), 1e-3 * draw.normal(size=(count, COUNT)) / np.sqrt(count)
        if np.min(np.abs(where)) > 0.06:
            continue
        found = judged(lambda x, w=where, s=size, f=f: f(x) + ((x > w) * 1.0 - (w < 0)) @ s, tangent, noise, seed, few)
        assert found.finding == "switch", found


@pytest.mark.parametrize("count", [3, 100, 1000])
def test_kinks_leave_the_derivative_right(count):
    for seed in range(3):
        draw = np.random.default_rng(seed)
        f, tangent = waves(1.0, draw)
        where, size = draw.uniform(-0.1, 0.1, count), 0.1 * draw.normal(size=(count, COUNT)) / np.sqrt(count)

        def bent(x, w=where, s=size, f=f):
            return f(x) + (np.maximum(x - w, 0) - np.maximum(-w, 0)) @ s

        found = judged(bent, tangent + (where < 0) @ size, 1e-14, seed)
        assert found.finding in ("kink", "right"), found


def test_kinks_do_not_hide_a_lost_part():
    draw = np.random.default_rng(0)
    f, tangent = waves(1.0, draw)
    where, size = draw.uniform(-0.1, 0.1, 1000), 0.1 * draw.normal(size=(1000, COUNT)) / np.sqrt(1000)
    missing = draw.normal(size=COUNT)

    def bent(x):
        return f(x) + (np.maximum(x - where, 0) - np.maximum(-where, 0)) @ size + 0.1 * x * missing

    assert judged(bent, tangent + (where < 0) @ size, 1e-14).finding == "wrong"


def test_one_kink_that_few_steps_cross_is_no_switch():
    """Its error rises from the step that just crosses it, and stays."""
    draw = np.random.default_rng(2)
    f, tangent = waves(1.0, draw)
    size = 1e-2 * draw.normal(size=COUNT)
    for where in (6e-4, 7e-4, 9e-4, 3e-2, 5e-2):
        found = judged(lambda x, w=where: f(x) + max(x - w, 0.0) * size, tangent, 1e-13)
        assert found.finding in ("kink", "right"), found
        jumped = judged(lambda x, w=where: f(x) + 0.1 * (x > w) * size, tangent, 1e-13)
        assert jumped.finding == "switch", jumped


def test_round_off_four_times_as_large_as_measured_is_no_switch():
    """Errors 3.3e-5, 2.1e-6, 1.3e-7, then round-off."""
    f, tangent = waves(1.0, draw := np.random.default_rng(3))
    noise = 1e-12 / np.sqrt(COUNT)
    line = Line(lambda x: f(x) + 4 * noise * draw.normal(size=COUNT), 0.0, 1.0, lambda: 1e-12, bounded)
    found = differences(line, lambda q: q - tangent, float(np.linalg.norm(tangent)), 1e-6)
    assert found.finding == "right" and found.constant < 1e-9


def blowing_up(f, above):
    """A map that grows without bounds above a distance, as fast as a trajectory that has left its equilibrium."""
    return lambda x: f(x) + (min(abs(x) / above, 1.06)) ** 10_000


@pytest.mark.parametrize("above", [0.03, 7.5e-3, 4.8e-4])
def test_steps_at_which_the_map_blows_up_do_not_count(above):
    f, tangent = waves(1.0, draw := np.random.default_rng(4))
    missing = draw.normal(size=COUNT)
    found = judged(blowing_up(f, above), tangent, 1e-14)
    assert found.finding == "right" and found.constant < 1e-9, found
    assert max(found.steps) <= above and len(found.steps) >= 9
    assert judged(blowing_up(lambda x: f(x) + 1e-4 * x * missing, above), tangent, 1e-14).finding == "wrong"
    jumping = blowing_up(lambda x: f(x) + 1e-2 * (x > above / 3) * missing, above)
    assert judged(jumping, tangent, 1e-14).finding == "switch"


def test_a_map_that_blows_up_at_every_step_has_no_derivative():
    f, tangent = waves(1.0, np.random.default_rng(4))
    assert judged(lambda x: f(x) + 1e4 * (x > 0), tangent, 1e-14).finding == "wrong"
