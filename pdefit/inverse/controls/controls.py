"""Controls: which leaves of a problem are unknown, and the vector theta that stands for them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from pdefit._util.errors import PdefitError
from pdefit.data.observations import Observations
from pdefit.inverse.controls.guesses import AbstractGuess
from pdefit.inverse.controls.paths import leaf, leaf_paths
from pdefit.inverse.controls.priors import AbstractPrior
from pdefit.inverse.controls.sobolev import smooth, unsmooth
from pdefit.inverse.controls.transforms import AbstractTransform, Identity, Scale
from pdefit.inverse.problem.problem import Problem
from pdefit.systems.capabilities import AbstractGridded
from pdefit.systems.system import ParameterInfo, parameters

# up to this many elements controls are tabulated one by one and get intervals; beyond, they are fields
FEW = 200


@dataclasses.dataclass(frozen=True)
class Control:
    """An unknown, as the user declares it; all numbers in physical units.

    `guess` where it starts (default: the problem's value); `bounds` a box it may not leave; `prior`; `scale` the size of a
    typical change in search space, which rescales theta; `smoothing` a length, in grid cells, below which a field is not
    resolved: its search variable is then a Sobolev variable; `scope` says whether many recordings share it, or each
    `experiment` has its own (node states always belong to one); `estimate: false` keeps it at its guess.
    """

    transform: AbstractTransform = Identity()
    guess: AbstractGuess | None = None
    bounds: tuple[float, float] | None = None
    prior: AbstractPrior | None = None
    unit: str | None = None
    scale: float = 1.0
    smoothing: float | None = None
    scope: str = "shared"
    estimate: bool = True

    def __post_init__(self):
        if self.scope not in ("shared", "experiment"):
            raise PdefitError(f"The scope of a control is `shared` or `experiment`, but got '{self.scope}'")


class BoundControl(eqx.Module):
    """One control bound to its leaf of the problem. `base` is the search-space field around which a Sobolev variable moves."""

    path: str = eqx.field(static=True)
    where: Callable[[Problem], Array] = eqx.field(static=True)
    transform: AbstractTransform
    shape: tuple[int, ...] = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)
    prior: AbstractPrior | None
    unit: str = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    smoothing: float | None = eqx.field(static=True)
    base: Array | None
    # whether each recording has its own
    own: bool = eqx.field(static=True, default=False)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def declared(self) -> str:
        """The path as it was declared: without the number of the recording, `y0.u` for `y0.u[3]`."""
        return self.path.rsplit("[", 1)[0] if self.path.endswith("]") else self.path

    @property
    def is_node(self) -> bool:
        return self.declared.split(".")[0] == "nodes"

    @property
    def is_state(self) -> bool:
        """Whether it is where a trajectory starts."""
        return self.declared.split(".")[0] in ("y0", "nodes")

    def to_theta(self, x: Array) -> Float[Array, " size"]:
        """The part of theta that stands for the physical value x."""
        search = self.transform.to_search(x)
        if self.base is not None and self.smoothing is not None:
            search = unsmooth(search - self.base, self.smoothing)
        return jnp.ravel(search) / self.scale

    def to_physical(self, theta: Float[Array, " size"]) -> Array:
        """The physical value that a part of theta stands for."""
        search = jnp.reshape(theta * self.scale, self.shape)
        if self.base is not None and self.smoothing is not None:
            search = self.base + smooth(search, self.smoothing)
        return self.transform.to_physical(search)

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds in search space."""
        lower, upper = (
            np.asarray(self.transform.to_search(jnp.asarray(b))) / self.scale if np.isfinite(b) else b
            for b in (self.lower, self.upper)
        )
        return np.full(self.size, lower), np.full(self.size, upper)


class Controls(eqx.Module):
    """All controls of a problem. theta is one float64 vector: the controls' search variables one after the other, numbers
    before fields, states last."""

    items: tuple[BoundControl, ...]

    @property
    def nodes(self) -> tuple[BoundControl, ...]:
        """The controls that are node states, with the segments as first axis."""
        return tuple(c for c in self.items if c.is_node)

    @property
    def shared(self) -> "Controls":
        """The controls that all segments share: the first `shared_size` elements of theta."""
        return Controls(tuple(c for c in self.items if not c.is_node))

    @property
    def shared_size(self) -> int:
        return self.shared.size

    @property
    def states(self) -> "Controls":
        """The controls that are starts of trajectories: the last ones."""
        return Controls(tuple(c for c in self.items if c.is_state))

    @property
    def without_states(self) -> "Controls":
        """The controls that are not."""
        return Controls(tuple(c for c in self.items if not c.is_state))

    @property
    def tabulated(self) -> "Controls":
        """The controls that histories and tables follow element by element: the shared ones that are no fields, as long as
        they are few; the first elements of theta."""
        totals = np.cumsum([c.size for c in self.shared.items])
        return Controls(tuple(c for c, total in zip(self.shared.items, totals, strict=True) if total <= FEW))

    @property
    def size(self) -> int:
        return sum(c.size for c in self.items)

    def theta(self, problem: Problem) -> Float[Array, " p"]:
        """The vector that stands for the values the problem holds."""
        return jnp.concatenate([c.to_theta(c.where(problem)).astype(jnp.float64) for c in self.items])

    def values(self, theta: Float[Array, " p"]) -> dict[str, Array]:
        """The physical value of every control by path."""
        return {c.path: c.to_physical(part) for c, part in zip(self.items, self.split(theta), strict=True)}

    def problem(self, problem: Problem, theta: Float[Array, " p"]) -> Problem:
        """The problem with the controls that theta stands for."""
        new = list(self.values(theta).values())
        old = self._leaves(problem)
        new = [x.astype(o.dtype) for x, o in zip(new, old, strict=True)]
        return eqx.tree_at(self._leaves, problem, new)

    def touched(self, problem: PyTree) -> PyTree:
        """What the controls put values into; None elsewhere, which tangents take for "does not move" and leave out."""
        chosen = eqx.tree_at(self._leaves, jax.tree.map(lambda _: False, problem), [True] * len(self.items))
        return eqx.filter(problem, chosen)

    def _leaves(self, problem: Any) -> list[Any]:
        return [c.where(problem) for c in self.items]

    def split(self, theta: Float[Array, " p"]) -> list[Array]:
        """theta cut into the parts of each control."""
        return jnp.split(theta, np.cumsum([c.size for c in self.items])[:-1]) if self.items else []

    def sizes(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """How far elements of theta move to change their control by as much as it is large; 1 where it is zero, and at most 1
        where a transform bends."""

        def size(control: BoundControl, part: Array) -> Array:
            value, change = jax.jvp(control.to_physical, (part,), (jnp.ones_like(part),))
            large, small = (jnp.sqrt(jnp.mean(x.astype(jnp.float64) ** 2)) for x in (value, change))
            known = (large > 0) & (small > 0)
            factor = jnp.where(known, large / jnp.where(known, small, 1.0), 1.0)
            straight = isinstance(control.transform, Identity | Scale)
            return jnp.full(part.shape, factor if straight else jnp.minimum(factor, 1.0))

        return jnp.concatenate([jnp.zeros(0), *map(size, self.items, self.split(theta))])

    @property
    def elements(self) -> dict[str, np.ndarray]:
        """(p,) by path as declared: which elements of theta belong to a control, of all recordings together."""
        owner = np.repeat([c.declared for c in self.items], [c.size for c in self.items])
        return {path: owner == path for path in dict.fromkeys(c.declared for c in self.items)}

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of theta."""
        boxes = [c.box() for c in self.items]
        return np.concatenate([b[0] for b in boxes]), np.concatenate([b[1] for b in boxes])

    def extremes(self, problem: Problem) -> list[Problem]:
        """The problem itself, with all elements at their lower bounds, and with all at their upper, where they have any."""
        theta = self.theta(problem)
        corners = [jnp.where(np.isfinite(bound), bound, theta) for bound in self.box()]
        return [self.problem(problem, x) for x in (theta, *corners)]

    def prior_residuals(self, theta: Float[Array, " p"]) -> list[Array]:
        """The residuals of all priors."""
        parts = zip(self.items, self.split(theta), strict=True)
        return [jnp.ravel(c.prior.residual(c.to_physical(part))) for c, part in parts if c.prior is not None]

    def names(self) -> list[str]:
        """A name for every element of theta: `D`, `gm.Mars`, `y0.u.17`."""
        return [f"{c.path}.{label}" if label else c.path for c in self.items for label in c.labels]


Declaration = Mapping[str, Any]


def resolve(
    problem: Problem, declared: Declaration, key: PRNGKeyArray, observations: Observations
) -> tuple[Controls, Problem]:
    """Controls bound to the leaves of a problem, and the problem at their guesses.

    **Arguments:** `declared` is nested like the problem: parameters of the system at its root, and `y0`, `observe` and
    `nodes`; every leaf is a `Control` or a transform.
    """
    items: list[BoundControl] = []
    for path, control in _declared_leaves(problem, declared):
        where = leaf(problem, path)
        nominal = where(problem)
        guess = (
            nominal if control.guess is None else control.guess.value(nominal, path, key, observations, problem.system)
        )
        guess = jnp.asarray(guess, nominal.dtype)
        # the leaves of a module are declared by its name
        info = parameters(problem.system).get(path.split(".")[0])
        lower, upper = control.bounds or (-np.inf, np.inf)
        _check(path, control, np.asarray(guess), lower, upper, info)
        problem = eqx.tree_at(where, problem, guess)
        if not control.estimate:
            continue
        items.append(
            BoundControl(
                path=path,
                where=where,
                transform=control.transform,
                shape=guess.shape,
                scale=control.scale,
                lower=lower,
                upper=upper,
                prior=control.prior,
                unit=control.unit or (info.unit if info else "1"),
                labels=_labels(problem, info, guess.shape),
                smoothing=control.smoothing,
                base=None if control.smoothing is None else control.transform.to_search(guess),
                own=control.scope == "experiment" or path.split(".")[0] == "nodes",
            )
        )
    if not items:
        raise PdefitError("A fit expects at least one control; declare an unknown under controls, e.g. controls.D")
    return Controls(tuple(sorted(items, key=lambda c: (c.is_node, c.is_state, c.size > FEW)))), problem


def _declared_leaves(problem: Problem, declared: Declaration) -> list[tuple[str, Control]]:
    """Every array that is declared a control: of a module (a network, an interpolant) all of its arrays."""
    found: dict[str, Control] = {}
    for path, control in _flatten(declared):
        inside = leaf_paths(problem, path)
        if inside != [path] and control.smoothing is not None:
            raise PdefitError(f"'{path}' is a module, whose arrays are no fields; remove smoothing")
        for inner in inside:
            if inner in found:
                raise PdefitError(f"The control '{inner}' is declared twice; remove one")
            found[inner] = control
    return list(found.items())


def _flatten(declared: Declaration, prefix: str = "") -> list[tuple[str, Control]]:
    """Leaves of the nested mapping with their dotted paths."""
    found: list[tuple[str, Control]] = []
    for name, node in declared.items():
        path = f"{prefix}{name}"
        if isinstance(node, Control):
            found.append((path, node))
        elif isinstance(node, AbstractTransform):
            found.append((path, Control(transform=node)))
        elif isinstance(node, Mapping):
            found.extend(_flatten(node, f"{path}."))
        else:
            raise PdefitError(f"controls.{path} expects a Control, a transform or a mapping, but got {node!r}")
    return found


def _labels(problem: Problem, info: ParameterInfo | None, shape: tuple[int, ...]) -> tuple[str, ...]:
    """What distinguishes the elements of a control: the coordinates of its declared dimensions, or numbers."""
    if not shape:
        return ("",)
    axes: list[Any] = [range(n) for n in shape]
    if info and len(info.dims) == len(shape) and isinstance(problem.system, AbstractGridded):
        known = {d: c for field in problem.system.coords().values() for d, c in field.coords.items()}
        axes = [known.get(d, range(n)) for d, n in zip(info.dims, shape, strict=True)]
    index = np.indices(shape).reshape(len(shape), -1).T
    return tuple(".".join(str(axes[k][i]) for k, i in enumerate(row)) for row in index)


def _check(path: str, control: Control, guess: np.ndarray, lower: float, upper: float, info: ParameterInfo | None):
    """Refuse a start that the bounds, the sign or the transform exclude."""
    if not lower < upper:
        raise PdefitError(f"The bounds of '{path}' expect low < high, but are [{lower}, {upper}]")
    if np.any(guess < lower) or np.any(guess > upper):
        raise PdefitError(f"The guess of '{path}' is {_show(guess)}, outside its bounds [{lower:g}, {upper:g}]")
    if control.smoothing is not None and path.split(".")[0] == "nodes":
        raise PdefitError(f"'{path}' has smoothing, which would tie segments to each other; remove it")
    if control.smoothing is not None and control.bounds is not None:
        raise PdefitError(
            f"'{path}' has smoothing, whose search variable has no box; use a logit transform instead of bounds"
        )
    for bound in (lower, upper):
        if np.isfinite(bound) and np.isnan(float(control.transform.to_search(jnp.asarray(float(bound))))):
            raise PdefitError(
                f"The bound {bound:g} of '{path}' is outside the domain of {type(control.transform).__name__}; "
                f"choose another bound or transform"
            )
    if info and info.positive and np.any(guess <= 0):
        raise PdefitError(f"The guess of '{path}' is {_show(guess)}, but it must be positive")
    if not np.all(np.isfinite(np.asarray(control.transform.to_search(jnp.asarray(guess))))):
        raise PdefitError(
            f"The guess of '{path}' is {_show(guess)}, which {type(control.transform).__name__} cannot represent; "
            f"choose another guess or transform"
        )
    if control.prior is not None and not np.all(np.isfinite(np.asarray(control.prior.residual(jnp.asarray(guess))))):
        raise PdefitError(f"The prior of '{path}' is not finite at its guess {_show(guess)}")
    if not control.scale > 0:
        raise PdefitError(f"The scale of '{path}' must be positive, but is {control.scale}")


def _show(x: np.ndarray) -> str:
    return f"{x.item():g}" if x.size == 1 else np.array2string(x.ravel(), precision=4, threshold=6)
