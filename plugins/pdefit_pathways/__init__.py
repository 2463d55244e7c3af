"""Pathways in cells and reactions of chemistry, most of them stiff, one model in each file."""

from pdefit_pathways.apoptosis import Apoptosis as Apoptosis
from pdefit_pathways.apoptosis import HybridApoptosis as HybridApoptosis
from pdefit_pathways.glycolysis import Glycolysis as Glycolysis
from pdefit_pathways.glycolysis import HybridGlycolysis as HybridGlycolysis
from pdefit_pathways.robertson import Robertson as Robertson

# those with a network are for Python: their weights are not determined, which every named system's verification asks for
SYSTEMS = {
    "pathways/apoptosis": Apoptosis,
    "pathways/glycolysis": Glycolysis,
    "pathways/robertson": Robertson,
}
