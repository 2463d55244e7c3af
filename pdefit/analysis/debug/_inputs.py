"""Search for inputs of a functional that are not finite: controls, parameters, states, data."""

import dataclasses
from collections.abc import Iterator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pdefit._util.errors import with_space
from pdefit._util.trees import named_fields
from pdefit.analysis.debug.diagnosis import Diagnosis, Place, diagnosis, spot
from pdefit.inverse.objective.functional import Functional


def sick_input(functional: Functional, theta: Float[Array, " p"]) -> Diagnosis | None:
    """Diagnosis of the first input of a functional that is not finite; None if all are."""
    return (
        next(_controls(functional, theta), None)
        or next(_arrays(functional, theta), None)
        or next(_data(functional), None)
    )


def _controls(functional: Functional, theta: Float[Array, " p"]) -> Iterator[Diagnosis]:
    parts = dict(zip((c.path for c in functional.controls.items), functional.controls.split(theta), strict=True))
    for path, value in functional.controls.values(theta).items():
        found = spot({path: value})
        if found is None:
            continue
        given = float(jnp.ravel(parts[path])[0]) if parts[path].size == 1 else None
        at = "" if given is None else f" at theta = {given:.4g}"
        remedy = "choose another guess, or a transform that represents it"
        yield diagnosis("input", f"The control '{path}' is {found.value}{found.place}{at}", remedy, where=found)


def _arrays(functional: Functional, theta: Float[Array, " p"]) -> Iterator[Diagnosis]:
    problem = functional.at(theta)
    given = {
        "parameter": (eqx.filter(problem.system, eqx.is_inexact_array), None),
        "leaf of the observation operator": (eqx.filter(problem.observe, eqx.is_inexact_array), None),
        "initial state": (problem.y0, problem.system),
    }
    for what, (tree, system) in given.items():
        if found := spot(tree, system):
            remedy = "give it a finite value"
            finding = f"The {what} '{found.field}' is {found.value}{found.place} before any step"
            yield diagnosis("input", finding, remedy, Place(time=functional.observations.ts[0].item()), found)
    for name, x in named_fields(functional.starts(problem)).items():
        wrong = np.argwhere(~np.isfinite(np.asarray(x)).reshape(x.shape[0], -1).all(axis=1))
        if wrong.size:
            s = int(wrong[0, 0])
            remedy = "observe the field at the starts of segments, or make its node states controls"
            finding = f"The start of segment {s + 1} of {x.shape[0]} is not finite in '{name}'"
            at = Place(segment=s + 1, segments=x.shape[0])
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
                f"(frame {frame}{at})"
            )
            found = diagnosis("input", finding, remedy, Place(time=float(data.ts[frame])))
            yield dataclasses.replace(found, field=name, index=tuple(index))
