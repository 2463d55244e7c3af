"""A functional on the beginning of its record."""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array, Float

from pdefit.inverse.controls.controls import Controls, Resolved
from pdefit.inverse.objective.abstract import AbstractObjective
from pdefit.inverse.objective.functional import Functional
from pdefit.inverse.shooting.frozen_steps import shortened_layout


def shortened(
    objective: AbstractObjective, theta: Float[Array, " p"], count: int
) -> tuple[AbstractObjective, Float[Array, " q"]]:
    """The objective on the first `count` observation times of every recording and the point that theta is there: node states
    of windows that begin later are left out of both."""
    if count >= objective.observations.ts.shape[-1]:
        return objective, theta
    return objective.each(lambda functional, own: _shortened(functional, own, count), theta)


def _shortened(functional: Functional, theta: Float[Array, " p"], count: int) -> tuple[Functional, Float[Array, " q"]]:
    if count >= functional.observations.ts.size:
        return functional, theta
    observations = functional.observations.at(slice(0, count))
    layout = shortened_layout(functional.formulation, observations.ts, functional.dt, functional.layout.plan)
    problem = functional.at(theta)
    problem = eqx.tree_at(
        lambda p: p.nodes,
        problem,
        jax.tree.map(lambda x: x[: layout.segments], problem.nodes),
        is_leaf=lambda x: x is None,
    )

    def kept(control: Resolved) -> Resolved:
        if not control.is_node:
            return control
        shape = (layout.segments, *control.shape[1:])
        labels = control.labels[: len(control.labels) * shape[0] // control.shape[0]]
        return dataclasses.replace(control, shape=shape, labels=labels)

    controls = Controls(tuple(map(kept, functional.controls.items)))
    short = eqx.tree_at(
        lambda f: (f.observations, f.layout, f.problem, f.controls),
        functional,
        (observations, layout, problem, controls),
        is_leaf=lambda x: x is None,
    )
    # the same bits, not those of a way there and back
    return short, controls.theta(problem) if functional.controls.nodes else theta
