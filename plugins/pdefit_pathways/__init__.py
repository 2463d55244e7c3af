"""Pathways in cells, reactions of chemistry, and fluids with memory, most of them stiff, one subject in each file."""

from pdefit_pathways.apoptosis import Apoptosis as Apoptosis
from pdefit_pathways.apoptosis import HybridApoptosis as HybridApoptosis
from pdefit_pathways.fene_p import FeneP as FeneP
from pdefit_pathways.fene_p import FluidClosure as FluidClosure
from pdefit_pathways.fene_p import ShearStress as ShearStress
from pdefit_pathways.glycolysis import Glycolysis as Glycolysis
from pdefit_pathways.glycolysis import HybridGlycolysis as HybridGlycolysis
from pdefit_pathways.robertson import ReducedRobertson as ReducedRobertson
from pdefit_pathways.robertson import Robertson as Robertson

# those with a network are for Python: their weights are not determined, which every named system's verification asks for
SYSTEMS = {
    "pathways/apoptosis": Apoptosis,
    "pathways/fene_p": FeneP,
    "pathways/fluid_closure": FluidClosure,
    "pathways/glycolysis": Glycolysis,
    "pathways/reduced_robertson": ReducedRobertson,
    "pathways/robertson": Robertson,
}
