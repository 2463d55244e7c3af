"""Optional interfaces of a system."""

from pdefit.systems.capabilities import AbstractBaseline as AbstractBaseline
from pdefit.systems.capabilities import AbstractConservative as AbstractConservative
from pdefit.systems.capabilities import AbstractConstrained as AbstractConstrained
from pdefit.systems.capabilities import AbstractDataGuess as AbstractDataGuess
from pdefit.systems.capabilities import AbstractDataState as AbstractDataState
from pdefit.systems.capabilities import AbstractDerived as AbstractDerived
from pdefit.systems.capabilities import AbstractDiagnosed as AbstractDiagnosed
from pdefit.systems.capabilities import AbstractDriven as AbstractDriven
from pdefit.systems.capabilities import AbstractExact as AbstractExact
from pdefit.systems.capabilities import AbstractMechanical as AbstractMechanical
from pdefit.systems.capabilities import AbstractReduced as AbstractReduced
from pdefit.systems.capabilities import AbstractRefinable as AbstractRefinable
from pdefit.systems.capabilities import AbstractStable as AbstractStable
from pdefit.systems.capabilities import AbstractSwitched as AbstractSwitched
from pdefit.systems.capabilities import AbstractVerifiable as AbstractVerifiable
from pdefit.systems.capabilities import Example as Example
from pdefit.systems.coordinates import FieldCoords as FieldCoords
from pdefit.systems.filmed import AbstractFilmed as AbstractFilmed
from pdefit.systems.linear_operators import AbstractDiagonal as AbstractDiagonal
from pdefit.systems.linear_operators import AbstractSmoothed as AbstractSmoothed
from pdefit.systems.linear_operators import AbstractSplit as AbstractSplit
from pdefit.systems.linear_operators import Smoother as Smoother
