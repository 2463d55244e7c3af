"""A dye shows a protein. How much is made, and how bright the dye is, cannot both be told."""

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array

jax.config.update("jax_enable_x64", True)


# --8<-- [start:question]
class Protein(pdefit.AbstractSystem):
    """p' = production - decay p, in hours."""

    time_unit = "h"
    production: Array = pdefit.parameter(positive=True)
    decay: Array = pdefit.parameter(unit="1/h", positive=True)

    def vector_field(self, t, y, args):
        return {"p": self.production - self.decay * y["p"]}

    def init(self, key):
        return {"p": jnp.asarray(0.0)}


class Dye(pdefit.instruments.AbstractObservationOperator):
    """The brightness of the dye."""

    gain: Array = pdefit.parameter(positive=True)

    def __call__(self, t, y, args):
        return {"brightness": self.gain * y["p"]}


protein, dye = Protein(production=2.0, decay=0.5), Dye(30.0)
y0, ts = protein.init(None), np.linspace(0.0, 8.0, 17)
record = pdefit.simulate(protein, y0, ts, dt=0.05, observe=dye).with_sigma(
    {"brightness": 2.0}
)
log = pdefit.transforms.Log()
objective = pdefit.Functional(
    pdefit.Problem(protein, y0, dye),
    record,
    {"production": log, "decay": log, "observe": {"gain": log}},
    dt=0.05,
)
# --8<-- [end:question]

# --8<-- [start:answer]
answer = pdefit.identify(objective, objective.theta0)
print(answer)

for one in answer.controls:
    moved = pdefit.compensation(objective, objective.theta0, answer, one)
    print(
        f"{one.control} 10 % larger moves the data by {moved.alone:.1f} sigma, "
        f"by {moved.together:.1f} with the others adjusted"
    )
# --8<-- [end:answer]
