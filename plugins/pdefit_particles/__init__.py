"""Particles: gravity between bodies, spheres that collide, and flocks."""

from pdefit_particles.bodies import State as State
from pdefit_particles.cucker_smale import CuckerSmale as CuckerSmale
from pdefit_particles.gravity import Gravity as Gravity
from pdefit_particles.gravity import RelativisticGravity as RelativisticGravity
from pdefit_particles.lennard_jones import LennardJones as LennardJones
from pdefit_particles.lennard_jones import random_spheres as random_spheres
from pdefit_particles.pleiades import pleiades as pleiades

SYSTEMS = {
    "particles/cucker_smale": CuckerSmale,
    "particles/gravity": Gravity,
    "particles/lennard_jones": LennardJones,
    "particles/relativistic_gravity": RelativisticGravity,
}
