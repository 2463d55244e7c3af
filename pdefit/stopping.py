"""Rules that end a stage of a fit before its optimizer converges."""

from pdefit.inverse.fit.stop import AbstractStop as AbstractStop
from pdefit.inverse.fit.stop import Holdout as Holdout
from pdefit.inverse.fit.stop import Noise as Noise
