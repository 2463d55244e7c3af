"""Excitable heart tissue, one model in each file."""

from pdefit_cardiac.aliev_panfilov import AlievPanfilov as AlievPanfilov
from pdefit_cardiac.bocf import BOCF as BOCF
from pdefit_cardiac.fenton_karma import FentonKarma as FentonKarma
from pdefit_cardiac.parameter_sets import ALIEV_PANFILOV as ALIEV_PANFILOV
from pdefit_cardiac.parameter_sets import EPI as EPI
from pdefit_cardiac.parameter_sets import TUTORIAL as TUTORIAL
from pdefit_cardiac.patches import Ellipses as Ellipses
from pdefit_cardiac.patches import Patches as Patches
from pdefit_cardiac.random_excitation import RandomExcitation as RandomExcitation
from pdefit_cardiac.random_excitation import Rest as Rest
from pdefit_cardiac.stimulus import Stimulus as Stimulus

SYSTEMS = {"cardiac/bocf": BOCF, "cardiac/aliev_panfilov": AlievPanfilov, "cardiac/fenton_karma": FentonKarma}
