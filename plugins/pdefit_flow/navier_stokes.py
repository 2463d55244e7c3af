"""The Navier-Stokes equations in the plane."""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import pdefit
from pdefit.boundaries import AbstractBoundary, Dirichlet, Ends, NoFlux, Periodic
from pdefit.capabilities import AbstractDriven, AbstractVerifiable, Example
from pdefit_flow.forces import KolmogorovForce, NoForce
from pdefit_flow.operators import (
    Velocity,
    divergence,
    laplacian,
    mean_on_faces,
    self_transport,
    squared_gradient,
    transport,
    vorticity,
)
from pdefit_flow.pressure import AbstractPressure
from pdefit_flow.projection import project
from pdefit_flow.rim import MeasuredRim, Rim


class Flow(NamedTuple):
    """A velocity on faces."""

    u: Float[Array, "x_face y"] = pdefit.field(doc="velocity along x")
    v: Float[Array, "x y_face"] = pdefit.field(doc="velocity along y")


class FlowAndScalar(NamedTuple):
    """A velocity on faces, and a passive scalar at centres."""

    u: Float[Array, "x_face y"] = pdefit.field(doc="velocity along x")
    v: Float[Array, "x y_face"] = pdefit.field(doc="velocity along y")
    c: Float[Array, "x y"] = pdefit.field(doc="passive scalar")


class NavierStokes(AbstractPressure, AbstractDriven, AbstractVerifiable):
    """An incompressible fluid with viscosity, drag and a body force, and a passive scalar.

        u_t + div (u u) = - grad p + viscosity lap u - drag u + force,   div u = 0
        c_t + div (u c) = diffusivity lap c

    Each axis is periodic or lies between walls, through which nothing flows: `Dirichlet()` walls hold the fluid (no slip),
    `Dirichlet(speed)` walls move along themselves, and along `NoFlux()` walls it slips freely. The scalar does not pass
    walls.

    The force is projected, too. Its gradient part is balanced by the pressure and does not affect the velocity, so only
    its divergence-free part can be inferred. The computed pressure is the modified pressure.

    The initial state has a few random waves with a root mean square speed of 1; in a window it is irrotational.

    Production, dissipation and drag close the budget of the kinetic energy between walls at rest. The energy input
    of moving walls, or of the flow through a rim, is no diagnostic. In a window, production and enstrophy are averages
    over the points inside the rim.

    **Arguments:**

    - `grid`: the cells, and the conditions on the tangential velocity.
    - `viscosity`: the kinematic viscosity.
    - `drag`: the rate at which friction slows the fluid down; default 0.
    - `force`: the force per mass, a module called as `force(t, (x, y))` with coordinates (nx,) and (ny,), which returns
      (nx, ny, 2); default none.
    - `diffusivity`: of the scalar; default 1.
    - `scalar`: whether there is a scalar; default False.
    - `rim`: the velocity on the rim of a window cut from a larger flow; by default the axes are periodic or end at
      walls. Its vectors lie on the rim of the grid, and all conditions of the grid are `Dirichlet()`.
    - `compressible`: whether the fluid is a layer that exchanges fluid with its surroundings: it has no pressure, and
      its divergence is free; default False.
    - `unit_of_time`: the unit of time; default "1". With the unit of length it gives the unit of velocities.

    A window has only the velocity on its rim as condition. The initial state takes the velocity through the rim from
    the first time of `rim`.

    Source of the scheme: F. H. Harlow, J. E. Welch (1965), doi:10.1063/1.1761178.
    """

    axes: ClassVar[tuple[str, str]] = ("x", "y")
    components: ClassVar[tuple[str, str]] = ("u", "v")
    viscosity: Array = pdefit.parameter(unit="length^2/time", positive=True, doc="kinematic viscosity")
    drag: Array = pdefit.parameter(unit="1/time", positive=True, doc="rate of linear drag", default=0.0)
    force: eqx.Module = pdefit.parameter(unit="length/time^2", doc="force per mass", default=NoForce())
    diffusivity: Array = pdefit.parameter(
        unit="length^2/time", positive=True, doc="diffusivity of the scalar", default=1.0
    )
    scalar: bool = eqx.field(default=False, static=True)
    rim: Any = pdefit.parameter(unit="length/time", doc="velocity on the rim", default=None)
    compressible: bool = eqx.field(default=False, static=True)
    unit_of_time: str = eqx.field(default="1", static=True)

    def __check_init__(self):
        if self.grid.ndim != 2:
            raise ValueError(f"NavierStokes expects a grid of two axes, but got {self.grid.ndim}")
        for name, boundary in zip(self.axes, self.grid.boundaries, strict=True):
            ends = (boundary.lower, boundary.upper) if isinstance(boundary, Ends) else (boundary,)
            if not all(map(_fits, ends)):
                raise ValueError(
                    f"NavierStokes expects each axis periodic, dirichlet with the speed of a wall, or no_flux, but got "
                    f"{type(boundary).__name__} along {name}"
                )
        if self.rim is not None and (self.scalar or any(self.grid.periodic)):
            raise ValueError("NavierStokes with a rim expects a grid with boundary dirichlet, and no scalar")
        if self.compressible and self.scalar:
            raise ValueError(
                "NavierStokes carries a scalar without divergence only; set scalar or compressible to false"
            )
        force: Any = self.force
        found = eqx.filter_eval_shape(force, jnp.zeros(()), self.positions()).shape
        if found != (*self.grid.shape, 2):
            raise ValueError(
                f"NavierStokes expects a force of shape (nx, ny, 2), but {self.grid.shape} points give {found}"
            )

    @property
    def time_unit(self):
        return self.unit_of_time

    def rates(self, t, y):
        grid, flow = self.grid, (y.u, y.v)
        edges = self.edges(t)
        along = self_transport(grid, flow, edges)
        if self.compressible:
            # what the divergence form has beyond the derivative along the flow
            spread = divergence(grid, flow, edges)
            along = tuple(
                a - x * mean_on_faces(grid, spread, i) for i, (a, x) in enumerate(zip(along, flow, strict=True))
            )
        rate = [self.viscosity * laplacian(grid, x, i, edges) - along[i] - self.drag * x for i, x in enumerate(flow)]
        if not isinstance(self.force, NoForce):
            rate = [x + f.astype(x.dtype) for x, f in zip(rate, self.forcing(t), strict=True)]
        return rate[0], rate[1]

    def rim_rates(self, t):
        return None if self.rim is None else self.rim.edge_rates(self.grid, t)

    def vector_field(self, t, y, args):
        rates = self.rates(t, y)
        if not self.compressible:
            rates = project(self.grid, rates, edges=self.rim_rates(t))
        if not self.scalar:
            return Flow(*rates)
        carried = transport(self.grid, (y.u, y.v), y.c)
        return FlowAndScalar(*rates, self.diffusivity * laplacian(self._insulated, y.c) - carried)

    def project(self, y):
        if self.compressible:
            return y
        edges = None if self.rim is None else self.edges(self.rim.start)
        return self.with_velocity(y, project(self.grid, self.velocity(y), edges=edges))

    def edges(self, t):
        return None if self.rim is None else self.rim.edges(self.grid, t, balanced=not self.compressible)

    def derived(self, t, y):
        found = {} if self.compressible else super().derived(t, y)
        if not isinstance(self.force, NoForce):
            found |= {f"force_{axis}": f for axis, f in zip(self.axes, self.forcing(t), strict=True)}
        return found

    def derived_coords(self):
        found = {} if self.compressible else super().derived_coords()
        if not isinstance(self.force, NoForce):
            places, unit = self.coords(), self.unit_of(1, 2)
            for axis, name in zip(self.axes, self.components, strict=True):
                found[f"force_{axis}"] = dataclasses.replace(places[name], unit=unit, long_name="force", vector="force")
        return found

    def driven_by(self, observations, frames):
        """The flow with the rim taken from its data, and the data without the rim.

        **Arguments:**

        - `observations`: the record.
        - `frames`: the indices of the times to read.
        """
        if not isinstance(self.rim, MeasuredRim):
            return self, observations, ()
        rim, remarks = self.rim.of(observations.at(frames), self.components)
        inside = {n: m.at[:, [0, -1]].set(False).at[:, :, [0, -1]].set(False) for n, m in observations.mask.items()}
        rest = eqx.tree_at(lambda o: o.mask, observations, inside)
        return dataclasses.replace(self, rim=rim), rest, remarks

    def forcing(self, t: Array | float) -> Velocity:
        """The force at a time, each component on its faces."""
        force: Any = self.force
        x, y = (force(t, self.positions(i))[..., i] for i in range(2))
        return x, y

    @property
    def _insulated(self) -> pdefit.CartesianGrid:
        """The grid with the boundary conditions of the scalar."""
        walls = tuple(b if b.wraps else NoFlux() for b in self.grid.boundaries)
        return dataclasses.replace(self.grid, boundary=walls)

    def stable_step(self, y):
        walls = [float(np.max(np.abs(speed))) for speed in jax.tree.leaves(self.grid.boundary)]
        if isinstance(self.rim, Rim):
            walls.append(float(jnp.max(jnp.abs(jnp.stack([self.rim.u.values, self.rim.v.values])))))
        # the speed that a force gives to a fluid at rest over the longest wave
        push = float(self._largest_force())
        pushed = (push * max(self.grid.extent) / (2 * np.pi)) ** 0.5
        spread = jnp.maximum(self.viscosity, self.diffusivity) if self.scalar else self.viscosity
        return self._stable_step(y, spread, max([pushed, *walls]), float(jnp.max(self.drag)))

    @eqx.filter_jit
    def _largest_force(self) -> Array:
        return jnp.max(jnp.asarray([jnp.max(jnp.abs(f)) for f in self.forcing(0.0)]))

    @eqx.filter_jit
    def init(self, key):
        waves, scalar = (self._waves(k) for k in jax.random.split(key))
        flow = project(self.grid, (waves(0), waves(1)))
        speed = jnp.sqrt(self.mean(flow[0] ** 2) + self.mean(flow[1] ** 2))
        u, v = (x / speed for x in flow)
        if isinstance(self.rim, Rim):
            return self.project(Flow(jnp.zeros_like(u), jnp.zeros_like(v)))
        return FlowAndScalar(u, v, scalar(None)) if self.scalar else Flow(u, v)

    def _waves(self, key: Array) -> Any:
        """A sum of random waves, as a function of position, 0 on walls."""
        numbers = np.stack(np.meshgrid(np.arange(-3, 4), np.arange(4), indexing="ij"), -1).reshape(-1, 2)
        phase = 2 * jnp.pi * jax.random.uniform(key, (2, len(numbers)))
        size = 1 / (1 + np.sum(numbers**2, -1))

        def at(normal: int | None) -> Array:
            places = zip(self.positions(normal), self.grid.corner, self.grid.extent, strict=True)
            parts = [jnp.asarray((place - corner) / length, float) for place, corner, length in places]
            x, y = jnp.meshgrid(*parts, indexing="ij")
            waves = zip(size, 2 * np.pi * numbers, phase[normal or 0], strict=True)
            total = sum((a * jnp.sin(k * x + m * y + shift) for a, (k, m), shift in waves), start=jnp.zeros_like(x))
            walls = (jnp.sin(jnp.pi * p) for p, wraps in zip((x, y), self.grid.periodic, strict=True) if not wraps)
            return math.prod(walls, start=total)

        return at

    def background(self):
        # traced only: its values are not needed
        drawn = eqx.filter_eval_shape(self.init, jax.random.key(0))
        return jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), drawn)

    def diagnostics(self, t, y):
        common, flow, edges = super().diagnostics(t, y), (y.u, y.v), self.edges(t)
        mean = self.mean if edges is None else jnp.mean
        strain = sum(squared_gradient(self.grid, x, i, edges) for i, x in enumerate(flow))
        work = sum(mean(x * f) for x, f in zip(flow, self.forcing(t), strict=True))
        scalar = {"energy_scalar": self.mean(y.c**2) / 2} if self.scalar else {}
        return {
            "kinetic_production": work,
            "kinetic_dissipation": self.viscosity * strain,
            "kinetic_drag": 2 * self.drag * common["energy_kinetic"],
            "enstrophy": mean(vorticity(self.grid, flow) ** 2) / 2,
            "reynolds": pdefit.safe_sqrt(2 * common["energy_kinetic"]) * min(self.grid.extent) / self.viscosity,
            **common,
            **scalar,
        }

    @classmethod
    def example(cls, resolution):
        grid = pdefit.CartesianGrid((resolution, resolution), (2 * np.pi,) * 2, boundary=(Periodic(), Dirichlet()))
        viscosity, drag, diffusivity, amplitude = map(jnp.asarray, (0.2, 0.1, 0.3, 1.0))
        system = cls(grid, viscosity, drag, KolmogorovForce(amplitude, 1), diffusivity, scalar=True)
        y0 = system.init(jax.random.key(0))
        return Example(system, y0, np.linspace(0.0, 1.0, 5), 0.02, space_order=2, time_order=4)


def _fits(boundary: AbstractBoundary) -> bool:
    """True for a condition on a tangential velocity: a wall that moves at most along itself, or a periodic axis."""
    number = isinstance(boundary, Dirichlet) and not (isinstance(boundary.value, str) or callable(boundary.value))
    return number or isinstance(boundary, Periodic | NoFlux)
