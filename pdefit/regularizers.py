"""Regularizers: residuals of a control that are added to those of the data."""

from pdefit.inverse.controls.regularizers import H1 as H1
from pdefit.inverse.controls.regularizers import L2 as L2
from pdefit.inverse.controls.regularizers import AbstractRegularizer as AbstractRegularizer
