"""Noise that follows the prediction: counts, and noise that grows with the signal."""

from pdefit.inverse.fit.likelihoods import NegativeBinomial as NegativeBinomial
from pdefit.inverse.fit.likelihoods import Poisson as Poisson
from pdefit.inverse.fit.likelihoods import PredictedVariance as PredictedVariance
from pdefit.inverse.fit.likelihoods import Proportional as Proportional
from pdefit.inverse.fit.reweight import ByPrediction as ByPrediction
