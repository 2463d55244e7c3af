"""Boundary conditions at each end, along edges and in time: exact solutions, conservation, and the IMEX split."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdefit
from pdefit.boundaries import Dirichlet, Ends, Neumann, NoFlux, Periodic, Robin

D, K, SHIFT = 0.3, 2.0, 0.4
TIMES = np.array([0.0, 0.4])


rates = eqx.filter_jit(lambda system, t, y, args=None: system.vector_field(t, y, args))


class State(NamedTuple):
    u: jax.Array = pdefit.field(diffusivity="D")


class Heat(pdefit.ReactionDiffusion):
    """u_t = D lap u."""

    D: jax.Array = pdefit.parameter(default=D)

    def reaction(self, t, y, args):
        return jax.tree.map(jnp.zeros_like, y)

    def init(self, key):
        return State(at_start(*self.grid.mesh()))


class Pair(NamedTuple):
    u: jax.Array = pdefit.field(diffusivity="D")
    v: jax.Array = pdefit.field(diffusivity=0.1)


class Two(Heat):
    def init(self, key):
        return Pair(*(at_start(*self.grid.mesh()),) * 2)


@jax.jit
def exact(t, *x):
    """A product of waves, each of which decays."""
    waves = [jnp.sin(K * a + SHIFT + i) for i, a in enumerate(x)]
    return 1 + jnp.exp(-D * K**2 * len(x) * t) * jnp.prod(jnp.stack(waves), axis=0)


def at_start(*x):
    return exact(0.0, *x)


def slope(t, axis, *x):
    """The derivative of the exact solution along an axis."""
    direction = [jnp.ones_like(a) if i == axis else jnp.zeros_like(a) for i, a in enumerate(x)]
    return jax.jvp(lambda *x: exact(t, *x), x, tuple(direction))[1]


def end(kind, axis, upper, n, ndim):
    """The condition of a kind that the exact solution on the unit box obeys at one end, from the cells along the edge."""
    along = (np.arange(n) + 0.5) / n
    x = [jnp.full(along.shape[: ndim - 1], float(upper)) if i == axis else jnp.asarray(along) for i in range(ndim)]

    def normal(t):
        return (1 if upper else -1) * slope(t, axis, *x)

    if kind == "dirichlet":
        return Dirichlet(lambda t: exact(t, *x))
    if kind == "neumann":
        return Neumann(normal)
    return Robin(2.0, 0.5, lambda t: 2.0 * exact(t, *x) + 0.5 * normal(t))


def heat(kinds, n, system=Heat):
    """The heat equation with (lower, upper) kinds of each axis."""
    edges = [
        Ends(*(end(k, axis, upper, n, len(kinds)) for upper, k in enumerate(pair))) for axis, pair in enumerate(kinds)
    ]
    return system(pdefit.CartesianGrid((n,) * len(kinds), (1.0,) * len(kinds), boundary=edges))


@pytest.mark.parametrize(
    "kinds",
    [
        (("dirichlet", "neumann"),),
        (("robin", "dirichlet"),),
        (("neumann", "robin"),),
        (("dirichlet", "robin"), ("neumann", "dirichlet")),
    ],
    ids=str,
)
def test_exact_solutions_are_met_to_second_order(kinds):
    errors = []
    for n in (8, 16):
        system = heat(kinds, n)
        found = pdefit.solve(
            system, system.init(None), TIMES, solver=pdefit.solvers.RK4(), dt=0.005 / len(kinds), t0=0.0
        )
        expected = exact(TIMES[-1], *system.grid.mesh())
        errors.append(np.max(np.abs(np.asarray(found.u)[-1] - np.asarray(expected))))
    assert errors[1] < 3e-3 and np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.25)


def test_what_flows_in_is_what_the_edges_say(key):
    u = np.asarray(jax.random.uniform(key, (6, 5)))
    left = np.linspace(-1.0, 1.0, 5)
    grid = pdefit.CartesianGrid((6, 5), (1.5, 2.0), boundary=(Ends(Neumann(left), Robin(2.0, 0.5, 0.7)), Neumann(0.2)))
    h, k = grid.spacing
    face = (0.7 * h / 2 + 0.5 * u[-1]) / (2.0 * h / 2 + 0.5)
    inflow = D * (np.sum(left) * k + np.sum((0.7 - 2.0 * face) / 0.5) * k + 2 * 6 * 0.2 * h)
    total = np.sum(jax.jit(lambda u: pdefit.diffuse(grid, jnp.asarray(D), u))(u)) * h * k
    np.testing.assert_allclose(total, inflow, rtol=1e-12)


def test_special_cases_are_one_another(key):
    u = jax.random.uniform(key, (6, 5))

    def found(boundary):
        grid = pdefit.CartesianGrid((6, 5), (1.0, 1.0), boundary=boundary)
        return jax.jit(lambda u: pdefit.laplacian(grid, u))(u)

    np.testing.assert_allclose(found(Robin(1.0, 0.0, 0.3)), found(Dirichlet(0.3)), rtol=1e-13)
    np.testing.assert_allclose(found(Robin(0.0, 1.0, 0.3)), found(Neumann(0.3)), rtol=1e-13)
    np.testing.assert_array_equal(found(Neumann(0.0)), found(NoFlux()))
    np.testing.assert_array_equal(found(Ends(NoFlux(), NoFlux())), found(NoFlux()))
    np.testing.assert_array_equal(found(Ends(Dirichlet(0.3), Dirichlet(0.3))), found(Dirichlet(0.3)))


@pytest.mark.parametrize("n", [7, 8])
@pytest.mark.parametrize("ends", [(Dirichlet(2.0), NoFlux()), (Neumann(1.0), Dirichlet()), (NoFlux(), Neumann(0.5))])
def test_the_solve_holds_for_one_of_each(ends, n):
    grid = pdefit.CartesianGrid((n, 4), (1.0, 2.0), boundary=(Ends(*ends), Periodic()))
    u, h = jax.random.normal(jax.random.key(0), grid.shape), jnp.asarray(0.3)

    @jax.jit
    def there_and_back(h, u):
        solved = pdefit.diffusion_solve(grid, jnp.asarray(D), h, u)
        return solved - h * pdefit.diffuse(grid.homogeneous(), jnp.asarray(D), solved)

    np.testing.assert_allclose(there_and_back(h, u), u, atol=1e-12)


def test_imex_steps_meet_explicit_ones():
    system = heat((("dirichlet", "neumann"),), 16)
    y0 = system.init(None)
    t, none = jnp.asarray(0.2), None
    parts = jax.jit(lambda y: system.explicit(t, y, none).u + system.linear(y).u)(y0)
    np.testing.assert_allclose(parts, rates(system, t, y0).u, atol=1e-10)
    found = [
        np.asarray(pdefit.solve(system, y0, TIMES, solver=solver, dt=dt, t0=0.0).u)[-1]
        for solver, dt in ((pdefit.solvers.RK4(), 0.004), (pdefit.solvers.IMEX(), 0.01), (pdefit.solvers.IMEX(), 0.005))
    ]
    far, near = (np.max(np.abs(x - found[0])) for x in found[1:])
    assert near < 1e-4 and 3.2 < far / near < 5


def test_robin_ends_are_no_linear_part():
    system = heat((("dirichlet", "robin"),), 8)
    with pytest.raises(pdefit.PdefitError, match="Robin ends; use solver=rkc"):
        system.linear(system.init(None))
    with pytest.raises(pdefit.PdefitError, match="Robin ends; use solver=rkc"):
        system.linear_solve(system.init(None), jnp.asarray(0.1))


def test_each_field_has_its_own_condition():
    u, v = (heat((kinds,), 8).grid for kinds in (("dirichlet", "neumann"), ("robin", "dirichlet")))
    both = Two(pdefit.CartesianGrid((8,), (1.0,), boundary={"u": u.boundary, "v": v.boundary}))
    t, y = jnp.asarray(0.3), both.init(None)
    found = rates(both, t, y)
    np.testing.assert_allclose(found.u, rates(Heat(u), t, State(y.u)).u, rtol=1e-14)
    np.testing.assert_allclose(found.v, rates(Heat(v, D=0.1), t, State(y.v)).u, rtol=1e-14)
    with pytest.raises(pdefit.PdefitError, match=r"grid.of\(name\)"):
        pdefit.laplacian(both.grid, y.u)
    with pytest.raises(pdefit.PdefitError, match="called 'w'; there are: u, v"):
        both.grid.of("w")


def edges(**inputs):
    """The heat equation with inputs at its left end, and an exchange with the outside at the other."""
    grid = pdefit.CartesianGrid((8,), (1.0,), boundary=Ends(Dirichlet("left"), Robin("loss", "length", 0.5)))
    times = np.linspace(0.0, 0.4, 5)
    series = pdefit.TimeSeries(times, exact(times, np.zeros(5)), "smooth")
    return Heat(grid), pdefit.Inputs(**{"left": series, "loss": 2.0, "length": 0.5} | inputs)


def test_gradients_of_edge_values_and_robin_coefficients():
    system, args = edges()
    y0, ts = system.init(None), np.linspace(0.0, 0.4, 9)
    record = pdefit.simulate(system, y0, ts, solver=pdefit.solvers.RK4(), dt=0.005, args=args)
    record = pdefit.Observations.build(ts, dict(record.values), 0.01)
    controls = {"D": pdefit.transforms.Log(), "args": {
        "left": {"values": pdefit.transforms.Identity()}, "loss": pdefit.transforms.Log(),
        "length": pdefit.transforms.Log(),
    }}  # fmt: skip
    functional = pdefit.Functional(pdefit.Problem(system, y0, args=args), record, controls, dt=0.005)
    theta = functional.theta0 + jnp.linspace(-0.1, 0.2, functional.theta0.size)
    certificate = pdefit.certify(functional, theta, optimizers=[pdefit.optimizers.LevenbergMarquardt()])
    assert certificate.passed


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (None, "the input 'left', but there are no inputs; set args"),
        ({"lefft": 1.0}, "did you mean lefft"),
        ({"left": np.zeros(3)}, r"along an edge of \(\) cells has shape \(3,\)"),
    ],
)
def test_inputs_that_are_not_there(inputs, words):
    system, _ = edges()
    args = None if inputs is None else pdefit.Inputs(loss=1.0, length=1.0, **inputs)
    with pytest.raises(pdefit.PdefitError, match=words):
        system.vector_field(jnp.zeros(()), system.init(None), args)


def test_a_grid_whose_values_are_not_set_is_refused():
    system, _ = edges()
    with pytest.raises(pdefit.PdefitError, match=r"'left' of a boundary is an input; .*self.grid.at\(t, args\)"):
        pdefit.laplacian(system.grid, system.init(None).u)


def test_a_plain_grid_stays_itself():
    for boundary in (NoFlux(), Dirichlet(0.3), (Periodic(), Ends(NoFlux(), Dirichlet()))):
        grid = pdefit.CartesianGrid(
            (8, 6)[: 2 if isinstance(boundary, tuple) else 1],
            (1.0,) * (2 if isinstance(boundary, tuple) else 1),
            boundary=boundary,
        )
        assert grid.at(jnp.zeros(()), None) is grid
