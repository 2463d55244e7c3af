"""Formulations: how a record is cut into trajectories."""

from pdefit.inverse.shooting.formulation import AbstractFormulation as AbstractFormulation
from pdefit.inverse.shooting.formulation import Segments as Segments
from pdefit.inverse.shooting.formulation import Single as Single
