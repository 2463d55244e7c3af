"""Search for the first time, field and operation at which values or cotangents stop being finite."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import with_space
from pdefit.analysis.debug._backward import first_nonfinite_backward, sick_extra
from pdefit.analysis.debug._forward import first_nonfinite_forward
from pdefit.analysis.debug._inputs import sick_input
from pdefit.analysis.debug._walk import SteppedTrajectory
from pdefit.analysis.debug.diagnosis import Diagnosis, diagnosis
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.accumulate import Misfit
from pdefit.inverse.objective.functional import Functional


def doctor(functional: AbstractObjective, theta: Float[Array, " p"] | None = None) -> Diagnosis:
    """Diagnosis of a functional that is not finite: the first time, field and line of code at which it fails.

    The search has three parts. First come the inputs: controls, parameters, states and data. Then follow all steps and
    residuals forward in time, and the cotangents backward from the end. The step that fails is evaluated again, one
    operation after the other, which leads to the line of code. It costs about five forward runs and a gradient, and
    holds about 2 sqrt(N) states of N steps.

    **Arguments:**

    - `functional`: the objective. Of many recordings the first that is not finite is reported.
    - `theta` (p,): the point in search space (default: the guess).
    """
    theta = functional.theta0 if theta is None else theta
    parts = functional.parts(theta)
    found = [_examined(part, jnp.asarray(own)) for part, own in parts]
    sick = next((e for e, d in enumerate(found) if not d.healthy), None)
    if len(parts) == 1:
        return found[0]
    if sick is not None:
        told = found[sick]
        return dataclasses.replace(told, recording=sick, sentence=f"Recording {sick}: {told.sentence}")
    return dataclasses.replace(
        found[0],
        sentence=f"All {len(parts)} recordings are healthy; number 0: {found[0].sentence.removeprefix('Healthy: ')}",
    )


def _examined(functional: Functional, theta: Float[Array, " p"]) -> Diagnosis:
    if sick := sick_input(functional, theta):
        return sick
    walk = SteppedTrajectory(functional, functional.at(theta))
    forward = first_nonfinite_forward(walk)
    if isinstance(forward, Diagnosis):
        return forward
    extra = float(Misfit(functional).close(theta, forward.ends))
    if not np.isfinite(extra):
        return sick_extra(walk, theta, forward.ends, backward=False)
    loss = forward.half_square + extra
    if not np.isfinite(loss):
        remedy = "check the units of data and sigma, or start from a better guess"
        return diagnosis("overflow", "Every residual is finite, but the sum of their squares overflows", remedy)
    backward = first_nonfinite_backward(walk, theta, forward)
    if isinstance(backward, Diagnosis):
        return backward
    norm, unit = float(jnp.linalg.norm(backward.gradient)), with_space(functional.problem.system.time_unit)
    value, back = forward.largest, backward.largest
    sentence = (
        f"Healthy: J = {loss:.6g} and its gradient of norm {norm:.3g} are finite; the largest value is {value.value:.3g} "
        f"({value.field} at t = {value.time:.4g}{unit}), the largest cotangent {back.value:.3g} (of {back.field} at "
        f"t = {back.time:.4g}{unit})."
    )
    return Diagnosis(
        "healthy",
        sentence,
        loss=loss,
        gradient_norm=norm,
        largest_value=forward.largest,
        largest_cotangent=backward.largest,
    )
