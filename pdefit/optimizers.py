"""Optimizers of a fit."""

from pdefit.inverse.optimizers.arrow_gauss_newton import ArrowGaussNewton as ArrowGaussNewton
from pdefit.inverse.optimizers.base import AbstractOptimizer as AbstractOptimizer
from pdefit.inverse.optimizers.collocation import Collocation as Collocation
from pdefit.inverse.optimizers.gauss_newton_cg import GaussNewtonCG as GaussNewtonCG
from pdefit.inverse.optimizers.gradient_descent import Adam as Adam
from pdefit.inverse.optimizers.gradient_descent import Optax as Optax
from pdefit.inverse.optimizers.lbfgs import LBFGS as LBFGS
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt as LevenbergMarquardt
