# ruff: noqa: E402
"""pdefit infers parameters, hidden fields and initial states of differential equations from incomplete, noisy data.

Importing pdefit switches JAX to 64-bit precision: misfits are sums in float64 whatever the dtype of a run.
"""

import os

# loading compiled code from the cache logs kilobytes about pseudo-features ("prefer-no-gather") that no processor has;
# the level is read when jaxlib is imported
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax

jax.config.update("jax_enable_x64", True)

from pdefit.arrays.safe import safe_div as safe_div
from pdefit.arrays.safe import safe_norm as safe_norm
from pdefit.arrays.safe import safe_sqrt as safe_sqrt
from pdefit.arrays.transforms import AbstractTransform as AbstractTransform
from pdefit.arrays.transforms import Identity as Identity
from pdefit.arrays.transforms import Log as Log
from pdefit.arrays.transforms import Log10 as Log10
from pdefit.arrays.transforms import Logit as Logit
from pdefit.arrays.transforms import Scale as Scale
from pdefit.arrays.transforms import Softplus as Softplus
from pdefit.errors import PdefitError as PdefitError
from pdefit.integrate.adaptive import Adaptive as Adaptive
from pdefit.integrate.adjoint import AbstractAdjoint as AbstractAdjoint
from pdefit.integrate.adjoint import AbstractReverse as AbstractReverse
from pdefit.integrate.adjoint import Checkpointed as Checkpointed
from pdefit.integrate.adjoint import StoreAll as StoreAll
from pdefit.integrate.backsolve import Backsolve as Backsolve
from pdefit.integrate.batch import AbstractBatch as AbstractBatch
from pdefit.integrate.batch import Chunk as Chunk
from pdefit.integrate.batch import Loop as Loop
from pdefit.integrate.batch import Vmap as Vmap
from pdefit.integrate.finite_difference import FiniteDifference as FiniteDifference
from pdefit.integrate.imex import IMEX as IMEX
from pdefit.integrate.interpolating import Interpolating as Interpolating
from pdefit.integrate.prepare import prepare as prepare
from pdefit.integrate.runge_kutta4 import RK4 as RK4
from pdefit.integrate.runge_kutta_chebyshev import RKC as RKC
from pdefit.integrate.tangent import Tangent as Tangent
from pdefit.integrate.trajectory import solve as solve
from pdefit.integrate.velocity_verlet import VelocityVerlet as VelocityVerlet
from pdefit.integrate.yoshida4 import Yoshida4 as Yoshida4
from pdefit.inverse.certificate import Certificate as Certificate
from pdefit.inverse.certificate import certify as certify
from pdefit.inverse.choice import choose_solver as choose_solver
from pdefit.inverse.choice import choose_stages as choose_stages
from pdefit.inverse.compare import Comparison as Comparison
from pdefit.inverse.compare import compare as compare
from pdefit.inverse.controls import Control as Control
from pdefit.inverse.diagnose.diagnosis import Diagnosis as Diagnosis
from pdefit.inverse.doctor import doctor as doctor
from pdefit.inverse.drivers import AbstractDriver as AbstractDriver
from pdefit.inverse.drivers import Hosted as Hosted
from pdefit.inverse.drivers import Traced as Traced
from pdefit.inverse.fit import Fit as Fit
from pdefit.inverse.fit import fit as fit
from pdefit.inverse.formulation import AbstractFormulation as AbstractFormulation
from pdefit.inverse.formulation import Segments as Segments
from pdefit.inverse.formulation import Single as Single
from pdefit.inverse.functional import Functional as Functional
from pdefit.inverse.guess import AbstractGuess as AbstractGuess
from pdefit.inverse.guess import FromData as FromData
from pdefit.inverse.guess import Perturb as Perturb
from pdefit.inverse.guess import Value as Value
from pdefit.inverse.identify import Intervals as Intervals
from pdefit.inverse.identify import intervals as intervals
from pdefit.inverse.lyapunov import LyapunovResult as LyapunovResult
from pdefit.inverse.lyapunov import lyapunov as lyapunov
from pdefit.inverse.objective import AbstractObjective as AbstractObjective
from pdefit.inverse.observe import AbstractObservationOperator as AbstractObservationOperator
from pdefit.inverse.observe import Compose as Compose
from pdefit.inverse.observe import ObserveAll as ObserveAll
from pdefit.inverse.observe import Select as Select
from pdefit.inverse.observe import Subsample as Subsample
from pdefit.inverse.optimize.base import AbstractOptimizer as AbstractOptimizer
from pdefit.inverse.optimize.gauss_newton_cg import GaussNewtonCG as GaussNewtonCG
from pdefit.inverse.optimize.gradient_descent import Adam as Adam
from pdefit.inverse.optimize.gradient_descent import Optax as Optax
from pdefit.inverse.optimize.lbfgs import LBFGS as LBFGS
from pdefit.inverse.optimize.levenberg_marquardt import LevenbergMarquardt as LevenbergMarquardt
from pdefit.inverse.prior import AbstractPrior as AbstractPrior
from pdefit.inverse.prior import LogNormal as LogNormal
from pdefit.inverse.prior import Normal as Normal
from pdefit.inverse.problem import Problem as Problem
from pdefit.inverse.recordings import Recordings as Recordings
from pdefit.inverse.regularizers import H1 as H1
from pdefit.inverse.regularizers import L2 as L2
from pdefit.inverse.regularizers import AbstractRegularizer as AbstractRegularizer
from pdefit.inverse.reweight import Reweight as Reweight
from pdefit.inverse.sensitivity import Effect as Effect
from pdefit.inverse.sensitivity import sensitivity as sensitivity
from pdefit.inverse.simulate import simulate as simulate
from pdefit.inverse.stage import Stage as Stage
from pdefit.inverse.twin import Twin as Twin
from pdefit.inverse.twin import add_noise as add_noise
from pdefit.systems.boundary import AbstractBoundary as AbstractBoundary
from pdefit.systems.boundary import Dirichlet as Dirichlet
from pdefit.systems.boundary import NoFlux as NoFlux
from pdefit.systems.boundary import Periodic as Periodic
from pdefit.systems.diffusion_solve import diffusion_solve as diffusion_solve
from pdefit.systems.grid import CartesianGrid as CartesianGrid
from pdefit.systems.interfaces import AbstractBaseline as AbstractBaseline
from pdefit.systems.interfaces import AbstractConservative as AbstractConservative
from pdefit.systems.interfaces import AbstractConstrained as AbstractConstrained
from pdefit.systems.interfaces import AbstractDataState as AbstractDataState
from pdefit.systems.interfaces import AbstractDiagnosed as AbstractDiagnosed
from pdefit.systems.interfaces import AbstractExact as AbstractExact
from pdefit.systems.interfaces import AbstractGridded as AbstractGridded
from pdefit.systems.interfaces import AbstractMechanical as AbstractMechanical
from pdefit.systems.interfaces import AbstractRefinable as AbstractRefinable
from pdefit.systems.interfaces import AbstractSplit as AbstractSplit
from pdefit.systems.interfaces import AbstractStable as AbstractStable
from pdefit.systems.interfaces import AbstractSwitched as AbstractSwitched
from pdefit.systems.interfaces import AbstractVerifiable as AbstractVerifiable
from pdefit.systems.interfaces import Example as Example
from pdefit.systems.interfaces import FieldCoords as FieldCoords
from pdefit.systems.observations import Observations as Observations
from pdefit.systems.operators import diffuse as diffuse
from pdefit.systems.operators import div as div
from pdefit.systems.operators import grad as grad
from pdefit.systems.operators import laplacian as laplacian
from pdefit.systems.preparation import AbstractPreparation as AbstractPreparation
from pdefit.systems.rows import as_row as as_row
from pdefit.systems.rows import with_rows as with_rows
from pdefit.systems.system import AbstractSystem as AbstractSystem
from pdefit.systems.system import constant as constant
from pdefit.systems.system import parameter as parameter
from pdefit.systems.system import parameters as parameters
from pdefit.verification.report import Finding as Finding
from pdefit.verification.report import Verification as Verification
from pdefit.verification.verify import verify as verify

__version__ = "0.1.0"
