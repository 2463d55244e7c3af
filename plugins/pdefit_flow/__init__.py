"""Incompressible flow in the plane, with an exact projection in every evaluation of the right-hand side."""

from pdefit_flow.forces import KolmogorovForce as KolmogorovForce
from pdefit_flow.forces import NoForce as NoForce
from pdefit_flow.navier_stokes import NavierStokes as NavierStokes
from pdefit_flow.operators import vorticity as vorticity
from pdefit_flow.projection import project as project
from pdefit_flow.rayleigh_benard import RayleighBenard as RayleighBenard
from pdefit_flow.rim import MeasuredRim as MeasuredRim
from pdefit_flow.rim import Rim as Rim
from pdefit_flow.spin_up import SpinUp as SpinUp

SYSTEMS = {"flow/navier_stokes": NavierStokes, "flow/rayleigh_benard": RayleighBenard}
