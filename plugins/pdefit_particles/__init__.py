"""Particles: gravity between bodies, and spheres that collide."""

from pdefit_particles.bodies import State as State
from pdefit_particles.gravity import Gravity as Gravity
from pdefit_particles.lennard_jones import LennardJones as LennardJones
from pdefit_particles.lennard_jones import random_spheres as random_spheres
from pdefit_particles.pleiades import pleiades as pleiades

SYSTEMS = {"particles/gravity": Gravity, "particles/lennard_jones": LennardJones}
