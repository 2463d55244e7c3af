"""Search for the first time, field and operation with non-finite inputs, values or cotangents."""

import dataclasses
import itertools
from collections.abc import Iterator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import with_space
from pdefit._util.trees import named_fields
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.accumulate import Misfit
from pdefit.inverse.objective.functional import Functional
from pdefit.lab.doctor._first_bad_cotangent import first_nonfinite_backward, sick_extra
from pdefit.lab.doctor._first_bad_step import first_nonfinite_forward
from pdefit.lab.doctor._stepped_trajectory import SteppedTrajectory
from pdefit.lab.doctor.diagnosis import Diagnosis, StepPlace, diagnosis, spot


def doctor(functional: AbstractObjective, theta: Float[Array, " p"] | None = None) -> Diagnosis:
    """Diagnosis of a non-finite functional: the first time, field and line of code at which it fails.

    The search has three parts: the inputs (controls, parameters, states and data), all steps and residuals forward in
    time, and the cotangents backward from the end. The failing step is evaluated again, operation by operation, which
    leads to the line of code. It costs about five forward runs and a gradient, and holds about 2 sqrt(N) states of N
    steps.

    **Arguments:**

    - `functional`: the objective. For many recordings the first non-finite one is reported.
    - `theta` (p,): the point in search space (default: the guess).
    """
    theta = functional.theta0 if theta is None else theta
    parts = functional.parts(theta)
    diagnoses = [_examined(part, jnp.asarray(own)) for part, own in parts]
    sick = next((e for e, d in enumerate(diagnoses) if not d.healthy), None)
    if len(parts) == 1:
        return diagnoses[0]
    if sick is not None:
        first = diagnoses[sick]
        return dataclasses.replace(first, recording=sick, sentence=f"Recording {sick}: {first.sentence}")
    return dataclasses.replace(
        diagnoses[0],
        sentence=f"All {len(parts)} recordings are healthy; number 0: {diagnoses[0].sentence.removeprefix('Healthy: ')}",
    )


def _examined(functional: Functional, theta: Float[Array, " p"]) -> Diagnosis:
    inputs = itertools.chain(_controls(functional, theta), _arrays(functional, theta), _data(functional))
    if sick := next(inputs, None):
        return sick
    run = SteppedTrajectory(functional, functional.at(theta))
    forward = first_nonfinite_forward(run)
    if isinstance(forward, Diagnosis):
        return forward
    extra = float(Misfit(functional).close(theta, forward.ends))
    if not np.isfinite(extra):
        return sick_extra(run, theta, forward.ends, backward=False)
    loss = forward.half_square + extra
    if not np.isfinite(loss):
        remedy = "check the units of data and sigma, or start from a better guess"
        return diagnosis("overflow", "Every residual is finite, but the sum of their squares overflows", remedy)
    backward = first_nonfinite_backward(run, theta, forward)
    if isinstance(backward, Diagnosis):
        return backward
    norm, unit = float(jnp.linalg.norm(backward.gradient)), with_space(functional.problem.system.time_unit)
    value, back = forward.largest, backward.largest
    sentence = (
        f"Healthy: J = {loss:.6g} and its gradient of norm {norm:.3g} are finite; the largest value is {value.value:.3g} "
        f"({value.field} at t = {value.time:.4g}{unit}), the largest cotangent {back.value:.3g} (of {back.field} at "
        f"t = {back.time:.4g}{unit})."
    )
    return Diagnosis("healthy", sentence, loss=loss, gradient_norm=norm, largest_value=value, largest_cotangent=back)


def _controls(functional: Functional, theta: Float[Array, " p"]) -> Iterator[Diagnosis]:
    parts = dict(zip((c.path for c in functional.controls.items), functional.controls.split(theta), strict=True))
    for path, value in functional.controls.values(theta).items():
        element = spot({path: value})
        if element is None:
            continue
        given = float(jnp.ravel(parts[path])[0]) if parts[path].size == 1 else None
        at = "" if given is None else f" at theta = {given:.4g}"
        remedy = "choose another guess, or a transform that represents it"
        yield diagnosis("input", f"The control '{path}' is {element.value}{element.place}{at}", remedy, where=element)


def _arrays(functional: Functional, theta: Float[Array, " p"]) -> Iterator[Diagnosis]:
    problem = functional.at(theta)
    given = {
        "parameter": (eqx.filter(problem.system, eqx.is_inexact_array), None),
        "leaf of the observation operator": (eqx.filter(problem.observe, eqx.is_inexact_array), None),
        "initial state": (problem.y0, problem.system),
    }
    for what, (tree, system) in given.items():
        if element := spot(tree, system):
            remedy = "give it a finite value"
            finding = f"The {what} '{element.field}' is {element.value}{element.place} before any step"
            yield diagnosis("input", finding, remedy, StepPlace(time=functional.observations.ts[0].item()), element)
    for name, x in named_fields(functional.starts(problem)).items():
        wrong = np.argwhere(~np.isfinite(np.asarray(x)).reshape(x.shape[0], -1).all(axis=1))
        if wrong.size:
            s = int(wrong[0, 0])
            remedy = "observe the field at the starts of segments, or make its node states controls"
            finding = f"The start of segment {s + 1} of {x.shape[0]} is not finite in '{name}'"
            at = StepPlace(segment=s + 1, segments=x.shape[0])
            yield dataclasses.replace(diagnosis("input", finding, remedy, at), field=name)


def _data(functional: Functional) -> Iterator[Diagnosis]:
    data, unit = functional.observations, with_space(functional.problem.system.time_unit)
    for name in functional.observed:
        sigma, values = np.asarray(data.sigma[name]), np.asarray(data.values[name])
        checks = {
            # of masked values too: 1/sigma enters their derivative, and 0 times infinity is NaN
            "sigma": (np.broadcast_to(~(sigma > 0), values.shape), "give every value a positive standard deviation"),
            "value": (np.asarray(data.mask[name]) & ~np.isfinite(values), "mask it, or build the data with NaN there"),
        }
        for what, (wrong, remedy) in checks.items():
            if not wrong.any():
                continue
            frame, *index = (int(i) for i in np.argwhere(wrong)[0])
            number = np.broadcast_to(sigma if what == "sigma" else values, values.shape)[(frame, *index)]
            at = f", index {index}" if index else ""
            precision = f" in {values.dtype}" if number == 0 else ""
            finding = (
                f"A {what} of the observed '{name}' is {number:g}{precision} at t = {data.ts[frame]:.6g}{unit} "
                f"(frame {frame - data.first_frame}{at})"
            )
            sick = diagnosis("input", finding, remedy, StepPlace(time=float(data.ts[frame])))
            yield dataclasses.replace(sick, field=name, index=tuple(index))
