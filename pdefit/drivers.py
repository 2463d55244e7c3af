"""Drivers, which evaluate a functional for a fit: in one program, or piece by piece."""

from pdefit.inverse.fit.drivers import AbstractDriver as AbstractDriver
from pdefit.inverse.fit.drivers import Hosted as Hosted
from pdefit.inverse.fit.drivers import Traced as Traced
