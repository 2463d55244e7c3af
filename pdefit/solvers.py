"""Time stepping methods of pdefit. Solvers of diffrax can be used, too."""

from pdefit.integrate.solvers.etdrk4 import ETDRK4 as ETDRK4
from pdefit.integrate.solvers.imex import IMEX as IMEX
from pdefit.integrate.solvers.rk4 import RK4 as RK4
from pdefit.integrate.solvers.rkc import RKC as RKC
from pdefit.integrate.solvers.symplectic import VelocityVerlet as VelocityVerlet
from pdefit.integrate.solvers.symplectic import Yoshida4 as Yoshida4
