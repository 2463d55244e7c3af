"""Priors: densities of controls."""

from pdefit.inverse.controls.priors import AbstractPrior as AbstractPrior
from pdefit.inverse.controls.priors import LogNormal as LogNormal
from pdefit.inverse.controls.priors import Measured as Measured
from pdefit.inverse.controls.priors import Normal as Normal
