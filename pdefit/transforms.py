"""Transforms: maps from a control in physical units to search space."""

from pdefit.inverse.controls.transforms import AbstractTransform as AbstractTransform
from pdefit.inverse.controls.transforms import Identity as Identity
from pdefit.inverse.controls.transforms import Log as Log
from pdefit.inverse.controls.transforms import Log10 as Log10
from pdefit.inverse.controls.transforms import Logit as Logit
from pdefit.inverse.controls.transforms import Scale as Scale
from pdefit.inverse.controls.transforms import Softplus as Softplus
