"""Reaction-diffusion systems, one equation in each file."""

from pdefit_reaction.association import Association as Association
from pdefit_reaction.association import one_sided_source as one_sided_source
from pdefit_reaction.boussinesq_column import BoussinesqColumn as BoussinesqColumn
from pdefit_reaction.cell_invasion import CellInvasion as CellInvasion
from pdefit_reaction.fisher_kpp import FisherKPP as FisherKPP
from pdefit_reaction.fitzhugh_nagumo import FitzHughNagumo as FitzHughNagumo
from pdefit_reaction.free_invasion import FreeInvasion as FreeInvasion
from pdefit_reaction.gray_scott import GrayScott as GrayScott
from pdefit_reaction.stencil_growth import StencilGrowth as StencilGrowth
from pdefit_reaction.substrate_uptake import SubstrateUptake as SubstrateUptake

SYSTEMS = {
    "reaction/fisher_kpp": FisherKPP,
    "reaction/association": Association,
    "reaction/boussinesq_column": BoussinesqColumn,
    "reaction/cell_invasion": CellInvasion,
    "reaction/fitzhugh_nagumo": FitzHughNagumo,
    "reaction/gray_scott": GrayScott,
    "reaction/free_invasion": FreeInvasion,
    "reaction/stencil_growth": StencilGrowth,
    "reaction/substrate_uptake": SubstrateUptake,
}
