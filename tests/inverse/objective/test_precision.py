"""What a run in single precision may hold in double precision, and the other way round, in its traced gradient.

Allowed in a float32 run: times and step sizes; theta and its map to the controls, once for each evaluation; and values
on their way into a sum, between an up-cast and that sum (which the compiler fuses), never kept from one step to the next.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import fisher, planets

import pdefit
from pdefit._util.trees import cast

FISHER, GRAVITY = (64,), (3, 2)
# a sum of squares of up-cast values, and its derivative
_SUMMATION = {"convert_element_type", "integer_pow", "mul", "broadcast_in_dim"}


def _fisher(dtype, field):
    """D and r of a noisy front and, with `field`, its initial state as a regularized Sobolev variable."""
    guess, ts = fisher(0.6, 1.5), np.linspace(0.0, 4.0, 9)
    y0 = fisher().init(None)
    data = pdefit.add_noise(pdefit.simulate(fisher(), y0, ts, dt=0.05), 0.02, jax.random.key(1))
    controls = {
        "D": pdefit.transforms.Log(),
        "r": pdefit.Control(pdefit.transforms.Log(), prior=pdefit.priors.LogNormal(1.0, 0.5)),
    }
    if field:
        controls |= {"y0": {"u": pdefit.Control(smoothing=2.0)}}
    # data in float64, as files give them
    return pdefit.Functional(
        cast(pdefit.Problem(guess, y0), dtype),
        data,
        controls,
        dt=0.05,
        regularizers=(pdefit.regularizers.H1("y0.u", 1e-3),) if field else (),
    )


def _gravity(dtype):
    """Masses by multiple shooting, with sigma re-estimated as a reweighted stage does."""
    system, data = planets()
    problem = cast(pdefit.Problem(system, system.init(None), pdefit.instruments.Select("position")), dtype)
    controls = {"gm": pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Perturb(0.5, 3.0))}
    functional = pdefit.Functional(problem, data, controls, formulation=pdefit.formulations.Segments(1.5), dt=0.02)
    return pdefit.Reweight(axes=(0,)).apply(functional, functional.theta0)[0]


def _trace(functional):
    arrays, rest = eqx.partition(functional, eqx.is_array)

    def gradient(arrays, theta):
        return eqx.combine(arrays, rest).value_and_grad(theta)

    return jax.make_jaxpr(gradient)(arrays, functional.theta0).jaxpr


def _inner(equation):
    """The programs inside an equation."""
    for value in equation.params.values():
        for x in value if isinstance(value, list | tuple) else (value,):
            if hasattr(x, "jaxpr"):
                yield x.jaxpr
            elif hasattr(x, "eqns"):
                yield x


def _programs(jaxpr, looping=False):
    """Every program inside a program, and whether it runs inside a loop."""
    yield jaxpr, looping
    for equation in jaxpr.eqns:
        for inner in _inner(equation):
            yield from _programs(inner, looping or equation.primitive.name in ("scan", "while"))


def _strays(jaxpr, field, *, is_control):
    """float64 arrays with the field's shape as their last axes that nothing above allows."""

    def double(v):
        shape = getattr(v.aval, "shape", ())
        return getattr(v.aval, "dtype", None) == jnp.float64 and shape[len(shape) - len(field) :] == field

    found = []
    for program, looping in _programs(jaxpr):
        allowed = np.prod(field) if is_control and not looping else 0
        kept = [v for v in (*program.invars, *program.constvars, *program.outvars) if double(v)]
        found += [f"kept: {v.aval}" for v in kept if v.aval.size > allowed]
        for equation in program.eqns:
            made = [v for v in equation.outvars if double(v) and v.aval.size > allowed]
            if made and equation.primitive.name not in _SUMMATION:
                found.append(f"made by {equation}")
    return found


PROBLEMS = {
    "front": (lambda dtype: _fisher(dtype, field=False), FISHER, False),
    "front and its start": (lambda dtype: _fisher(dtype, field=True), FISHER, True),
    "planets": (_gravity, GRAVITY, False),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_single_precision_gradient_holds_no_field_in_double_precision(name):
    make, field, is_control = PROBLEMS[name]
    functional = make(jnp.float32)
    assert _strays(_trace(functional), field, is_control=is_control) == []
    floating = [
        x for x in jax.tree.leaves(functional) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)
    ]
    assert floating and {x.dtype for x in floating} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_double_precision_gradient_holds_nothing_in_single_precision(name):
    make, _, _ = PROBLEMS[name]
    functional = make(jnp.float64)
    for program, _ in _programs(_trace(functional)):
        for v in (*program.invars, *program.constvars, *(v for e in program.eqns for v in e.outvars)):
            assert getattr(v.aval, "dtype", None) not in (jnp.float32, jnp.complex64), v.aval


@pytest.mark.parametrize("name", PROBLEMS)
def test_both_precisions_agree(name):
    make, _, _ = PROBLEMS[name]
    double, single = make(jnp.float64), make(jnp.float32)
    gradient = eqx.filter_jit(pdefit.Functional.value_and_grad)
    (value, slope), (value32, slope32) = gradient(double, double.theta0), gradient(single, double.theta0)
    assert value32.dtype == slope32.dtype == jnp.float64
    assert abs(float(value32 / value) - 1) < 1e-4
    assert float(jnp.linalg.norm(slope32 - slope) / jnp.linalg.norm(slope)) < 1e-4
    # each control on its own: a small gradient beside large ones counts as much
    for part32, part in zip(single.controls.split(slope32), double.controls.split(slope), strict=True):
        assert float(jnp.linalg.norm(part32 - part) / jnp.linalg.norm(part)) < 1e-4


@pytest.mark.parametrize("planted", ["sigma", "values"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_planted_stray_is_found(name, planted):
    make, field, is_control = PROBLEMS[name]
    functional = make(jnp.float32)

    def where(f):
        return getattr(f.observations, planted)

    stray = eqx.tree_at(where, functional, jax.tree.map(lambda x: x.astype(jnp.float64), where(functional)))
    assert _strays(_trace(stray), field, is_control=is_control)
