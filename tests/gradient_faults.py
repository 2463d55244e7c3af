"""Wrong derivatives of right values, planted in every part that a gradient comes from: what the certificate must refuse.

A fault makes an objective (and the driver that evaluates it) of a small fit; `clean` the same without the fault. Some patch a
module while they are in force. `explained` says why a fault may pass: it changes nothing that a fit uses, or less than the
certificate resolves.
"""

import contextlib
import dataclasses
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import zoo
from jax import lax
from small_systems import Relay
from zoo import LOG, Flow, SplitFlow, State, lotka_volterra

import pdefit
import pdefit.integrate.solvers.implicit as implicit_tableau
import pdefit.inverse.fit.drivers as drivers
import pdefit.inverse.objective.normal_equations as normal_equations
from pdefit._util.trees import cast
from pdefit.adjoints.checkpointing.storage import HostStore
from pdefit.integrate.solvers.explicit import ExplicitTableau
from pdefit.integrate.solvers.method import method_of
from pdefit.inverse.offload import _programs as programs
from pdefit.inverse.offload.hosted import HostedFunctional
from pdefit.inverse.offload.target_source import InMemory
from pdefit.output.store.adjoint_scratch import CheckpointFile

FREE_3 = {"a": LOG, "b": LOG, "c": LOG}
CYCLE = np.array([1.0, 2.0])


class Planted(NamedTuple):
    objective: Any
    clean: Any
    driver: Any = None


@dataclasses.dataclass(frozen=True)
class Fault:
    """`make` plants it; `wrong` is what of the objective is wrong: gradient, product, normal equations or nothing."""

    room: str
    name: str
    make: Callable[[], Planted]
    wrong: str = "gradient"
    patches: Callable[[], list[tuple[Any, str, Any]]] = list
    explained: str = ""

    @contextlib.contextmanager
    def planted(self) -> Iterator[Planted]:
        """The objective while the fault is in force."""
        # what surrounds compiled programs is not compiled again
        kept, compiled = [], self.room not in ("tiers", "hosted")
        try:
            for module, name, new in self.patches():
                kept.append((module, name, getattr(module, name)))
                setattr(module, name, new)
            if kept and compiled:
                jax.clear_caches()
            yield self.make()
        finally:
            for module, name, old in reversed(kept):
                setattr(module, name, old)
            if kept and compiled:
                jax.clear_caches()


FAULTS: dict[str, Fault] = {}


def fault(room: str, **options: Any) -> Callable:
    """Register a function that plants a fault."""

    def register(make: Callable[[], Planted]) -> Callable[[], Planted]:
        FAULTS[make.__name__] = Fault(room, make.__name__, make, **options)
        return make

    return register


# --- fits to plant them in -----------------------------------------------------------------------------------------------


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


def field(rate: Callable = zoo.burgers, **options: Any) -> pdefit.Functional:
    """A front of which the initial state is unknown, too, and kept smooth."""
    free = {"a": LOG, "b": LOG, "y0": {"u": pdefit.Control(smoothing=2.0)}}
    smooth = (pdefit.regularizers.H1("y0.u", 1.0),)
    return flow(
        rate,
        (1.0, 0.02),
        1 + np.sin(2 * np.pi * zoo.line(32, 1.0)),
        0.4,
        21,
        0.01,
        clean=zoo.burgers,
        **{"free": free, "regularizers": smooth, **options},
    )


def priors(**options: Any) -> pdefit.Functional:
    return flow(
        free={"a": pdefit.Control(LOG, prior=pdefit.priors.LogNormal(2.0, 0.02)), "b": LOG, "c": LOG}, **options
    )


def tiers(device: str = "3 kB", host: Any = 160, file: Any = 0, **options: Any) -> pdefit.drivers.Hosted:
    """Fourteen pieces with ten checkpoints."""
    return pdefit.drivers.Hosted(device, host, file, **options)


def wrong_transpose(wrong: Callable) -> Callable:
    """The identity, whose reverse pass applies `wrong` to the cotangent."""

    @eqx.filter_custom_vjp
    def identity(x):
        return x

    identity.def_fwd(lambda perturbed, x: (x, None))
    identity.def_bwd(lambda residuals, cotangent, perturbed, x: wrong(cotangent))
    return identity


def as_class(objective: Any, cls: type) -> Any:
    """The same objective, of a subclass with a fault."""
    new = object.__new__(cls)
    for f in dataclasses.fields(objective):
        object.__setattr__(new, f.name, getattr(objective, f.name))
    return new


# --- adjoints ------------------------------------------------------------------------------------------------------------


class Wrapped(pdefit.adjoints.AbstractReverse):
    """The checkpointed adjoint with a fault in its reverse pass."""

    accuracy: ClassVar[float] = 1e-8
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        return self.spoiled(*pdefit.adjoints.Checkpointed().run(stepper, y0, grid, emit, inputs, probes))

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        return pdefit.adjoints.Checkpointed().account(grid, unknowns)


def on_outputs(change: Callable) -> type:
    """An adjoint that applies `change` to the cotangents (frames, ...) of what was observed."""

    class OnOutputs(Wrapped):
        def spoiled(self, y, outputs):
            return y, wrong_transpose(lambda ct: jax.tree.map(lambda c: c if c is None else change(c), ct))(outputs)

    return OnOutputs


def adjoint_fault(name: str, change: Callable, explained: str = "", **options: Any) -> None:
    def make() -> Planted:
        return Planted(flow(adjoint=on_outputs(change)(), **options), flow(**options))

    FAULTS[name] = Fault("adjoint", name, make, explained=explained)


def _from(c, k, factor):
    return c.at[k:].multiply(factor)


adjoint_fault("last_frame_lost", lambda c: c.at[-1].set(0.0))
adjoint_fault("first_frame_lost", lambda c: c.at[1].set(0.0))
adjoint_fault("one_frame_of_101_lost", lambda c: c.at[71 % len(c)].set(0.0) if len(c) > 71 else c, frames=101)
adjoint_fault("scaled_by_1e-3", lambda c: 1.001 * c)
adjoint_fault("scaled_by_1e-5", lambda c: 1.00001 * c)
adjoint_fault("second_half_lost", lambda c: _from(c, 20, 0.0) if len(c) > 20 else c)
adjoint_fault("sign_from_frame_30", lambda c: _from(c, 30, -1.0) if len(c) > 30 else c)
adjoint_fault("last_tenth_weak", lambda c: _from(c, 37, 0.99) if len(c) > 37 else c)


class Rounded(Wrapped):
    """Cotangents of what is observed lose half their digits."""

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        rounded = wrong_transpose(lambda ct: jax.tree.map(lambda c: c.astype(jnp.float32).astype(c.dtype), ct))
        return pdefit.adjoints.Checkpointed().run(stepper, y0, grid, lambda y, i: emit(rounded(y), i), inputs, probes)


@fault("adjoint", explained="7 digits are right: the best that a fit in float32 has")
def cotangents_rounded_to_float32():
    return Planted(flow(adjoint=Rounded()), flow())


class EndLost(Wrapped):
    """What comes in at the end of a trajectory is lost: the jumps of multiple shooting."""

    def spoiled(self, y, outputs):
        return wrong_transpose(lambda ct: jax.tree.map(jnp.zeros_like, ct))(y), outputs


@fault("adjoint")
def jumps_lost_in_reverse():
    return Planted(segments(adjoint=EndLost()), segments())


class OfGradient(pdefit.adjoints.Checkpointed):
    """The gradient itself is changed behind the reverse pass."""

    change: Callable = eqx.field(static=True, default=lambda g, probes: g)

    def gradient(self, function, theta, probes, size):
        value, gradient, growth = super().gradient(function, theta, probes, size)
        return value, self.change(gradient, probes), growth


@fault("adjoint")
def gradient_of_one_element_negative():
    return Planted(flow(adjoint=OfGradient(change=lambda g, _: g.at[1].multiply(-1.0))), flow())


@fault("adjoint")
def gradient_of_one_element_off_by_a_percent():
    return Planted(flow(adjoint=OfGradient(change=lambda g, _: g.at[2].multiply(1.01))), flow())


@fault("adjoint")
def only_the_watched_gradient_wrong():
    return Planted(flow(adjoint=OfGradient(change=lambda g, probes: g if probes is None else 0.9 * g)), flow())


@fault("adjoint")
def watched_gradient_wrong_with_long_probes():
    def change(g, probes):
        return g if probes is None or probes.shape[1] < 12 else g.at[0].multiply(0.0)

    return Planted(flow(adjoint=OfGradient(change=change)), flow())


class WrongSeed(pdefit.adjoints.Tangent):
    """Two tangents take each other's place."""

    def gradient(self, function, theta, probes, size):
        value, slopes, growth = super().gradient(function, theta, probes, size)
        return value, slopes[jnp.array([1, 0, *range(2, theta.size)])], growth


@fault("adjoint")
def tangents_change_places():
    return Planted(flow(adjoint=WrongSeed()), flow())


@fault("adjoint")
def backsolve_of_diffusion_without_backups():
    options = {
        "rate": zoo.burgers,
        "at": (1.0, 0.02),
        "u0": 1 + np.sin(2 * np.pi * zoo.line(32, 1.0)),
        "stop": 0.4,
        "frames": 9,
        "dt": 0.01,
        "free": {"a": LOG, "b": LOG},
    }
    return Planted(flow(adjoint=pdefit.adjoints.Backsolve(backups=1), **options), flow(**options))


class RestoresTheOneBefore(pdefit.adjoints.AbstractReverse):
    """From the fourth checkpoint on the state of the checkpoint before is restored."""

    accuracy: ClassVar[float] = 1e-8
    has_tangents: ClassVar[bool] = True

    def run(self, stepper, y0, grid, emit, inputs, probes=None):
        times, sizes = grid.times_and_sizes()

        def interval(carry, start, step):
            (moving_stepper, y) = carry
            for j in range(grid.length):
                y, _ = moving_stepper(start[j], step[j], (y, None))
            return y

        @eqx.filter_custom_vjp
        def restored(moving, before, start, step):
            return interval(moving, start, step)

        def backward(before, cotangent, perturbed, moving, again, start, step):
            _, pull = eqx.filter_vjp(lambda m: interval(m, start, step), (moving[0], before))
            return pull(cotangent)[0]

        restored.def_fwd(lambda perturbed, moving, before, start, step: (interval(moving, start, step), before))
        restored.def_bwd(backward)

        def turn(carry, x):
            before, y = carry
            start, step, inputs_i, i = x
            kept = jax.tree.map(lambda a, b: jnp.where(i >= 4, a, b), lax.stop_gradient(before), lax.stop_gradient(y))
            new = restored((stepper, y), kept, start, step)
            return (lax.stop_gradient(y), new), emit(new, inputs_i)

        seen = [emit(y0, jax.tree.map(lambda x: x[0], inputs))]
        xs = times, sizes, jax.tree.map(lambda x: x[1:], inputs), jnp.arange(len(times))
        (_, y), outputs = lax.scan(turn, (lax.stop_gradient(y0), y0), xs)
        return y, jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), seen[0], outputs)

    def resolve_for(self, starts, grid, solver):
        return self

    def account(self, grid, unknowns):
        return pdefit.adjoints.Checkpointed().account(grid, unknowns)


@fault("adjoint")
def checkpoint_before_restored_from_the_fourth():
    return Planted(flow(adjoint=RestoresTheOneBefore(), dt=0.125), flow(dt=0.125))


# --- objectives and recordings -----------------------------------------------------------------------------------------


def altered(objective: Any, method: str, change: Callable) -> Any:
    """The objective with something else returned by a method: `change(found, objective, *arguments)`."""
    cls = type(objective)
    right = getattr(cls, method)

    def wrong(self, *arguments):
        return change(right(self, *arguments), self, *arguments)

    return as_class(objective, type(cls)(f"Wrong{cls.__name__}", (cls,), {method: wrong}))


def in_method(room: str, name: str, method: str, change: Callable, base: Callable = None, explained: str = "") -> None:
    """A fault in what a method returns."""
    base = base or flow
    wrong = {"watched_gradient": "gradient", "gauss_newton_product": "product", "grouped_equations": "normal"}.get(
        method, ""
    )
    FAULTS[name] = Fault(
        room, name, lambda: Planted(altered(base(), method, change), base()), wrong, explained=explained
    )


def in_gradient(room: str, name: str, change: Callable, base: Callable = None) -> None:
    """A fault in the gradient that optimizers are given: `change(gradient, objective, theta)`."""
    in_method(room, name, "watched_gradient", lambda out, f, theta: (out[0], change(out[1], f, theta), out[2]), base)


def _long(functional: Any, frames: int = 20) -> bool:
    return functional.observations.ts.shape[-1] > frames


def _of_extras(f: Any, theta: jax.Array) -> jax.Array:
    """The gradient of priors and regularizers."""
    return jax.grad(lambda x: sum(jnp.sum(r**2) / 2 for r in f.extra_residuals(x)))(theta)


def _extras_along(f: Any, theta: jax.Array, v: jax.Array) -> jax.Array:
    """The product with the Gauss-Newton matrix of priors and regularizers."""

    def extra(x):
        return jnp.concatenate(f.extra_residuals(x))

    return jax.vjp(extra, theta)[1](jax.jvp(extra, (theta,), (v,))[1])[0]


def _part(f: Any, method: Callable, k: int, theta: jax.Array, *others: jax.Array) -> jax.Array:
    """What one recording adds to a gradient or product."""
    found = f.each_stacked(method, theta, *others)
    found = found[1] if isinstance(found, tuple) else found
    return jnp.zeros_like(theta).at[f.columns[k]].add(found[k])


in_gradient("objective", "sign_beyond_six_frames", lambda g, f, _: g.at[0].multiply(-1.0) if _long(f, 6) else g)
in_gradient("objective", "sign_in_the_watched_gradient", lambda g, *_: g.at[0].multiply(-1.0))
in_gradient("objective", "gradient_off_by_a_thousandth", lambda g, *_: 1.001 * g)
in_gradient("objective", "priors_lost", lambda g, f, theta: g - _of_extras(f, theta), lambda: priors())
in_gradient("objective", "regularizer_lost", lambda g, f, theta: g - _of_extras(f, theta), lambda: field())
in_gradient(
    "objective", "shared_controls_divided", lambda g, f, _: g.at[:3].multiply(1 / f.layout.segments), lambda: segments()
)
in_gradient("recordings", "recordings_in_wrong_columns", lambda g, *_: jnp.roll(g, 1), lambda: recordings())
in_gradient(
    "recordings",
    "last_recording_lost",
    lambda g, f, theta: g - _part(f, pdefit.Functional.watched_gradient, -1, theta),
    lambda: recordings(),
)
in_gradient(
    "recordings",
    "prior_for_every_recording",
    lambda g, f, theta: g + 2 * jax.grad(f._extra_value)(theta),
    lambda: recordings(),
)

for _room, _name, _change, _base in (
    ("products", "sign_in_the_product", lambda p, *_: p.at[1].multiply(-1.0), lambda: flow()),
    ("products", "product_off_by_a_thousandth", lambda p, *_: 1.001 * p, lambda: flow()),
    ("products", "product_of_an_unsymmetric_matrix", lambda p, *_: p.at[0].add(p[2]).at[2].add(-p[0]), lambda: flow()),
    ("products", "product_without_priors", lambda p, f, *at: p - _extras_along(f, *at), lambda: priors()),
    (
        "products",
        "product_wrong_beyond_twenty_frames",
        lambda p, f, *_: p.at[0].multiply(0.5) if _long(f) else p,
        lambda: flow(),
    ),
    ("products", "product_weak_in_the_initial_state", lambda p, *_: p.at[2:].multiply(0.9), lambda: field()),
    ("products", "product_without_jumps", lambda p, *_: p.at[3:].multiply(0.999), lambda: segments()),
    (
        "recordings",
        "product_without_the_first_recording",
        lambda p, f, *at: p - _part(f, pdefit.Functional.gauss_newton_product, 0, *at),
        lambda: recordings(),
    ),
):
    in_method(_room, _name, "gauss_newton_product", _change, _base)


def _scaled(g: Any, factor: Any) -> Any:
    """SegmentNormalEquations of residuals weighed otherwise."""
    return g._replace(gradient=factor[:, None] * g.gradient, matrix=factor[:, None, None] * g.matrix)


def _without(g: Any, k: int) -> Any:
    return _scaled(g, jnp.ones(len(g.gradient)).at[k].set(0.0))


for _name, _change, _base in (
    ("segment_dropped", lambda g, *_: _without(g, 3), lambda: segments()),
    ("last_segment_dropped", lambda g, *_: _without(g, -1), lambda: segments(FREE_3)),
    (
        "sign_in_gauss_newton_gradient",
        lambda g, *_: g._replace(gradient=g.gradient.at[:, 2].multiply(-1.0)),
        lambda: flow(),
    ),
    (
        "sign_in_the_matrix",
        lambda g, *_: g._replace(matrix=g.matrix.at[:, 0, 1].multiply(-1.0).at[:, 1, 0].multiply(-1.0)),
        lambda: flow(),
    ),
    ("matrix_off_by_a_hundredth", lambda g, *_: g._replace(matrix=g.matrix.at[:, 1, 1].multiply(1.01)), lambda: flow()),
    (
        "priors_lost_in_normal_equations",
        lambda g, *_: g._replace(extra=0 * g.extra, extra_jac=0 * g.extra_jac),
        lambda: priors(),
    ),
    (
        "normal_equations_wrong_beyond_twenty_frames",
        lambda g, f, _: g._replace(gradient=g.gradient.at[:, 0].multiply(0.5)) if _long(f) else g,
        lambda: flow(),
    ),
    (
        "wrong_column",
        lambda g, *_: g._replace(columns=jnp.asarray(g.columns).at[2].set(jnp.asarray(g.columns)[1])),
        lambda: segments(),
    ),
    (
        "recordings_in_wrong_rows",
        lambda g, *_: g._replace(columns=jnp.roll(g.columns, 1, axis=0)),
        lambda: recordings(),
    ),
):
    in_method("normal equations", _name, "grouped_equations", _change, _base)

in_method(
    "objective",
    "value_counts_a_frame_twice",
    "value",
    lambda j, f, theta, *_: j + jnp.sum(f.trajectories(theta, lambda r: r)[0]["u"][:, -1] ** 2) / 2,
)
in_method(
    "objective",
    "sign_in_jvp",
    "jvp",
    lambda out, *_: (out[0], -out[1]),
    explained="no optimizer asks for it: studies of adjoints alone do",
)
in_method(
    "objective",
    "sign_in_the_hessian_product",
    "hessian_vector_product",
    lambda out, *_: -out,
    explained="no optimizer asks for it",
)


_RIGHT_JUMPS = normal_equations.continuity_blocks


@fault(
    "normal equations",
    wrong="normal",
    patches=lambda: [(normal_equations, "continuity_blocks", lambda d_ends, d_starts: _RIGHT_JUMPS(d_ends, -d_starts))],
)
def sign_in_the_jumps():
    return Planted(segments(), segments())


def in_starts(name: str, change: Callable) -> None:
    """A fault in the node states that trajectories start from."""

    class Wrong(pdefit.formulations.Segments):
        def starts(self, y0, nodes):
            return change(nodes)

    def make() -> Planted:
        return Planted(eqx.tree_at(lambda f: f.formulation, segments(), Wrong(2.0, 1e-2)), segments())

    FAULTS[name] = Fault("nodes", name, make)


def in_reverse(change: Callable) -> Callable:
    """The identity with every cotangent changed."""
    return wrong_transpose(lambda ct: jax.tree.map(lambda c: None if c is None else change(c), ct))


in_starts("sign_of_one_node", in_reverse(lambda c: c.at[2:3].multiply(-1.0)))
in_starts("last_node_lost", in_reverse(lambda c: c.at[-1].set(0.0)))
in_starts(
    "nodes_stopped", lambda nodes: jax.tree.map(lambda x: jnp.concatenate([x[:3], lax.stop_gradient(x[3:])]), nodes)
)


# --- batches -------------------------------------------------------------------------------------------------------------


class Forgetful(pdefit.batches.Vmap):
    """The cotangent of one slice is lost."""

    def __call__(self, function, *arguments):
        found = super().__call__(function, *arguments)
        return wrong_transpose(lambda ct: jax.tree.map(lambda c: c if c is None else c.at[-1].set(0.0), ct))(found)


@fault("batch")
def last_segment_lost_in_reverse():
    return Planted(segments(FREE_3, batch=Forgetful()), segments(FREE_3))


# --- systems -------------------------------------------------------------------------------------------------------------


def in_system(name: str, rate: Callable, explained: str = "", **options: Any) -> None:
    """A rate with a derivative that is not its own."""

    def make() -> Planted:
        return Planted(flow(rate, clean=lotka_volterra, **options), flow(**options))

    FAULTS[name] = Fault("system", name, make, explained=explained)


def _stopped(p, *which):
    return tuple(lax.stop_gradient(x) if k in which else x for k, x in enumerate(p))


def _half_time(t, u, p, args):
    held = _stopped(p, 0)
    return jnp.where(t > 5.0, lotka_volterra(t, u, held, args), lotka_volterra(t, u, p, args))


def _where_high(t, u, p, args):
    return jnp.where(u[0] > 4.0, lotka_volterra(t, u, _stopped(p, 0, 1), args), lotka_volterra(t, u, p, args))


def _weak_coupling(t, u, p, args):
    x, y = u
    return jnp.stack([x * (p[0] - p[1] * y), y * (p[1] * (x + 0.01 * (lax.stop_gradient(x) - x)) - p[2])])


def off_by(factor: float) -> Callable:
    @jax.custom_jvp
    def product(a, x):
        return a * x

    @product.defjvp
    def _(primals, tangents):
        return product(*primals), (1 + factor) * (tangents[0] * primals[1] + primals[0] * tangents[1])

    return product


def reverse_off_by(factor: float) -> Callable:
    @jax.custom_vjp
    def product(a, x):
        return a * x

    product.defvjp(lambda a, x: (a * x, (a, x)), lambda kept, c: ((1 + factor) * c * kept[1], c * kept[0]))
    return product


def _with(product):
    def rate(t, u, p, args):
        x, y = u
        return jnp.stack([x * (p[0] - p[1] * y), product(p[1], y * x) - p[2] * y])

    return rate


in_system("parameter_stopped", lambda t, u, p, args: lotka_volterra(t, u, _stopped(p, 1), args))
in_system("parameter_stopped_after_half_the_time", _half_time)
in_system("parameters_stopped_where_prey_is_many", _where_high)
in_system("a_hundredth_of_a_coupling_stopped", _weak_coupling)
in_system("jvp_rule_off_by_1e-2", _with(off_by(1e-2)))
in_system("jvp_rule_off_by_1e-4", _with(off_by(1e-4)))
in_system("jvp_rule_off_by_1e-9", _with(off_by(1e-9)), explained="far below what differences resolve, and what matters")
in_system("vjp_rule_off_by_1e-4", _with(reverse_off_by(1e-4)))
in_system("vjp_rule_off_by_1e-2", _with(reverse_off_by(1e-2)))
in_system(
    "single_precision_inside",
    lambda t, u, p, args: lotka_volterra(
        t, u.astype(jnp.float32), tuple(x.astype(jnp.float32) for x in p), args
    ).astype(u.dtype),
    explained="7 digits are right: round-off in the equations, not a wrong derivative",
)


def _rounded(t, u, p, args):
    # a fifth of a percent: 0.002 is a step of the table
    a = jnp.round(p[0] * 500) / 500
    return lotka_volterra(t, u, (p[0] + lax.stop_gradient(a - p[0]), p[1], p[2]), args)


in_system("parameter_from_a_table_whose_steps_are_hidden", _rounded)


@fault("system")
def diffusivity_stopped_in_half_of_the_domain():
    def rate(t, u, p, args):
        D = jnp.where(np.arange(u.size) > u.size // 2, lax.stop_gradient(p[1]), p[1])
        return zoo.burgers(t, u, (p[0], D), args)

    return Planted(field(rate=rate), field())


class Quiet(SplitFlow):
    """The solve of the linear part does not feel its parameters."""

    def linear_solve(self, y, h):
        held = dataclasses.replace(self, a=lax.stop_gradient(self.a))
        return SplitFlow.linear_solve(held, y, h)


class Twisted(SplitFlow):
    """The solve has a wrong transpose."""

    def linear_solve(self, y, h):
        return wrong_transpose(lambda ct: jax.tree.map(lambda c: jnp.roll(c, 1), ct))(
            SplitFlow.linear_solve(self, y, h)
        )


class Half(SplitFlow):
    """A part of the linear term is lost for the derivative, in the solve alone."""

    def linear_solve(self, y, h):
        found = SplitFlow.linear_solve(self, y, h)
        return jax.tree.map(lambda x: x + 1e-3 * (lax.stop_gradient(x) - x), found)


def split(cls: type = SplitFlow, rate: Callable = zoo.allen_cahn) -> pdefit.Functional:
    x = zoo.X32
    return flow(
        rate,
        (0.05, 1.0),
        np.sin(x) + 0.3 * np.cos(3 * x),
        3.0,
        21,
        0.05,
        {"a": LOG, "b": LOG},
        cls,
        clean=zoo.allen_cahn,
        symbol=_heat,
        length=2 * np.pi,
        solver=pdefit.solvers.IMEX(),
    )


def _heat(k, p):
    return -p[0] * k**2


for _name, _cls in {
    "imex_solve_without_parameters": Quiet,
    "imex_solve_transposed_wrong": Twisted,
    "imex_solve_a_thousandth": Half,
}.items():
    FAULTS[_name] = Fault("imex", _name, lambda cls=_cls: Planted(split(cls), split()))


@fault("imex")
def imex_explicit_part_stopped():
    return Planted(
        split(
            rate=lambda t, u, p, args: zoo.allen_cahn(t, u, (p[0], 0.99 * p[1] + 0.01 * lax.stop_gradient(p[1])), args)
        ),
        split(),
    )


# --- implicit solves -----------------------------------------------------------------------------------------------------


def stiff() -> pdefit.Functional:
    free, solver = {"a": LOG, "b": LOG}, diffrax.Kvaerno3()
    return flow(zoo.van_der_pol, (5.0, 1.0), np.array([2.0, 0.0]), 10.0, 21, 0.025, free, solver=solver)


def _lax_with(solve: Callable, root: Callable = lambda x: x) -> Any:
    """`jax.lax` with another solve of the linear equations in the derivative of a root."""

    def custom_root(f, guess, find, tangent_solve, has_aux=False):
        x, aux = lax.custom_root(f, guess, find, lambda g, b: solve(tangent_solve, g, b), has_aux=has_aux)
        return root(x), aux

    proxy = types.SimpleNamespace(**{name: getattr(lax, name) for name in dir(lax) if not name.startswith("__")})
    proxy.custom_root = custom_root
    return proxy


def in_root(name: str, solve: Callable, root: Callable = lambda x: x) -> None:
    FAULTS[name] = Fault(
        "implicit",
        name,
        lambda: Planted(stiff(), stiff()),
        patches=lambda: [(implicit_tableau, "lax", _lax_with(solve, root))],
    )


in_root("implicit_solve_off_by_1e-3", lambda right, g, b: 1.001 * right(g, b))
in_root("implicit_solve_forgets_the_jacobian", lambda right, g, b: b)
in_root("implicit_solve_sign", lambda right, g, b: -right(g, b))
in_root("implicit_root_stopped", lambda right, g, b: right(g, b), lax.stop_gradient)
in_root("implicit_solve_transposed", lambda right, g, b: jnp.linalg.solve(jax.jacfwd(g)(jnp.zeros_like(b)).T, b))


@fault("implicit", patches=lambda: [(implicit_tableau, "_DONE", 1e13), (implicit_tableau, "_FOUND", 1e14)])
def newton_stops_far_from_the_root():
    return Planted(stiff(), stiff())


# --- explicit solvers ----------------------------------------------------------------------------------------------------


class StoppedStage(pdefit.solvers.RK4):
    """A solver of which a part of each step is not differentiated."""


class _StoppedTableau(ExplicitTableau):
    def one_step(self, system, t, h, y, args):
        end = super().one_step(system, t, h, y, args)
        return jax.tree.map(lambda a, b: a + 0.01 * lax.stop_gradient(b - a) - 0.01 * (b - a), end, y)


@method_of.register
def _(solver: StoppedStage) -> Any:
    return _StoppedTableau(solver)


class TwistedStep(pdefit.solvers.RK4):
    """A solver whose reverse pass is late by a stage."""


class _TwistedTableau(ExplicitTableau):
    def one_step(self, system, t, h, y, args):
        end = super().one_step(system, t, h, y, args)
        return wrong_transpose(lambda ct: jax.tree.map(lambda c: (1 + 1e-4) * c, ct))(end)


@method_of.register
def _(solver: TwistedStep) -> Any:
    return _TwistedTableau(solver)


@fault("solver")
def a_hundredth_of_a_step_stopped():
    return Planted(flow(solver=StoppedStage()), flow())


@fault("solver")
def reverse_step_off_by_1e_4():
    return Planted(flow(solver=TwistedStep()), flow())


# --- hosted driver and its tiers -----------------------------------------------------------------------------------------


class OffByOneFromFour(HostStore):
    """From slot 4 on the state of the slot before is restored."""

    def read(self, slot):
        return super().read(slot - 1 if slot >= 4 else slot)


class Stale(HostStore):
    """A slot keeps what was written first."""

    def write(self, slot, leaves):
        if slot not in self._kept:
            super().write(slot, leaves)


class Perturbed(HostStore):
    """States lose half their digits on the way."""

    def read(self, slot):
        return [x.astype(np.float16).astype(x.dtype) for x in super().read(slot)]


def in_store(name: str, cls: type, **options: Any) -> None:
    FAULTS[name] = Fault(
        "tiers",
        name,
        lambda: Planted(flow(), flow(), tiers()),
        patches=lambda: [(drivers, "HostStore", cls)],
        **options,
    )


in_store("host_checkpoint_off_by_one_from_slot_4", OffByOneFromFour)
in_store("host_slot_stale", Stale)
in_store("host_states_in_half_precision", Perturbed)


class StaleFile(CheckpointFile):
    """What was prefetched before a write is taken for what was written."""

    def write(self, slot, leaves):
        if slot in self._written and slot >= 3:
            return
        super().write(slot, leaves)


@fault("tiers")
def file_slot_stale():
    folder = Path(tempfile.mkdtemp())
    driver = tiers("3 kB", 16, 96, open_file=lambda like, slots: StaleFile(folder / "checkpoints.h5", like, slots))
    return Planted(flow(), flow(), driver)


class Swapped(CheckpointFile):
    """Two slots of the file change places."""

    def read(self, slot):
        return super().read({1: 2, 2: 1}.get(slot, slot) if {1, 2} <= self._written else slot)


@fault("tiers")
def file_slots_change_places():
    folder = Path(tempfile.mkdtemp())
    driver = tiers("3 kB", 16, 96, open_file=lambda like, slots: Swapped(folder / "checkpoints.h5", like, slots))
    return Planted(flow(), flow(), driver)


def in_program(
    name: str, program: str, change: Callable, base: Callable = flow, device: str = "3 kB", **options: Any
) -> None:
    """A fault in one of the hosted driver's programs."""
    right = getattr(programs, program)

    def wrong(*arguments: Any) -> Any:
        return change(right(*arguments), arguments)

    wrong.lower = right.lower  # pyright: ignore[reportFunctionMemberAccess]

    FAULTS[name] = Fault(
        "hosted",
        name,
        lambda: Planted(base(), base(), tiers(device)),
        patches=lambda: [(programs, program, wrong)],
        **options,
    )


def _late_piece(schedule: Any) -> bool:
    """Whether a piece begins after half of the record."""
    return float(np.asarray(schedule.time_grid.start).ravel()[0]) > 5.0


in_program(
    "piece_adds_nothing_to_the_gradient",
    "reverse",
    lambda out, a: (out[0], a[5] if _late_piece(a[3]) else out[1], out[2]),
)
in_program(
    "cotangent_lost_between_late_pieces",
    "reverse",
    lambda out, a: (jax.tree.map(jnp.zeros_like, out[0]) if _late_piece(a[3]) else out[0], *out[1:]),
)
in_program(
    "cotangent_weak_between_pieces",
    "reverse",
    lambda out, a: (jax.tree.map(lambda c: (1 - 1e-4) * c, out[0]), *out[1:]),
)
in_program(
    "hosted_start_lost",
    "reverse_start",
    lambda out, a: a[4],
    lambda: flow(free={**FREE_3, "y0": {"u": pdefit.transforms.Identity()}}),
    device="4 kB",
)
in_program("hosted_priors_lost", "close", lambda out, a: (out[0], (jnp.zeros_like(out[1][0]), out[1][1])), priors)
in_program(
    "hosted_walk_loses_a_piece",
    "walk",
    lambda out, a: out._replace(seen=a[1].seen) if _late_piece(a[2]) else out,
    wrong="normal",
)
in_program(
    "hosted_tangents_start_anew",
    "walk",
    lambda out, a: out._replace(tangents=jax.tree.map(lambda x: 0.5 * x, out.tangents)) if _late_piece(a[2]) else out,
    wrong="normal",
)


class _WrongProduct(HostedFunctional):
    def gauss_newton_product(self, theta, v):
        return super().gauss_newton_product(theta, v).at[0].multiply(-1.0)


class _WrongGradient(HostedFunctional):
    def watched_gradient(self, theta):
        value, gradient, growth = super().watched_gradient(theta)
        return value, gradient.at[0].multiply(-1.0) if self.functional.observations.ts.size > 6 else gradient, growth


@fault("hosted", wrong="product", patches=lambda: [(drivers, "HostedFunctional", _WrongProduct)])
def hosted_product_sign():
    return Planted(flow(), flow(), tiers())


@fault("hosted", patches=lambda: [(drivers, "HostedFunctional", _WrongGradient)])
def hosted_sign_beyond_six_frames():
    return Planted(flow(), flow(), tiers())


class LateFrames(InMemory):
    """Beyond the thirtieth frame that of before is read."""

    def read(self, first, last):
        found = super().read(first, last)
        if first < 30:
            return found
        return super().read(first - 1, last - 1)


@fault("hosted")
def targets_a_frame_late():
    base = flow()
    return Planted(base, flow(), tiers(targets=LateFrames(base.observations)))


# --- controls ------------------------------------------------------------------------------------------------------------


class WrongLog(pdefit.transforms.Log):
    """ln x with a wrong derivative."""

    def to_physical(self, theta):
        x = jnp.exp(theta)
        return x + 0.01 * (lax.stop_gradient(x) - x)


class OneCellHeld(pdefit.transforms.Identity):
    """One of 32 cells does not move."""

    def to_physical(self, theta):
        return theta.at[7].set(lax.stop_gradient(theta[7])) if theta.ndim else theta


class WrongPrior(pdefit.priors.LogNormal):
    """A prior that pulls nothing."""

    def residual(self, x):
        return lax.stop_gradient(super().residual(x))


class WrongH1(pdefit.regularizers.H1):
    """Slopes with a wrong derivative at one end."""

    def residual(self, x):
        r = super().residual(x)
        return r.at[0].set(lax.stop_gradient(r[0]))


@fault("controls")
def log_off_by_a_hundredth():
    return Planted(flow(free={**FREE_3, "b": WrongLog()}), flow())


def _state(transform: Any) -> pdefit.Functional:
    return field(free={"a": LOG, "b": LOG, "y0": {"u": transform}}, regularizers=())


@fault("controls")
def one_cell_of_a_field_held():
    return Planted(_state(OneCellHeld()), _state(pdefit.transforms.Identity()))


@fault("controls")
def prior_stopped():
    return Planted(flow(free={**FREE_3, "a": pdefit.Control(LOG, prior=WrongPrior(2.0, 0.02))}), priors())


@fault("controls")
def regularizer_stopped_at_one_end():
    # a weight at which it matters beside the data
    return Planted(
        field(regularizers=(WrongH1("y0.u", 1e5),)), field(regularizers=(pdefit.regularizers.H1("y0.u", 1e5),))
    )


class Gain(pdefit.instruments.AbstractObservationOperator):
    """gain u."""

    gain: jax.Array
    held: bool = eqx.field(static=True, default=False)

    def __call__(self, y):
        return {"u": (lax.stop_gradient(self.gain) if self.held else self.gain) * y.u}


@fault("controls")
def gain_of_the_instrument_stopped():
    free = {**FREE_3, "observe": {"gain": LOG}}
    faulty, clean = (flow(free=free, observe=Gain(jnp.asarray(1.2), held)) for held in (True, False))
    return Planted(faulty, clean)


class HeldDrive(zoo.Drive):
    """A forcing whose strength is not differentiated after a while."""

    def __call__(self, t):
        strength = jnp.where(t > 5.0, lax.stop_gradient(self.strength), self.strength)
        return strength * jnp.cos(self.rate * t)


@fault("controls")
def forcing_stopped_after_half_the_time():
    options = {
        "rate": zoo.duffing,
        "at": (0.2, 0.5, 1.0),
        "u0": np.array([1.0, 0.0]),
        "free": {"a": LOG, "args": {"strength": LOG, "rate": pdefit.transforms.Identity()}},
    }
    faulty, clean = (flow(args=cls(0.4, 1.2), **options) for cls in (HeldDrive, zoo.Drive))
    return Planted(faulty, clean)


# --- smooth twins --------------------------------------------------------------------------------------------------------


class Two(Relay):
    """u' = k (1 + above) - d u: a relay with two parameters."""

    d: jax.Array = pdefit.parameter(default=0.3)
    twist: str = eqx.field(static=True, default="")

    def smoothed(self):
        k, d, width = self.k, self.d, 0.1
        if self.twist == "sign":
            d = 2 * lax.stop_gradient(d) - d
        if self.twist == "stopped":
            d = lax.stop_gradient(d)
        if self.twist == "swapped":
            k, d = k + d - lax.stop_gradient(d), d + k - lax.stop_gradient(k)
        if self.twist == "double":
            d = 2 * d - lax.stop_gradient(d)
        if self.twist == "everything":
            k, d = 2 * lax.stop_gradient(k) - k, 2 * lax.stop_gradient(d) - d
        if self.twist == "wide":
            width = 30.0
        return type(self)(k, width=width, d=d, twist="inside" if self.twist == "physics" else "")

    def vector_field(self, t, y, args):
        rate = super().vector_field(t, y, args)
        # one wrong sign in the smooth equations: growth in place of decay
        sign = 1.0 if self.twist == "inside" else -1.0
        return State(rate.u + sign * self.d * y.u)


def relay(twist: str = "") -> pdefit.Functional:
    system, ts = Two(1.0, d=0.3), np.linspace(0.0, 1.5, 16)
    y0 = State(system.init(None).u)
    data = pdefit.add_noise(pdefit.simulate(system, y0, ts, dt=0.02), 0.02, jax.random.key(2))
    problem = pdefit.Problem(Two(1.2, d=0.25, twist=twist), y0)
    return pdefit.Functional(problem, data, {"k": LOG, "d": LOG}, dt=0.02, smooth_tangents=True)


_EXPLAINED = {
    "double": "steps are half as long as they might be and the interval is half as wide, but the estimate is the same",
    "wide": "the tangent leads where the residuals go; how far the estimate is from their minimum is stated with it",
}
for _twist in ("sign", "stopped", "swapped", "everything", "physics", *_EXPLAINED):
    FAULTS[f"smooth_twin_{_twist}"] = Fault(
        "smooth twin",
        f"smooth_twin_{_twist}",
        lambda twist=_twist: Planted(relay(twist), relay()),
        "normal",
        explained=_EXPLAINED.get(_twist, ""),
    )


# --- single precision ----------------------------------------------------------------------------------------------------


def _stopped_in_single(t, u, p, args):
    return lotka_volterra(t, u, _stopped(p, 0) if u.dtype == jnp.float32 else p, args)


@fault("float32")
def parameter_stopped_in_single_precision():
    return Planted(cast(flow(_stopped_in_single, clean=lotka_volterra), jnp.float32), cast(flow(), jnp.float32))


@fault("float32", explained="0.4 %: a float32 gradient may be a percent off its twin")
def digits_lost_in_single_precision():
    def rate(t, u, p, args):
        u = lax.reduce_precision(u, 8, 5) if u.dtype == jnp.float32 else u
        return lotka_volterra(t, u, p, args)

    return Planted(cast(flow(rate, clean=lotka_volterra), jnp.float32), cast(flow(), jnp.float32))


class SingleSign(pdefit.Functional):
    def watched_gradient(self, theta):
        value, gradient, growth = super().watched_gradient(theta)
        single = self.problem.y0.u.dtype == jnp.float32
        return value, gradient.at[0].multiply(-1.0) if single else gradient, growth


@fault("float32")
def watched_gradient_sign_in_single_precision():
    clean = cast(flow(), jnp.float32)
    return Planted(as_class(clean, SingleSign), clean)


# --- the attack ----------------------------------------------------------------------------------------------------------


def answer(objective: Any, driver: Any, what: str, theta: jax.Array) -> np.ndarray:
    """What a fit is told, through its driver."""
    driver = driver or pdefit.drivers.Traced()
    objective = driver.resolve_for(objective) if isinstance(driver, pdefit.drivers.Hosted) else objective
    if what == "product":
        return np.asarray(driver.product(objective, theta, jnp.ones_like(theta)))
    if what == "gradient":
        return np.asarray(driver.watched_gradient(objective, theta)[1])
    return np.concatenate([np.ravel(x) for x in driver.normal_equations(objective, theta)[1:]])


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def certificate(planted: Planted, **options: Any) -> pdefit.Certificate:
    """By default settings."""
    functional = planted.objective if planted.driver is None else planted.driver.resolve_for(planted.objective)
    return pdefit.certify(functional, functional.theta0, driver=planted.driver, **options)


def attack(only: list[str]) -> bool:
    """Plant every fault and certify; print what came of it."""
    missed, caught, explained = [], 0, 0
    for name, one in FAULTS.items():
        if only and not any(part in (name, one.room) for part in only):
            continue
        try:
            with one.planted() as planted:
                theta, size = planted.objective.theta0, "-"
                if one.wrong:
                    found = answer(planted.objective, planted.driver, one.wrong, theta)
                certificate_ = certificate(planted)
            if one.wrong:
                expected = answer(planted.clean, None, one.wrong, theta)
                size = f"{error(found, expected):.1e}"
                if not np.all(np.isfinite(expected)):
                    raise FloatingPointError("the fit is not finite without the fault")
            verdict = "caught" if not certificate_.passed else ("explained" if one.explained else "MISSED")
            said = certificate_.reason[:160] if not certificate_.passed else one.explained
        except Exception as problem:  # noqa: BLE001
            verdict, size, said = "ERROR", "?", f"{type(problem).__name__}: {str(problem)[:300]}"
        print(f"{one.room:16} {name:48} error {size:8} {verdict:9} {said}", flush=True)
        caught, explained = caught + (verdict == "caught"), explained + (verdict == "explained")
        missed += [name] if verdict in ("MISSED", "ERROR") else []
    total = caught + explained + len(missed)
    print(f"{caught} caught, {explained} explained, {len(missed)} missed of {total}: {', '.join(missed)}")
    return not missed
