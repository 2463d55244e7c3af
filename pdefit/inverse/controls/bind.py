"""Binding of declared controls to the arrays of a problem, at their guesses."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.inverse.controls.bound_control import BoundControl, kind_of
from pdefit.inverse.controls.declare import Control, Declaration, Smoothing, declared_leaves
from pdefit.inverse.controls.driven import driven_state
from pdefit.inverse.controls.guesses import is_measured
from pdefit.inverse.controls.parametrization.base import AbstractParametrization, Plain
from pdefit.inverse.controls.parametrization.control_axes import field_axes
from pdefit.inverse.controls.parametrization.modes import Modes
from pdefit.inverse.controls.parametrization.sobolev import GridSmoother, Sobolev
from pdefit.inverse.controls.paths import check_units, declaration, holder, leaf
from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.theta import Controls, in_order
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.linear_operators import AbstractSmoothed, Smoother
from pdefit.systems.system import ParameterInfo


def bind(
    problem: Problem, declared: Declaration, key: PRNGKeyArray, observations: Observations
) -> tuple[Controls, Problem]:
    """Controls bound to the leaves of a problem, and the problem at their guesses.

    **Arguments:**

    - `problem`: the nominal values.
    - `declared`: the declarations, nested like the problem: parameters of the system at its root, then `y0`, `observe`,
      `nodes` and `args`. Every leaf is a `Control` or a transform.
    - `key`: the key of random guesses.
    - `observations`: the record, for guesses from data.
    """
    check_units(problem)
    declarations, observations = declared_leaves(problem, declared), observations.from_first_frame
    for path, _ in declarations:
        _check_made(problem, path)
    problem = at_guesses(problem, declarations, key, observations)
    items: list[BoundControl] = []
    for path, control in declarations:
        if control.prior is not None:
            control = dataclasses.replace(control, prior=control.prior.resolve_for(holder(problem, path)))
        if control.modes is not None:
            guess, parametrization = _of_modes(problem, path, control, control.modes)
        elif control.smoothing is not None:
            guess, parametrization = _smooth(problem, path, control, control.smoothing, observations)
        else:
            guess = _checked_guess(problem, path, control)
            parametrization = Plain(guess.shape)
        # one that is not estimated, too, keeps the guess that its modes can hold or its prior takes for no noise
        if guess is not leaf(problem, path)(problem):
            problem = eqx.tree_at(leaf(problem, path), problem, guess)
        if control.estimate:
            items.append(_item(problem, path, control, guess, parametrization))
    if not items:
        raise PdefitError("A fit expects at least one control; declare an unknown under controls, e.g. controls.D")
    return in_order(items), problem


def _checked_guess(problem: Problem, path: str, control: Control) -> Array:
    guess = leaf(problem, path)(problem)
    _check(path, control, np.asarray(guess), declaration(problem, path))
    return guess


def _of_modes(problem: Problem, path: str, control: Control, count: int) -> tuple[Array, Modes]:
    """Projection of the guess onto smooth modes, and these modes."""
    _check_modes(path, control)
    guess = leaf(problem, path)(problem)
    modes = Modes.of(path, count, control.basis, field_axes(problem, path, guess.shape))
    search = modes.field(modes.coefficients(control.transform.to_search(guess)))
    guess = control.transform.to_physical(search).astype(guess.dtype)
    _check(path, control, np.asarray(guess), declaration(problem, path))
    return guess, modes


def _smooth(
    problem: Problem, path: str, control: Control, given: float | Smoothing, observations: Observations
) -> tuple[Array, Sobolev]:
    """The guess and its Sobolev variable. A prior with an amplitude filters a measured guess."""
    guess, roughness, is_open = _checked_guess(problem, path, control), None, False
    background = control.transform.to_search(guess)
    if isinstance(given, Smoothing):
        is_open, given = given.amplitude == "auto", given.from_guess(background, control.scale)
        if given.amplitude is not None:
            # with its amplitude a search variable of scale 1 has standard deviation 1; a float as later weights are, whose
            # programs these would otherwise not share
            roughness = jnp.full(guess.size, control.scale, float)
    smoother = _smoother(problem, path, given, guess.shape)
    measured = is_measured(control.guess, path, observations)
    if measured and isinstance(smoother, GridSmoother) and smoother.amplitude is not None:
        background, search = _smoothed(background, smoother, path, observations)
        guess = control.transform.to_physical(search).astype(guess.dtype)
    return guess, Sobolev(guess.shape, smoother, background, roughness=roughness, open=is_open)


def _item(
    problem: Problem, path: str, control: Control, guess: Array, parametrization: AbstractParametrization
) -> BoundControl:
    """Control bound to its leaf of the problem."""
    info, fields = declaration(problem, path), problem.system.coords()
    units = {f"{root}.{name}": where.unit for root in ("y0", "nodes") for name, where in fields.items()}
    kind, (lower, upper) = kind_of(path, guess.size), _bounds(control, np.asarray(guess))
    labels = _labels(problem, info, guess.shape)
    if isinstance(parametrization, Modes):
        # modes are numbered from the lowest wave number on
        labels = tuple(f"mode{number}" for number in range(parametrization.size))
    return BoundControl(
        name=path,
        kind=kind,
        where=leaf(problem, path),
        transform=control.transform,
        parametrization=parametrization,
        scale=control.scale,
        lower=lower,
        upper=upper,
        prior=control.prior,
        unit=control.unit or (info.unit if info else units.get(path, "1")),
        labels=labels,
        own=control.scope == "experiment" or kind == "node",
    )


def _bounds(control: Control, guess: np.ndarray) -> tuple[float | tuple[float, ...], float | tuple[float, ...]]:
    """Lower and upper bound: one number each, or one for each element if they depend on the guess."""
    least, most = control.bounds or (-np.inf, np.inf)
    if control.within is None:
        return least, most
    lower, upper = np.maximum(least, guess - control.within), np.minimum(most, guess + control.within)
    return (float(lower), float(upper)) if guess.ndim == 0 else (tuple(lower.ravel()), tuple(upper.ravel()))


def at_guesses(
    problem: Problem, declarations: list[tuple[str, Control]], key: PRNGKeyArray, observations: Observations
) -> Problem:
    """The problem with all declared arrays at their guesses."""
    guessed, states, observations = problem, ("y0", "nodes"), observations.from_first_frame
    events = problem.events
    hidden: list[str] = []
    # states last, which are seen through the instrument and the inputs that are guessed
    for path, control in sorted(declarations, key=lambda one: one[0].split(".")[0] in states):
        where = leaf(problem, path)
        nominal = where(problem)
        if control.guess is not None:
            # what numbers make of a state is known by their guesses alone: a twin holds the truth
            system = guessed.system if path.split(".")[0] in states else problem.system
            so_far = Problem(system, problem.y0, guessed.observe, problem.nodes, guessed.args, events=events)
            guess = control.guess.value(nominal, path, key, observations, so_far)
            if guess is None:
                hidden.append(path)
            else:
                guessed = eqx.tree_at(where, guessed, jnp.asarray(guess, nominal.dtype))
    if hidden:
        so_far = Problem(guessed.system, problem.y0, guessed.observe, problem.nodes, guessed.args, events=events)
        driven = eqx.tree_at(lambda p: p.y0, problem, driven_state(so_far, observations))
        for where in (leaf(problem, path) for path in hidden):
            guessed = eqx.tree_at(where, guessed, where(driven))
    guessed = guessed.started()
    # a velocity from noisy data loses its divergence here
    return guessed.constrained() if any(path.split(".")[0] in states for path, _ in declarations) else guessed


def _smoother(problem: Problem, path: str, given: float | Smoothing, shape: tuple[int, ...]) -> Smoother:
    """Smoothing operator of a field, from the part of the problem that holds the field, or from its axes."""
    part = holder(problem, path)
    if isinstance(part, AbstractSmoothed) and isinstance(given, Smoothing):
        assert given.amplitude != "auto", "`from_guess` knows its number"
        return part.smoother(path.rpartition(".")[2], given.length, given.time, given.order, given.amplitude)
    return GridSmoother.of(path, given, field_axes(problem, path, shape))


def _smoothed(search: Array, smoother: GridSmoother, path: str, observations: Observations) -> tuple[Array, Array]:
    """Mean of a measured field, and the field filtered by its prior, both in search space."""
    field = path.partition(".")[2] or "y"
    observed = np.asarray(observations.mask[field][0])
    # noise at few points is interpolated to many, and its variance in smooth modes is larger by their ratio
    spread = np.sqrt(search.size / max(int(observed.sum()), 1))
    sigma = float(np.mean(np.broadcast_to(observations.sigma[field], observations.values[field].shape)[0]))
    mean = jnp.full_like(search, jnp.mean(search))
    return mean, mean + smoother.filtered(search - mean, sigma * spread)


def _labels(problem: Problem, info: ParameterInfo | None, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Labels of the elements of a control: coordinates of its declared dimensions, or indices."""
    if not shape:
        return ("",)
    axes: list[Any] = [range(n) for n in shape]
    if info and len(info.dims) == len(shape):
        known = {d: c for field in problem.system.coords().values() for d, c in field.coords.items()}
        axes = [known.get(d, range(n)) for d, n in zip(info.dims, shape, strict=True)]
    index = np.indices(shape).reshape(len(shape), -1).T
    return tuple(".".join(str(axes[k][i]) for k, i in enumerate(row)) for row in index)


def _check_made(problem: Problem, path: str) -> None:
    """Refuse an unknown field of an initial state that follows from the parameters."""
    root, _, field = path.partition(".")
    if problem.initial is not None and root == "y0" and problem.initial.hold.get(field or "y", path) is not None:
        raise PdefitError(
            f"'{path}' is unknown, but initial makes it from the parameters; hold it at its own value "
            f"(initial.hold={{{field or 'y'}: null}}), or remove the control"
        )


def _check_modes(path: str, control: Control) -> None:
    """Refuse options that a field of modes cannot have."""
    for word in ("bounds", "within", "smoothing"):
        if getattr(control, word) is not None:
            raise PdefitError(
                f"'{path}' has modes, whose coefficients have no {word}; remove {word}, and keep values within limits by a "
                f"logit or log transform"
            )
    if path.split(".")[0] == "nodes":
        raise PdefitError(f"'{path}' has modes, which would tie segments to each other; remove modes")


def _check(path: str, control: Control, guess: np.ndarray, info: ParameterInfo | None):
    """Refuse a guess that the bounds, the sign, the transform or the prior exclude, and invalid options."""
    lower, upper = control.bounds or (-np.inf, np.inf)
    if not lower < upper:
        raise PdefitError(f"The bounds of '{path}' expect low < high, but are [{lower}, {upper}]")
    if np.any(guess < lower) or np.any(guess > upper):
        raise PdefitError(f"The guess of '{path}' is {_show(guess)}, outside its bounds [{lower:g}, {upper:g}]")
    if control.smoothing is not None and path.split(".")[0] == "nodes":
        raise PdefitError(f"'{path}' has smoothing, which would tie segments to each other; remove it")
    if control.smoothing is not None and (control.bounds, control.within) != (None, None):
        raise PdefitError(
            f"'{path}' has smoothing, whose search variable has no box; use a logit transform instead of bounds"
        )
    for bound in np.ravel(_bounds(control, guess)):
        if np.isfinite(bound) and np.isnan(float(control.transform.to_search(jax.device_put(float(bound))))):
            raise PdefitError(
                f"The bound {bound:g} of '{path}' is outside the domain of {type(control.transform).__name__}; "
                f"choose another bound or transform"
            )
    if info and info.positive and np.any(guess <= 0):
        raise PdefitError(f"The guess of '{path}' is {_show(guess)}, but it must be positive")
    if not np.all(np.isfinite(np.asarray(control.transform.to_search(jax.device_put(guess))))):
        raise PdefitError(
            f"The guess of '{path}' is {_show(guess)}, which {type(control.transform).__name__} cannot represent; "
            f"choose another guess or transform"
        )
    if control.prior is not None and not np.all(
        np.isfinite(np.asarray(_residual(control.prior, jax.device_put(guess))))
    ):
        raise PdefitError(f"The prior of '{path}' is not finite at its guess {_show(guess)}")
    if not control.scale > 0:
        raise PdefitError(f"The scale of '{path}' must be positive, but is {control.scale}")


@eqx.filter_jit
def _residual(prior: AbstractPrior, guess: Array) -> Array:
    """Residual of a prior at a guess, by one compiled program."""
    return prior.residual(guess)


def _show(x: np.ndarray) -> str:
    return f"{x.item():g}" if x.size == 1 else np.array2string(x.ravel(), precision=4, threshold=6)
