"""A drug is swallowed, and eight samples of blood are planned. When should one more be taken?"""

import jax
import jax.numpy as jnp
import numpy as np
import pdefit
from jaxtyping import Array

jax.config.update("jax_enable_x64", True)


# --8<-- [start:question]
class Drug(pdefit.AbstractSystem):
    """gut' = -uptake gut, blood' = uptake gut - removal blood, in hours."""

    time_unit = "h"
    uptake: Array = pdefit.parameter(unit="1/h", positive=True)
    removal: Array = pdefit.parameter(unit="1/h", positive=True)

    def vector_field(self, t, y, args):
        absorbed = self.uptake * y["gut"]
        return {"gut": -absorbed, "blood": absorbed - self.removal * y["blood"]}

    def init(self, key):
        return {"gut": jnp.asarray(100.0), "blood": jnp.asarray(0.0)}


drug, blood = Drug(uptake=1.2, removal=0.15), pdefit.instruments.Select("blood")
y0, ts = drug.init(None), np.linspace(0.0, 4.0, 9)
plan = pdefit.simulate(drug, y0, ts, dt=0.05, observe=blood).with_sigma({"blood": 3.0})
log = pdefit.transforms.Log()
objective = pdefit.Functional(
    pdefit.Problem(drug, y0, blood), plan, {"uptake": log, "removal": log}, dt=0.05
)
# --8<-- [end:question]

# --8<-- [start:answer]
answer = pdefit.design(objective, objective.theta0)
print(answer)

for kind in ("frame", "field", "recording"):
    best = answer.best(kind)
    print(f"{best.words}: removal {answer.width(best.half)}")
for one in answer.cadences:
    print(f"{one.frames} samples: removal {answer.width(one.half)}")
# --8<-- [end:answer]
