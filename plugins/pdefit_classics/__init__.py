"""Classic equations, one in each file, on which neural networks are most often trained."""

from pdefit_classics.allen_cahn import AllenCahn as AllenCahn
from pdefit_classics.burgers import Burgers as Burgers
from pdefit_classics.fourier_burgers import FourierBurgers as FourierBurgers
from pdefit_classics.korteweg_de_vries import KortewegDeVries as KortewegDeVries
from pdefit_classics.kuramoto_sivashinsky import KuramotoSivashinsky as KuramotoSivashinsky
from pdefit_classics.lorenz import Lorenz as Lorenz

SYSTEMS = {
    "classics/allen_cahn": AllenCahn,
    "classics/burgers": Burgers,
    "classics/fourier_burgers": FourierBurgers,
    "classics/korteweg_de_vries": KortewegDeVries,
    "classics/kuramoto_sivashinsky": KuramotoSivashinsky,
    "classics/lorenz": Lorenz,
}
