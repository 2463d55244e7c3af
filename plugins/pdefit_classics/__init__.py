"""Classic equations, one in each file: those that neural networks are trained on most."""

from pdefit_classics.burgers import Burgers as Burgers
from pdefit_classics.lorenz import Lorenz as Lorenz

SYSTEMS = {"classics/burgers": Burgers, "classics/lorenz": Lorenz}
