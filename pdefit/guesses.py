"""Guesses: the values from which controls start."""

from pdefit.inverse.controls.guesses import AbstractGuess as AbstractGuess
from pdefit.inverse.controls.guesses import FromData as FromData
from pdefit.inverse.controls.guesses import Perturb as Perturb
from pdefit.inverse.controls.guesses import Value as Value
