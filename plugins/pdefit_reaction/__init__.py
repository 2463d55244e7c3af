"""Reaction-diffusion fronts: the model plugin, one equation in one file."""

from pdefit_reaction.fisher_kpp import FisherKPP as FisherKPP

SYSTEMS = {"reaction/fisher_kpp": FisherKPP}
