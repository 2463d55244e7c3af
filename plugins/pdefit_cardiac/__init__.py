"""Excitable heart tissue: one model in one file."""

from pdefit_cardiac.bocf import BOCF as BOCF
from pdefit_cardiac.parameter_sets import EPI as EPI
from pdefit_cardiac.parameter_sets import TUTORIAL as TUTORIAL

SYSTEMS = {"cardiac/bocf": BOCF}
