"""Particles: gravity between bodies."""

from pdefit_particles.gravity import Gravity as Gravity
from pdefit_particles.gravity import State as State
from pdefit_particles.pleiades import pleiades as pleiades

SYSTEMS = {"particles/gravity": Gravity}
