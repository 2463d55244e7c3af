"""Figures of studies, from a result or from the directory of a run, on given axes or in a new figure."""

from pdefit.output.pictures.plots import adjoints as adjoints
from pdefit.output.pictures.plots import design as design
from pdefit.output.pictures.plots import discovery as discovery
from pdefit.output.pictures.plots import identifiability as identifiability
from pdefit.output.pictures.plots import joint_profile as joint_profile
from pdefit.output.pictures.plots import profiles as profiles
from pdefit.output.pictures.plots import sensitivity as sensitivity
