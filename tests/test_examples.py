"""Every installed system with an example: it runs, moves, keeps its shape and names its fields."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.app.plugins import systems
from pdefit.arrays.trees import named_fields

VERIFIABLE = {name: cls for name, cls in systems().items() if issubclass(cls, pdefit.AbstractVerifiable)}


@pytest.mark.parametrize("name", VERIFIABLE)
def test_an_example_is_a_trajectory_that_moves(name):
    example = VERIFIABLE[name].example(16)
    ts, y0 = example.ts, example.y0
    states = pdefit.solve(example.system, y0, ts, solver=pdefit.RK4(), dt=example.dt, t0=float(ts[0]))
    for first, film in zip(jax.tree.leaves(y0), jax.tree.leaves(states), strict=True):
        assert film.shape == (ts.size, *first.shape) and film.dtype == first.dtype
        assert bool(jnp.all(jnp.isfinite(film)))
        assert float(jnp.max(jnp.abs(film[-1] - film[0]))) > 1e-3


@pytest.mark.parametrize("name", VERIFIABLE)
def test_an_example_converges_at_its_stated_order_in_time(name):
    example = VERIFIABLE[name].example(16)
    ends = [
        pdefit.solve(
            example.system,
            example.y0,
            example.ts[-1:],
            solver=pdefit.RK4(),
            dt=example.dt / 2**k,
            t0=float(example.ts[0]),
        )
        for k in range(3)
    ]
    gaps = [
        max(float(jnp.max(jnp.abs(x - y))) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
        for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]
    np.testing.assert_allclose(np.log2(gaps[0] / gaps[1]), example.time_order, atol=0.2)


@pytest.mark.parametrize("name", VERIFIABLE)
def test_coordinates_fit_the_fields(name):
    system, y0 = VERIFIABLE[name].example(16).system, VERIFIABLE[name].example(16).y0
    assert isinstance(system, pdefit.AbstractGridded)
    coords = system.coords()
    assert set(coords) == set(named_fields(y0))
    for field, value in named_fields(y0).items():
        assert tuple(len(coords[field].coords[d]) for d in coords[field].dims) == value.shape


@pytest.mark.parametrize("name", systems())
def test_vector_fields_are_the_same_under_jit_and_vmap(name):
    example = VERIFIABLE[name].example(16)
    t = jnp.asarray(0.0)

    def slope(y):
        return example.system.vector_field(t, y, None)

    plain = slope(example.y0)
    assert jax.tree.structure(plain) == jax.tree.structure(example.y0)
    pair = jax.vmap(slope)(jax.tree.map(lambda x: jnp.stack([x, 2 * x]), example.y0))
    for a, b, c in zip(*(jax.tree.leaves(x) for x in (plain, jax.jit(slope)(example.y0), pair)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(a, c[0], rtol=1e-12, atol=1e-14)
