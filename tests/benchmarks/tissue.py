"""The problem that most rows measure: spiral waves of the BOCF model, ten parameters and all initial fields unknown."""

import dataclasses
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from pdefit_cardiac import BOCF
from pdefit_cardiac.parameter_sets import TUTORIAL

import pdefit
from pdefit._util.trees import cast

jax.config.update("jax_enable_x64", True)

PARAMETERS = ("u_s", "u_so", "k_so", "tau_so1", "tau_si", "k_s", "u_u", "theta_v", "D", "tau_fi")
DT = 0.05


def tissue(cells: int, dtype: str = "float32") -> tuple[BOCF, BOCF]:
    """The model and its state, cells x cells, lengths in grid spacings."""
    grid = pdefit.CartesianGrid(shape=(cells, cells), extent=(float(cells), float(cells)), length_unit="1")
    system = cast(BOCF(grid=grid, **{**TUTORIAL, "D": 0.1}), dtype)
    return system, cast(system.init(None), dtype)


def functional(
    cells: int,
    observations: int = 100,
    between: int = 10,
    dtype: str = "float32",
    *,
    parameters: tuple[str, ...] = PARAMETERS,
    fields: bool = True,
    **options: Any,
) -> pdefit.Functional:
    """Data of the model itself every `between` Euler steps, seen from parameters that are 2 % off."""
    system, y0 = tissue(cells, dtype)
    ts = DT * between * np.arange(1, observations + 1)
    # data of the right size are as good as right ones for measuring time
    shape = (ts.size + 1, cells, cells)
    keys = jax.random.split(jax.random.key(0), 4)
    values = {
        n: (0.5 * jax.random.uniform(k, shape, "float32")).astype(dtype) for n, k in zip(y0._fields, keys, strict=True)
    }
    data = pdefit.Observations.build(np.concatenate([[0.0], ts]), values)
    controls = {name: pdefit.transforms.Log() for name in parameters}
    if fields:
        controls["y0"] = {name: pdefit.Control() for name in y0._fields}
    guess = dataclasses.replace(system, **{n: getattr(system, n) * jnp.asarray(1.02, dtype) for n in parameters})
    options = {"solver": diffrax.Euler(), "dt": DT, **options}
    return pdefit.Functional(pdefit.Problem(guess, y0), data, controls, **options)
