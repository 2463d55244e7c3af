"""Interacting populations, one model in each file."""

from pdefit_populations.lotka_volterra import HybridLotkaVolterra as HybridLotkaVolterra
from pdefit_populations.lotka_volterra import LotkaVolterra as LotkaVolterra
from pdefit_populations.sir import SIR as SIR

# those with a network are for Python: their weights are not determined, which every named system's verification asks for
SYSTEMS = {"populations/lotka_volterra": LotkaVolterra, "populations/sir": SIR}
