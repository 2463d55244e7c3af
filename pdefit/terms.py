"""Terms that an equation may have as unknowns: networks, series, formulas."""

from pdefit.systems.terms.base import AbstractTerm as AbstractTerm
from pdefit.systems.terms.expression import Expression as Expression
from pdefit.systems.terms.formula import Formula as Formula
from pdefit.systems.terms.network import Network as Network
from pdefit.systems.terms.series import Series as Series
