"""Boundary conditions of a grid."""

from pdefit.systems.boundary import AbstractBoundary as AbstractBoundary
from pdefit.systems.boundary import AbstractEnd as AbstractEnd
from pdefit.systems.boundary import Dirichlet as Dirichlet
from pdefit.systems.boundary import Ends as Ends
from pdefit.systems.boundary import Neumann as Neumann
from pdefit.systems.boundary import NoFlux as NoFlux
from pdefit.systems.boundary import Periodic as Periodic
from pdefit.systems.boundary import Robin as Robin
