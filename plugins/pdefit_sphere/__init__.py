"""Flow on a sphere by vector harmonics, with forces shared by recordings."""

from pdefit_sphere.force import HarmonicForce as HarmonicForce
from pdefit_sphere.force import KnotForce as KnotForce
from pdefit_sphere.navier_stokes import NavierStokes as NavierStokes
from pdefit_sphere.raster import Raster as Raster
from pdefit_sphere.rossby_haurwitz import RossbyHaurwitz as RossbyHaurwitz
from pdefit_sphere.transforms import Sphere as Sphere

SYSTEMS = {"sphere/navier_stokes": NavierStokes, "sphere/rossby_haurwitz": RossbyHaurwitz}
