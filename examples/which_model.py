"""A boat whose engine stops: does its drag grow with its speed, or with the square of it?"""

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array

jax.config.update("jax_enable_x64", True)


# --8<-- [start:question]
class Boat(pdefit.AbstractSystem):
    """v' = -drag v^power, in seconds."""

    time_unit = "s"
    drag: Array = pdefit.parameter(positive=True)
    power: Array = pdefit.parameter(default=1.0)

    def vector_field(self, t, y, args):
        return {"v": -self.drag * y["v"] ** self.power}

    def init(self, key):
        return {"v": jnp.asarray(4.0)}


def objective(power, record):
    boat = Boat(drag=0.1, power=power)
    known = pdefit.Control(transform=pdefit.transforms.Log(), bounds=(0.001, 10.0))
    problem = pdefit.Problem(boat, boat.init(None))
    return pdefit.Functional(problem, record, {"drag": known}, dt=0.1)


true, seconds = Boat(drag=0.15, power=2.0), np.linspace(0.0, 4.0, 21)
exact = pdefit.simulate(true, true.init(None), seconds, dt=0.1)
good, poor = (pdefit.add_noise(exact, size, jax.random.key(0)) for size in (0.02, 0.3))
# --8<-- [end:question]


# --8<-- [start:answer]
def choose(record):
    fits = []
    for name, power in {"linear": 1.0, "square": 2.0}.items():
        newton = pdefit.optimizers.LevenbergMarquardt()
        found = pdefit.fit(objective(power, record), [newton])
        average = pdefit.marginal_likelihood(found.functional, found.theta)
        word = pdefit.judge(found).verdict.word
        fits.append(pdefit.Candidate.of(name, average, word))
        print(f"{name}: {word}; {average}")
    print(*pdefit.conclusion(fits), sep=". ", end=".\n")


choose(good)
choose(poor)
# --8<-- [end:answer]
