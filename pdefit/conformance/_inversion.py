"""Checks of inversion: gradients through a whole trajectory, and recovery of parameters from data."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pdefit._util.trees import named_fields
from pdefit.conformance._subject import Subject
from pdefit.conformance.report import Finding, at_most, not_applicable
from pdefit.integrate.loop.stable_step import stability_limit
from pdefit.inverse.certify.certificate import certify
from pdefit.inverse.controls.bound_control import FEW
from pdefit.inverse.controls.declare import Control
from pdefit.inverse.controls.guesses import Value
from pdefit.inverse.controls.transforms import Identity, Log
from pdefit.inverse.linear.determined_inverse import determined_inverse
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.optimizers.base import Box, Evaluation
from pdefit.inverse.optimizers.lbfgs import LBFGS
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.problem.twin import simulate
from pdefit.systems.system import AbstractSystem, parameters

# cost of a fit in forward solves, so large that the certificate tests the whole example
_WHOLE = 1e9
# relative distance of the guesses from the truth, alternately up and down
_OFF = 0.1
_RECOVERED = 1e-6
_EVALUATIONS = 60
_OPTIMIZER = LevenbergMarquardt(tolerance=1e-14)
_SILENT = "controls without influence"


def gradients(subject: Subject) -> Iterator[Finding]:
    """Certificate of a fit of every parameter and one initial field, on the trajectory of the example."""
    functional, _ = _functional(subject, with_state=True)
    for check in certify(functional, functional.theta0, fit_cost=_WHOLE, optimizers=[LBFGS()]).checks:
        if check.name != _SILENT:
            note = check.note and f", {check.note}"
            yield Finding(check.name, check.passed, check.error, f"<= {check.limit:g}{note}", check.remedy)
        elif not check.passed:
            yield not_applicable(check.name, check.remedy)


def recovery(subject: Subject) -> Iterator[Finding]:
    """Recovery of the parameters by Levenberg-Marquardt from noiseless observations."""
    name = "parameters found again, relative error"
    if not _arrays(subject.system):
        yield not_applicable(name, "the system declares no array with pdefit.parameter")
        return
    functional, truth = _functional(subject, with_state=False)
    if functional.controls.size > FEW:
        yield not_applicable(name, f"more than {FEW} parameters need data that the example cannot give")
        return
    unidentifiable = determined_inverse(np.asarray(_evaluate(functional, truth).matrix)).undetermined
    names = np.asarray(functional.controls.names())
    if unidentifiable.any():
        yield not_applicable("parameters that the example does not determine", ", ".join(names[unidentifiable]))
    if unidentifiable.all():
        return
    error = _relative_errors(functional, _minimum(functional), truth)[~unidentifiable]
    remedy = f"{names[~unidentifiable][int(np.argmax(error))]} is not found; start nearer, or observe longer"
    yield at_most(name, float(np.max(error)), _RECOVERED, remedy)


def _arrays(system: AbstractSystem) -> dict[str, Any]:
    """Declared parameters that are arrays. Networks and interpolants are left to the tests of their authors."""
    values = {name: getattr(system, name) for name in parameters(system)}
    return {name: x for name, x in values.items() if eqx.is_inexact_array(x) and x.size}


def _functional(subject: Subject, with_state: bool) -> tuple[Functional, Any]:
    """The functional with perturbed guesses, and the theta of its data."""
    system, y0, ts = subject.system, subject.y0, np.asarray(subject.example.ts, float)
    infos, controls = parameters(system), {}
    for name, x in _arrays(system).items():
        transform = Log() if infos[name].positive else Identity()
        controls[name] = Control(transform, Value(_elsewhere(np.asarray(x), infos[name].positive)))
    if with_state or not controls:
        name = next(n for n, x in named_fields(y0).items() if eqx.is_inexact_array(x))
        controls["y0"] = Control() if name == "y" and eqx.is_array(y0) else {name: Control()}
    dt = _step(subject, system, controls)
    data = simulate(system, y0, ts, solver=subject.solver, dt=dt)
    functional = Functional(Problem(system, y0), data, controls, solver=subject.solver, dt=dt)
    return functional, functional.controls.theta(Problem(system, y0))


def _elsewhere(x: np.ndarray, positive: bool) -> np.ndarray:
    """Guesses a tenth above and below the truth, alternating; a zero is moved by a tenth of the largest value."""
    sign = np.where(np.arange(x.size) % 2, -1.0, 1.0).reshape(x.shape)
    size = np.abs(x) if positive else np.maximum(np.abs(x), 0.1 * (np.max(np.abs(x)) or 1.0))
    return np.asarray(x + _OFF * sign * size)


def _step(subject: Subject, system: AbstractSystem, controls: dict[str, Any]) -> float:
    """The step of the example, or a smaller one if the guesses make the equations stiffer."""
    at_guess: Any = system
    for name in _arrays(system):
        guess = jnp.asarray(controls[name].guess.number, getattr(system, name).dtype)
        at_guess = eqx.tree_at(lambda s, name=name: getattr(s, name), at_guess, guess)
    limits = [stability_limit(s, subject.y0, subject.solver) for s in (system, at_guess)]
    return min([subject.example.dt, *(0.9 * limit for limit in limits if limit is not None)])


@eqx.filter_jit
def _evaluate(functional: Functional, theta: Any) -> Evaluation:
    return Evaluation(*functional.normal_equations(theta))


def _minimum(functional: Functional) -> Any:
    """The theta at which the optimizer stops.

    The loop is here and not in `fit`, so that one compilation of the normal equations serves both uses.
    """
    state = _OPTIMIZER.init(functional.theta0, Box(*functional.controls.bounds))
    tell = jax.jit(_OPTIMIZER.tell)
    for _ in range(_EVALUATIONS):
        state, _ = tell(state, _evaluate(functional, _OPTIMIZER.ask(state)))
        if bool(_OPTIMIZER.finished(state)):
            break
    return state.point.theta


def _relative_errors(functional: Functional, theta: Any, truth: Any) -> np.ndarray:
    """(p,) |found - true| / |true|; if the true value is zero, relative to the largest value of its parameter."""
    values, true = functional.controls.values(theta), functional.controls.values(truth)
    parts = []
    for path, value in true.items():
        scale = np.where(np.asarray(value) == 0, np.max(np.abs(value)) or 1.0, np.abs(value))
        parts.append(np.ravel(np.abs(np.asarray(values[path] - value)) / scale))
    return np.concatenate(parts)
