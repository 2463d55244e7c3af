"""The onset of convection on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pdefit_flow.rayleigh_benard import RayleighBenard, State


def critical_rayleigh(system: RayleighBenard) -> float:
    """Rayleigh number of the onset of convection on the grid, in rolls of which one pair fills the box.

    It does not depend on the Rayleigh and Prandtl numbers of the system. In the limit of fine grids its minimum is
    1707.762, in a box 2 pi / 3.117 wide.

    **Arguments:**

    - `system`: the equations on their grid.
    """
    nz, length = system.grid.shape[1], system.grid.extent[0]
    # T, u and w of one wave, each with as many profiles as it has cells along z
    sizes = (nz, nz, nz - 1)
    places = [2 * np.pi * (system.positions(normal)[0] - system.grid.corner[0]) / length for normal in (None, 0, 1)]
    waves = [np.cos(places[0]), np.sin(places[1]), np.cos(places[2])]
    rest = State(*(jnp.zeros((system.grid.shape[0], n)) for n in sizes))

    def field(profiles: PyTree) -> State:
        return system.project(State(*(jnp.asarray(w)[:, None] * p[None] for w, p in zip(waves, profiles, strict=True))))

    def rate(profiles: PyTree) -> PyTree:
        moved = jax.jvp(lambda y: system.vector_field(jnp.zeros(()), y, None), (rest,), (field(profiles),))[1]
        return [wave @ x / (wave @ wave) for wave, x in zip(waves, moved, strict=True)]

    matrix = jax.jit(jax.jacfwd(rate))([jnp.zeros(n) for n in sizes])
    heat = np.asarray(matrix[0][0])
    heated, lifted, viscous = (
        np.block([[np.asarray(matrix[i][j]) for j in columns] for i in rows])
        for rows, columns in (((0,), (1, 2)), ((1, 2), (0,)), ((1, 2), (1, 2)))
    )
    # velocities without divergence: one for each profile of w, while the projection takes all others to 0
    decay, modes = np.linalg.eigh(viscous)
    decay, modes = decay[: nz - 1], modes[:, : nz - 1]
    # at the onset T = (-lap)^-1 w, and viscosity balances its buoyancy, which is proportional to Ra
    buoyancy = modes.T @ lifted @ np.linalg.solve(heat, heated) @ modes
    found = np.linalg.eigvals(buoyancy / decay[:, None])
    return float(np.max(system.rayleigh)) / float(np.max(np.real(found)))
