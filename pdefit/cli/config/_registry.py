"""Names of classes in a configuration.

Classes of pdefit and of the libraries below it are listed here by kind. Public classes of a plugin are found
automatically as `<plugin>/<class in snake case>`, and its systems by their names in `SYSTEMS`. A configuration file
names classes, so that it cannot run other code.
"""

import functools
import inspect
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import optax
import optimistix

import pdefit
from pdefit._util.errors import PdefitError, nearest, unknown
from pdefit.adjoints.base import AbstractAdjoint, Checkpointed, StoreAll
from pdefit.adjoints.forward_mode import FiniteDifference, Tangent
from pdefit.cli.config._types import returned
from pdefit.cli.runtime.equations import named, snake_case
from pdefit.cli.runtime.plugins import plugins, prefix
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays
from pdefit.integrate.adaptive.tolerance import Adaptive
from pdefit.integrate.loop.batch import AbstractBatch, Chunk, Loop, Vmap
from pdefit.integrate.solvers.etdrk4 import ETDRK4
from pdefit.integrate.solvers.imex import IMEX
from pdefit.integrate.solvers.rk4 import RK4
from pdefit.integrate.solvers.rkc import RKC
from pdefit.integrate.solvers.symplectic import VelocityVerlet, Yoshida4
from pdefit.inverse.controls.guesses import AbstractGuess, FromData, Perturb, Value
from pdefit.inverse.controls.priors import (
    H1,
    L2,
    AbstractPrior,
    AbstractRegularizer,
    LogNormal,
    Measured,
    Normal,
    TotalVariation,
)
from pdefit.inverse.controls.transforms import AbstractTransform, Identity, Log, Log10, Logit, Scale, Softplus
from pdefit.inverse.fit.drivers import AbstractDriver, Hosted, Traced
from pdefit.inverse.optimizers.arrow_gauss_newton import ArrowGaussNewton
from pdefit.inverse.optimizers.base import AbstractOptimizer
from pdefit.inverse.optimizers.collocation import Collocation
from pdefit.inverse.optimizers.gauss_newton_cg import GaussNewtonCG
from pdefit.inverse.optimizers.gradient_descent import Adam, Optax
from pdefit.inverse.optimizers.lbfgs import LBFGS
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt
from pdefit.inverse.problem.along_axes import Average, Corners
from pdefit.inverse.problem.at_points import At
from pdefit.inverse.problem.camera import Camera
from pdefit.inverse.problem.instrument import (
    AbstractObservationOperator,
    Compose,
    ObserveAll,
    Select,
    Subsample,
)
from pdefit.inverse.problem.logarithm import Logarithm
from pdefit.inverse.shooting.formulation import AbstractFormulation, Segments, Single
from pdefit.systems.boundary import AbstractBoundary, Dirichlet, Ends, Neumann, NoFlux, Periodic, Robin
from pdefit.systems.fourier_grid import FourierGrid
from pdefit.systems.grid import AbstractGrid, CartesianGrid
from pdefit.systems.initial import AbstractInitial, Steady
from pdefit.systems.inputs import Inputs
from pdefit.systems.interpolant import Interpolant
from pdefit.systems.system import AbstractSystem
from pdefit.systems.terms.base import AbstractTerm
from pdefit.systems.terms.formula import Formula
from pdefit.systems.terms.network import Network
from pdefit.systems.terms.series import Series
from pdefit.systems.time_series import TimeSeries


def time_series(
    values: list[Any] | str,
    times: list[float] | str,
    path: str | None = None,
    method: str = "cubic",
    sigma: float | list[Any] | str | None = None,
    knots: int | list[float] | None = None,
) -> TimeSeries:
    """A `TimeSeries` from numbers, or from variables of a data file.

    **Arguments:**

    - `values`, `times`, `sigma`: as in `TimeSeries`, or the names of variables of the file.
    - `path`: the data file.
    - `method`, `knots`: as in `TimeSeries`.
    """
    given = {"values": values, "times": times, "sigma": sigma}
    named = {word: name for word, name in given.items() if isinstance(name, str)}
    if named and path is None:
        raise PdefitError(f"{', '.join(named)} of a time series are names, which expect a data file; set path")
    read = {} if path is None else read_arrays(locate(path), named)
    return TimeSeries(**{**given, **read}, method=method, knots=knots)


# a class, or a function with a type hint of its result
Target = Callable[..., object]
_OURS = ("pdefit", "diffrax", "optax", "optimistix")


class Kind(NamedTuple):
    """A kind of object in a configuration.

    **Arguments:**

    - `word`: the name of the kind in messages.
    - `base`: the common base class.
    - `classes`: classes by name. A text is the public name of a class that is loaded when it is looked up.
    """

    word: str
    base: type
    classes: dict[str, Target | str]


def _named(*classes: Target | str) -> dict[str, Target | str]:
    return {snake_case(c.rpartition(".")[2] if isinstance(c, str) else c.__name__): c for c in classes}


_SOLVERS = _named(
    RK4, RKC, IMEX, ETDRK4, VelocityVerlet, Yoshida4,
    diffrax.Euler, diffrax.Heun, diffrax.Midpoint, diffrax.Ralston, diffrax.Bosh3, diffrax.Tsit5, diffrax.Dopri5,
    diffrax.Dopri8, diffrax.ImplicitEuler, diffrax.Kvaerno3, diffrax.Kvaerno4, diffrax.Kvaerno5,
)  # fmt: skip

# the first kind that fits is the kind of a class; so `input`, which any module fits, is the last
KINDS = (
    Kind("system", AbstractSystem, {}),
    Kind("solver", diffrax.AbstractSolver, _SOLVERS),
    Kind("steps", Adaptive, _named(Adaptive)),
    Kind(
        "adjoint",
        AbstractAdjoint,
        _named(Checkpointed, StoreAll, Tangent, FiniteDifference, "adjoints.Backsolve", "adjoints.Interpolating"),
    ),
    Kind("driver", AbstractDriver, _named(Traced, Hosted)),
    Kind("batch", AbstractBatch, _named(Vmap, Loop, Chunk)),
    Kind("formulation", AbstractFormulation, _named(Single, Segments)),
    Kind("term", AbstractTerm, _named(Network, Series, Formula)),
    Kind(
        "observation operator",
        AbstractObservationOperator,
        {"all": ObserveAll, **_named(Select, Subsample, Average, Corners, Compose, At, Camera, Logarithm)},
    ),
    Kind(
        "optimizer",
        AbstractOptimizer,
        _named(LevenbergMarquardt, GaussNewtonCG, LBFGS, Adam, Optax, Collocation, ArrowGaussNewton),
    ),
    Kind("initial state", AbstractInitial, _named(Steady)),
    Kind("regularizer", AbstractRegularizer, _named(L2, H1, TotalVariation)),
    Kind("transform", AbstractTransform, _named(Identity, Log, Log10, Logit, Softplus, Scale)),
    Kind("guess", AbstractGuess, _named(FromData, Perturb, Value)),
    Kind("prior", AbstractPrior, _named(Normal, LogNormal, Measured)),
    Kind("grid", AbstractGrid, _named(CartesianGrid, FourierGrid)),
    Kind("boundary", AbstractBoundary, _named(Periodic, NoFlux, Dirichlet, Neumann, Robin, Ends)),
    Kind(
        "gradient transformation",
        optax.GradientTransformation,
        _named(optax.adam, optax.adamw, optax.lion, optax.rmsprop, optax.sgd),
    ),
    Kind(
        "root finder",
        optimistix.AbstractRootFinder,
        _named(optimistix.Newton, optimistix.Chord, diffrax.VeryChord),
    ),
    Kind("input", eqx.Module, {**_named(Inputs, time_series), "interpolant": Interpolant.zeros}),
)


def names(base: type) -> dict[str, Target | str]:
    """All names for objects of a type, with their classes or the public names of these classes."""
    return dict(_names(base, tuple(plugins().items())))


@functools.cache
def _names(base: type, modules: tuple[tuple[str, ModuleType], ...]) -> dict[str, Target | str]:
    found: dict[str, Target | str] = {}
    for kind in KINDS:
        if issubclass(base, kind.base):
            # the listed classes of the kind itself are not checked: some functions of optax have no hint of their result
            found |= {n: t for n, t in kind.classes.items() if base is kind.base or _makes(_loaded(t), base)}
    return found | {n: t for n, t in _of_plugins(modules) if issubclass(base, _kind(t).base) and _makes(t, base)}


def word(base: type) -> str:
    """Name of a type in messages."""
    return next((kind.word for kind in KINDS if issubclass(base, kind.base)), base.__name__)


def lookup(name: str, base: type, path: str) -> Target:
    """The class of a name, which must be of the given type.

    **Arguments:**

    - `name`, `path`: the name, and its path for errors.
    - `base`: the type.
    """
    found = names(base)
    # a class may be called by its own name, too
    for known in (name, snake_case(name)):
        if known in found:
            return _loaded(found[known])
    for kind in KINDS:
        others = {**kind.classes, **{n: t for n, t in _of_plugins(tuple(plugins().items())) if _kind(t) is kind}}
        if name in others and kind.word != word(base):
            raise PdefitError(
                f"{path} expects the name of a kind of {word(base)}, but '{name}' is a kind of {kind.word}; "
                f"there are: {', '.join(sorted(found)) or 'none'}"
            )
    error = unknown(f"{word(base)} ({path})", name, found)
    if path == "system" and "/" not in name and named() is None:
        raise PdefitError(
            f"{error} One of your own is found when its file is named, too: pdefit fit EQUATION.py EXPERIMENT.yaml, in Python "
            f"load_experiment(..., equations='EQUATION.py')"
        )
    raise error


def name_of(target: str) -> str | None:
    """The name that replaces a `_target_` of pdefit or a library below it; None if there is none."""
    last = target.rpartition(".")[2]
    return next((n for kind in KINDS for n, t in kind.classes.items() if _loaded(t).__name__ == last), None)


def resolve(target: object, path: str) -> Target:
    """The class or function of a `_target_`, which a plugin must define itself and export at its top level."""
    package, _, name = str(target).rpartition(".")
    root = str(target).partition(".")[0]
    if root in _OURS and (known := name_of(str(target))) is not None:
        raise PdefitError(
            f"_target_ '{target}' ({path}) is written as in pdefit 0.1; write {path}={{name: {known}, ...}} in its place"
        )
    found = plugins()
    if root not in (*found, *_OURS) and nearest(root, found):
        raise unknown(f"plugin (_target_ '{target}', {path})", root, found)
    refused = PdefitError(
        f"_target_ '{target}' ({path}) is not allowed; it must be a class or function that a plugin exports, and everything "
        f"else has a name (name: ...)"
    )
    if package not in found or name.startswith("_") or not name.isidentifier():
        raise refused
    public = {n: x for n, x in vars(found[package]).items() if not n.startswith("_")}
    if name not in public:
        raise unknown(f"_target_ in {package} ({path})", name, public) if nearest(name, public) else refused
    wanted = public[name]
    if not (inspect.isclass(wanted) or inspect.isfunction(wanted)):
        raise refused
    if wanted.__module__ != package and not wanted.__module__.startswith(f"{package}."):
        raise refused
    return wanted


def _of_plugins(modules: tuple[tuple[str, ModuleType], ...]) -> list[tuple[str, Target]]:
    """All public classes of plugins, and functions whose hint says that they return one, by name."""
    found: list[tuple[str, Target]] = []
    for package, module in modules:
        found += module.SYSTEMS.items()
        for name, target in vars(module).items():
            if name.startswith("_") or not (inspect.isclass(target) or inspect.isfunction(target)):
                continue
            own = target.__module__ == package or target.__module__.startswith(f"{package}.")
            makes = returned(target)
            if not own or not inspect.isclass(makes) or not issubclass(makes, tuple(k.base for k in KINDS)):
                continue
            if target not in module.SYSTEMS.values() and not inspect.isabstract(target):
                found.append((f"{prefix(package)}{snake_case(name)}", target))
    return found


def _loaded(target: Target | str) -> Target:
    return operator.attrgetter(target)(pdefit) if isinstance(target, str) else target


def _kind(target: Target) -> Kind:
    return next(kind for kind in KINDS if _makes(target, kind.base))


def _makes(target: Target, base: type) -> bool:
    makes = returned(target)
    return inspect.isclass(makes) and issubclass(makes, base)
