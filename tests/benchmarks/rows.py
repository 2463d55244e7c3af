"""The rows of the benchmark table. Each measures a ratio, with both sides in the same process."""

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from c_kernel import bocf_kernel
from jax import lax
from jax.experimental.ode import odeint
from pdefit_cardiac.parameter_sets import TUTORIAL
from timing import seconds
from tissue import DT, PARAMETERS, functional, tissue

import pdefit
from pdefit.integrate.loop.stepper import Stepper
from pdefit.integrate.loop.time_grid import constant_grid
from pdefit.inverse.fit.drivers import Hosted
from pdefit.output.store.adjoint_scratch import CheckpointFile

jax.config.update("jax_enable_x64", True)


@dataclasses.dataclass(frozen=True)
class Row:
    """A ratio, what was promised for it, and what else was seen."""

    what: str
    target: str
    found: str
    note: str = ""


VALUE: Callable = eqx.filter_jit(pdefit.Functional.value)
NORMAL: Callable = eqx.filter_jit(pdefit.Functional.normal_equations)
GRADIENT: Callable = eqx.filter_jit(lambda f, theta: f.value_and_grad(theta))


def stepping(system: Any, y0: Any, solver: Any, count: int) -> Callable[[], Any]:
    """So many steps of a solver in a bare scan."""

    @eqx.filter_jit
    def run(system, y):
        stepper, h = Stepper(system, solver), jnp.asarray(DT, y.u.dtype)
        carry = stepper.init(jnp.zeros_like(h), y)
        return lax.scan(lambda c, _: (stepper(jnp.zeros_like(h), h, c), None), carry, None, length=count)[0]

    return lambda: run(system, y0)


def p1(cells: int = 512, count: int = 40) -> Row:
    """An Euler step inside the engine against a fused C kernel."""
    kernel, (system, y0) = bocf_kernel(), tissue(cells)
    if kernel is None:
        return Row("BOCF Euler step against C", "<= 2.0 x", "no C compiler here")
    start = np.stack([np.asarray(x) for x in y0])
    sharpness = [float(x) for x in system.sharpness]
    values = {**{k: float(v) for k, v in TUTORIAL.items()}, "D": float(system.D)}
    ours, c = seconds(
        stepping(system, y0, diffrax.Euler(), count), lambda: kernel(start, count, DT, values, sharpness, 1.0, False)
    )  # fmt: skip
    return Row(
        f"BOCF Euler step, {cells}^2 float32, against a fused C kernel",
        "<= 2.0 x",
        f"{ours / c:.2f} x",
        f"{1e3 * ours / count:.2f} ms a step",
    )


def p2(cells: int = 512, count: int = 20) -> Row:
    """RK4 against Euler."""
    system, y0 = tissue(cells)
    rk4, euler = seconds(
        stepping(system, y0, pdefit.solvers.RK4(), count), stepping(system, y0, diffrax.Euler(), count)
    )
    return Row(f"RK4 step against Euler step, {cells}^2", "<= 5 x", f"{rk4 / euler:.2f} x")


def _gradient(cells: int, levels: int, **size: int) -> tuple[float, int, int]:
    """Gradient over forward, states by count, and by the compiler's account."""
    J = functional(cells, adjoint=pdefit.adjoints.Checkpointed(levels), **size)
    theta = J.theta0
    value, gradient = seconds(lambda: VALUE(J, theta), lambda: GRADIENT(J, theta), repeats=3)
    state = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(J.problem.y0))
    arrays, rest = eqx.partition(J, eqx.is_array)
    program = jax.jit(lambda a, t: eqx.combine(a, rest).value_and_grad(t)).lower(arrays, theta).compile()
    held = program.memory_analysis().temp_size_in_bytes / state
    return gradient / value, J.runner.adjoint.account(J.layout.time_grid, J.controls.size).stored, round(held)


def p3(cells: int = 128, **size: int) -> Row:
    """P3 and P5: two levels."""
    ratio, stored, held = _gradient(cells, 2, **size)
    return Row(
        f"gradient over forward, {cells}^2, two levels (P3); states held (P5)",
        "<= 7.5 x at <= 83 states",
        f"{ratio:.2f} x at {stored} states",
        f"{held} states by the compiler's account, with what a step works with",
    )


def p4(cells: int = 128, **size: int) -> Row:
    """Three levels."""
    ratio, stored, held = _gradient(cells, 3, **size)
    return Row(
        f"gradient over forward, {cells}^2, three levels",
        "<= 10 x at <= 40 states",
        f"{ratio:.2f} x at {stored} states",
        f"{held} states by the compiler's account",
    )


def p6(cells: int = 128, **size: int) -> Row:
    """The same course with checkpoints in a file and in memory."""
    J = functional(cells, **size)
    theta, state = J.theta0, sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(J.problem.y0))
    with tempfile.TemporaryDirectory() as folder:

        def open_file(like, slots):
            return CheckpointFile(Path(folder) / "checkpoints.h5", like, slots)

        room = {"device": 60 * state, "host": 0, "file": 0}
        host = Hosted(**{**room, "host": 60 * state})
        file = Hosted(**{**room, "file": 60 * state}, open_file=open_file)
        inside = host.functional(J)
        outside = file.functional(J)
        memory, disk = seconds(lambda: inside.value_and_grad(theta), lambda: outside.value_and_grad(theta), repeats=3)
        course = file.course(J, J.problem.y0)
        file.close()
    return Row(f"file checkpoints against host memory, {cells}^2", "<= 1.15 x", f"{disk / memory:.2f} x", str(course))


def p7(cells: int = 64) -> Row:
    """Precision, differences, schedules."""
    size = {"observations": 20, "between": 5}
    single, double = functional(cells, dtype="float32", **size), functional(cells, dtype="float64", **size)
    theta = double.theta0
    exact = GRADIENT(double, theta)[1]
    scale = float(jnp.linalg.norm(exact))
    rounded = float(jnp.linalg.norm(GRADIENT(single, single.theta0)[1] - exact)) / scale
    v = jax.random.normal(jax.random.key(1), theta.shape) * 0.01
    slope = float(jnp.vdot(exact, v))
    eps = 1e-2
    near, far = (float(VALUE(double, theta + k * eps * v) - VALUE(double, theta - k * eps * v)) for k in (1, 2))
    difference = abs((8 * near - far) / (12 * eps) / slope - 1)
    others = [pdefit.adjoints.StoreAll(), *map(pdefit.adjoints.Checkpointed, (1, 3, 4))]
    gaps = [
        float(jnp.linalg.norm(GRADIENT(eqx.tree_at(lambda f: f.runner.adjoint, double, a), theta)[1] - exact)) / scale
        for a in others
    ]
    return Row(
        "float32 against float64; gradient against differences; schedules against store-all",
        "1e-4; 1e-6; round-off",
        f"{rounded:.0e}; {difference:.0e}; {max(gaps):.0e}",
    )


def p8(cells: tuple[int, ...] = (32, 128), counts: tuple[int, ...] = (10, 100)) -> Row:
    """Compile time of the gradient, nothing cached."""
    jax.config.update("jax_enable_compilation_cache", False)
    found = {}
    for n in cells:
        for count in counts:
            J = functional(n, observations=count)
            arrays, rest = eqx.partition(J, eqx.is_array)
            begin = time.perf_counter()
            jax.jit(lambda a, t, r=rest: eqx.combine(a, r).value_and_grad(t)).lower(arrays, J.theta0).compile()
            found[f"{n}^2, {10 * count} steps"] = time.perf_counter() - begin
    return Row(
        "compile time of the gradient, whatever grid and length",
        "<= 10 s",
        f"{max(found.values()):.1f} s",
        ", ".join(f"{k}: {v:.1f} s" for k, v in found.items()),
    )


def p9(cells: int = 64, count: int = 25) -> Row:
    """Four times the steps; four times the points."""
    one, longer, larger = (
        functional(n, observations=c) for n, c in ((cells, count), (cells, 4 * count), (2 * cells, count))
    )
    a, b, c = seconds(*(lambda J=J: GRADIENT(J, J.theta0) for J in (one, longer, larger)), repeats=3)
    return Row(
        "time of a gradient: four times the steps, four times the points", "3.6-4.6 x", f"{b / a:.2f} x, {c / a:.2f} x"
    )


def p10(cells: int = 128, count: int = 50) -> Row:
    """Each further scalar parameter, in forward runs."""
    few, many = (functional(cells, count, parameters=names) for names in (("u_s",), PARAMETERS))
    forward, one, ten = seconds(
        lambda: VALUE(many, many.theta0),
        lambda: GRADIENT(few, few.theta0),
        lambda: GRADIENT(many, many.theta0),
        repeats=3,
    )
    return Row("each further scalar parameter", "<= 0.3 forward", f"{(ten - one) / 9 / forward:.2f} forward")


def p11(cells: int = 128, processes: int = 5) -> Row:
    """The same gradient in fresh processes."""
    here = Path(__file__).parent
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pdefit.cli.runtime.environment import prepare; prepare(); "
        "from timing import one_core, seconds; one_core(); from rows import GRADIENT; from tissue import functional; "
        "import json; J = functional(int(sys.argv[2]), 30); print(json.dumps(seconds(lambda: GRADIENT(J, J.theta0))))"
    )
    times = []
    for _ in range(processes):
        done = subprocess.run(
            [sys.executable, "-c", code, here, str(cells)], capture_output=True, text=True, check=True
        )
        times.append(json.loads(done.stdout.splitlines()[-1])[0])
    return Row(
        f"spread of a gradient's time over {processes} processes", "<= 1.25 x", f"{max(times) / min(times):.2f} x"
    )


def p12(cells: int = 128, count: int = 1000) -> Row:
    """Against diffrax's RecursiveCheckpointAdjoint and odeint: J = 1/2 |y(T)|^2, ten parameters and the initial fields."""
    J = functional(cells, observations=count // 10)
    problem, names = J.problem, PARAMETERS
    end = DT * count
    leaves = tuple(getattr(problem.system, n) for n in names)

    def system(p):
        return eqx.tree_at(lambda s: tuple(getattr(s, n) for n in names), problem.system, p)

    def half_square(y):
        return sum(jnp.sum(x.astype(jnp.float64) ** 2) for x in jax.tree.leaves(y)) / 2

    grid = constant_grid(0.0, np.asarray(J.observations.ts)[1:], DT)

    def ours(p, y0):
        stepper = Stepper(system(p), diffrax.Euler())
        y, _ = pdefit.adjoints.Checkpointed(2).run(
            stepper, y0, grid, lambda y, _: jnp.zeros(()), np.zeros(grid.intervals)
        )
        return half_square(y)

    def theirs(p, y0):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(system(p).vector_field), diffrax.Euler(), 0.0, end, DT, y0,
            adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=2 * int(np.sqrt(count)) + 2), max_steps=count + 1,
            saveat=diffrax.SaveAt(t1=True),
        )  # fmt: skip
        return half_square(jax.tree.map(lambda x: x[0], found.ys))

    def backsolve(p, y0):
        ys = odeint(lambda y, t, p: system(p).vector_field(t, y, None), y0, jnp.asarray([0.0, end], y0.u.dtype), p,
                    rtol=1e-3, atol=1e-3)  # fmt: skip
        return half_square(jax.tree.map(lambda x: x[-1], ys))

    gradients = [jax.jit(jax.grad(f, argnums=(0, 1))) for f in (ours, theirs, backsolve)]
    results = [g(leaves, problem.y0) for g in gradients]
    flat = [np.concatenate([np.ravel(x) for x in jax.tree.leaves(r)]) for r in results]
    gaps = [float(np.linalg.norm(f - flat[0]) / np.linalg.norm(flat[0])) for f in flat]
    a, b, c = seconds(*(lambda g=g: g(leaves, problem.y0) for g in gradients), repeats=3)
    return Row(
        f"diffrax RecursiveCheckpoint over ours, {cells}^2, {count} Euler steps",
        ">= 2 x faster",
        f"{b / a:.1f} x",
        f"gradients differ by {gaps[1]:.0e}; odeint (adaptive, 1e-3) takes {c / a:.1f} x and differs by {gaps[2]:.0e}",
    )


def gn(cells: int = 128, observations: int = 10, repeats: int = 5) -> Row:
    """The normal equations of ten scalar parameters, float64, every field observed every 10 steps."""
    J = functional(cells, observations, dtype="float64", fields=False)
    theta = J.theta0
    forward, gradient, normal = seconds(
        lambda: VALUE(J, theta), lambda: GRADIENT(J, theta), lambda: NORMAL(J, theta), repeats=repeats
    )
    exact = GRADIENT(J, theta)[1]
    gap = float(jnp.max(jnp.abs(NORMAL(J, theta)[1] / exact - 1)))
    return Row(
        f"normal equations of ten parameters over forward, {cells}^2, float64",
        "<= 12 x" if cells > 256 else "<= 6 x",
        f"{normal / forward:.1f} x",
        f"a gradient takes {gradient / forward:.1f} x, and differs by {gap:.0e}",
    )


ROWS: dict[str, Callable[..., Row]] = {
    "P1": p1, "P2": p2, "P3": p3, "P4": p4, "P6": p6, "P7": p7, "P8": p8, "P9": p9, "P10": p10, "P11": p11, "P12": p12,
    "gn": gn,
}  # fmt: skip
# the same at other sizes
LARGER: dict[str, Callable[..., Row]] = {
    "P3 at 256^2": lambda: p3(256), "P3 at 512^2": lambda: p3(512),
    "gn at 256^2": lambda: gn(256, 5), "gn at 512^2": lambda: gn(512, 3, 3),
}  # fmt: skip
