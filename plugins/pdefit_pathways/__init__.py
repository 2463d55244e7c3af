"""Pathways in cells and reactions of chemistry, most of them stiff, one model in each file."""

from pdefit_pathways.apoptosis import Apoptosis as Apoptosis
from pdefit_pathways.apoptosis import HybridApoptosis as HybridApoptosis
from pdefit_pathways.glycolysis import Glycolysis as Glycolysis
from pdefit_pathways.glycolysis import HybridGlycolysis as HybridGlycolysis
from pdefit_pathways.robertson import Robertson as Robertson

SYSTEMS = {
    "pathways/apoptosis": Apoptosis,
    "pathways/apoptosis_hybrid": HybridApoptosis,
    "pathways/glycolysis": Glycolysis,
    "pathways/glycolysis_hybrid": HybridGlycolysis,
    "pathways/robertson": Robertson,
}
