"""Populations that feed on each other, one model in each file."""

from pdefit_populations.lotka_volterra import LotkaVolterra as LotkaVolterra

SYSTEMS = {"populations/lotka_volterra": LotkaVolterra}
