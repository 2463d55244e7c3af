"""Regularizers: penalties on a control, added to the objective as residuals."""

from pdefit.inverse.controls.priors import H1 as H1
from pdefit.inverse.controls.priors import L2 as L2
from pdefit.inverse.controls.priors import AbstractRegularizer as AbstractRegularizer
from pdefit.inverse.controls.priors import TotalVariation as TotalVariation
