"""Boundary conditions of a grid."""

from pdefit.systems.boundary import AbstractBoundary as AbstractBoundary
from pdefit.systems.boundary import Dirichlet as Dirichlet
from pdefit.systems.boundary import NoFlux as NoFlux
from pdefit.systems.boundary import Periodic as Periodic
