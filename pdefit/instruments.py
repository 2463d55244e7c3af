"""Observation operators: from time, state and inputs to what an instrument measures."""

from pdefit.inverse.problem.along_axes import Average as Average
from pdefit.inverse.problem.along_axes import Corners as Corners
from pdefit.inverse.problem.at_points import At as At
from pdefit.inverse.problem.camera import Camera as Camera
from pdefit.inverse.problem.instrument import AbstractObservationOperator as AbstractObservationOperator
from pdefit.inverse.problem.instrument import Compose as Compose
from pdefit.inverse.problem.instrument import ObserveAll as ObserveAll
from pdefit.inverse.problem.instrument import Select as Select
from pdefit.inverse.problem.instrument import Subsample as Subsample
from pdefit.inverse.problem.logarithm import Logarithm as Logarithm
