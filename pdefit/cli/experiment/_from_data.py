"""Observations from a file, and the problem they are fitted with."""

import jax
import numpy as np

from pdefit.cli.config.settings import Settings
from pdefit.cli.config.sources import DataSettings
from pdefit.cli.experiment._observed_data import observed_data
from pdefit.cli.experiment.frame_times import fitted_frames, frames_kept_out
from pdefit.cli.experiment.initial_state import initial_state
from pdefit.cli.experiment.source import Source
from pdefit.cli.experiment.truth import problem_at
from pdefit.data.noise import estimate_noise
from pdefit.data.readers.locate import locate
from pdefit.data.readers.observations import read_arrays
from pdefit.inverse.problem.problem import Problem
from pdefit.inverse.problem.twin import add_noise
from pdefit.systems.capabilities import AbstractDriven


def from_data(settings: Settings, data: DataSettings) -> Source:
    """Observations from a file, and their problem."""
    path = locate(data.path)
    held = {name: values.tolist() for name, values in read_arrays(path, data.system, data.select).items()}
    system = settings.system.changed(held).build()
    observations, assumed, remarks, observe = observed_data(settings, data, path, system)
    if data.noise:
        noisy = add_noise(observations, data.noise, jax.random.key(settings.seed))
        observations = noisy.with_sigma(
            {name: np.hypot(observations.sigma[name], noisy.sigma[name]) for name in data.stated}
        )
        remarks = (
            *remarks,
            f"each variable has noise of {data.noise:.3g} times its range added (seed {settings.seed})",
        )
    # noise is estimated without the frames that are kept for the forecast
    last = np.inf if settings.times.fit_until is None else settings.times.fit_until
    noise = {name: estimate_noise(observations.between(-np.inf, last), name) for name in data.automatic}
    observations = observations.with_sigma({name: found.sigma for name, found in noise.items()})
    if isinstance(system, AbstractDriven):
        fitted = np.arange(fitted_frames(settings.times, observations.ts))
        frames = np.setdiff1d(fitted, frames_kept_out(settings, observations.ts[fitted]))
        system, observations, taken = system.driven_by(observations, frames)
        remarks = (*remarks, *taken)
    located = observe.on(system).located(observations)
    y0, prepared, moved = initial_state(settings.initial, settings.seed, system, located)
    problem = Problem(system, y0, observe, args=settings.args)
    return Source(
        problem,
        observations,
        tuple(data.truth),
        None,
        "real data",
        noise=noise,
        unstated=data.unstated,
        prepared=prepared,
        assumed=assumed,
        remarks=(*remarks, *moved),
        truth=None if data.true_values is None else problem_at(problem, data.true_values),
    )
