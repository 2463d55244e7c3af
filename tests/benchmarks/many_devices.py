"""Fits over several devices beside the same on one: values, gradients, and what passes between the devices.

    ./run python tests/benchmarks/many_devices.py [--cells 256] [--devices 4] [--real | --processes]

A spiral wave in tissue is cut along its first axis. Spheres and planets are recordings, some on each device. Without
`--real` the devices are threads of this processor; `--real` takes the GPUs of this machine. With `--processes` each device is
a process, as a task of SLURM would be: it finds the others by the variables of SLURM.
"""

import argparse
import os
import re
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--cells", type=int, default=256)
parser.add_argument("--devices", type=int, default=4)
parser.add_argument("--real", action="store_true")
parser.add_argument("--processes", action="store_true")
asked = parser.parse_args()
if asked.processes and "SLURM_PROCID" not in os.environ:
    # the job number chooses the port
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": str(asked.devices)}
    each = [{**os.environ, **job, "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)} for i in range(asked.devices)]
    tasks = [subprocess.Popen([sys.executable, *sys.argv], env=environment) for environment in each]
    sys.exit(max(abs(task.wait()) for task in tasks))
if asked.processes:
    os.environ["JAX_PLATFORMS"] = "cpu"
elif not asked.real:
    # before JAX starts
    flags = f"--xla_force_host_platform_device_count={asked.devices}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import tissue  # noqa: E402
from pdefit_particles import Gravity  # noqa: E402
from pdefit_sphere import NavierStokes, Sphere  # noqa: E402
from pdefit_sphere.flow import Velocity  # noqa: E402

import pdefit  # noqa: E402
from pdefit.inverse.objective.compiled import GRADIENT  # noqa: E402
from pdefit.inverse.objective.spread import devices_of  # noqa: E402

COLLECTIVES = ("all-gather", "all-to-all", "all-reduce", "collective-permute")


jax.config.update("jax_enable_x64", True)
if asked.processes:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize()


def spheres(count: int) -> pdefit.Recordings:
    """Decaying flows on spheres that share a viscosity, each from a start of its own."""
    sphere, rng, parts = Sphere(6), np.random.default_rng(0), []
    for _ in range(count):
        start = Velocity(*(jnp.asarray(0.1 * rng.normal(size=sphere.shape)) for _ in range(2)))
        system = NavierStokes(sphere, jnp.asarray(0.1))
        data = pdefit.Observations.build(
            [0.0, 0.2, 0.4], {n: rng.normal(size=(3, *sphere.shape)) for n in start._fields}
        )
        start_of_its_own = {n: pdefit.Control(scope="experiment") for n in start._fields}
        controls = {"viscosity": pdefit.transforms.Log(), "y0": start_of_its_own}
        parts.append(pdefit.Functional(pdefit.Problem(system, start), data, controls, dt=0.02))
    return pdefit.Recordings(parts)


def planets(count: int) -> pdefit.Recordings:
    """A sun with two planets, watched from several starts: the masses are shared."""
    rng, parts = np.random.default_rng(1), []
    for _ in range(count):
        position = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.8]]) + 0.01 * rng.normal(size=(3, 2))
        velocity = np.array([[0.0, 0.0], [0.0, 1.0], [-0.75, 0.0]])
        mass = np.array([1.0, 1e-3, 3e-3])
        system = Gravity(
            gm=mass, names=("sun", "inner", "outer"), position=position, velocity=velocity, length_unit="1"
        )
        start = system.init(None)
        data = pdefit.simulate(system, start, np.linspace(0.0, 3.0, 13), dt=0.02)
        problem = pdefit.Problem(system, start, pdefit.instruments.Select("position"))
        guess = {"gm": pdefit.Control(pdefit.transforms.Log(), pdefit.guesses.Perturb(0.5, 2.0))}
        parts.append(pdefit.Functional(problem, data, guess, dt=0.02))
    return pdefit.Recordings(parts)


def row(name: str, objective: pdefit.AbstractObjective) -> bool:
    """Print the largest difference from one device, and what passes between devices; whether it is below 1e-12."""
    shared = pdefit.spread(objective, jax.devices())
    theta = objective.theta0
    given = shared.theta0 if asked.processes else theta
    program = GRADIENT.lower(shared, given).compile()
    text = program.compiled.as_text()
    passed = {name: len(re.findall(rf" {name}(?:-start)?\(", text)) for name in COLLECTIVES}
    alone, together = GRADIENT(objective, theta)[:2], program(shared, given)[:2]
    parts = [(np.asarray(a), np.asarray(b)) for a, b in zip(alone, together, strict=True)]
    worst = [float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in parts]
    told = ", ".join(f"{count} {name}" for name, count in passed.items() if count) or "nothing passes"
    if jax.process_index():
        return max(worst) <= 1e-12
    print(f"{name:9} {devices_of(shared)} devices  value {worst[0]:.1e}  gradient {worst[1]:.1e}  {told}", flush=True)
    return max(worst) <= 1e-12


def main() -> None:
    """Print one row a problem."""
    cut = tissue.functional(asked.cells, 4, 5, "float64", fields=False)
    found = [row("tissue", cut), row("sphere", spheres(asked.devices)), row("planets", planets(asked.devices))]
    sys.exit(0 if all(found) else 1)


if __name__ == "__main__":
    main()
