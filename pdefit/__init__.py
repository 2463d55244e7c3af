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

from pdefit._util.errors import PdefitError as PdefitError
from pdefit._util.safe import safe_div as safe_div
from pdefit._util.safe import safe_norm as safe_norm
from pdefit._util.safe import safe_sqrt as safe_sqrt
from pdefit.adjoints.base import AbstractAdjoint as AbstractAdjoint
from pdefit.adjoints.base import AbstractReverse as AbstractReverse
from pdefit.adjoints.base import Checkpointed as Checkpointed
from pdefit.adjoints.base import StoreAll as StoreAll
from pdefit.adjoints.continuous.backsolve import Backsolve as Backsolve
from pdefit.adjoints.continuous.interpolating import Interpolating as Interpolating
from pdefit.adjoints.finite_difference import FiniteDifference as FiniteDifference
from pdefit.adjoints.forward_mode import Tangent as Tangent
from pdefit.analysis.adjoint_study import Comparison as Comparison
from pdefit.analysis.adjoint_study import compare as compare
from pdefit.analysis.debug.diagnosis import Diagnosis as Diagnosis
from pdefit.analysis.debug.doctor import doctor as doctor
from pdefit.analysis.forecast.lyapunov import LyapunovResult as LyapunovResult
from pdefit.analysis.forecast.lyapunov import lyapunov as lyapunov
from pdefit.analysis.sensitivity import Effect as Effect
from pdefit.analysis.sensitivity import sensitivity as sensitivity
from pdefit.conformance.report import Finding as Finding
from pdefit.conformance.report import Verification as Verification
from pdefit.conformance.verify import verify as verify
from pdefit.data.observations import Observations as Observations
from pdefit.integrate.adaptive.tolerance import Adaptive as Adaptive
from pdefit.integrate.loop.batch import AbstractBatch as AbstractBatch
from pdefit.integrate.loop.batch import Chunk as Chunk
from pdefit.integrate.loop.batch import Loop as Loop
from pdefit.integrate.loop.batch import Vmap as Vmap
from pdefit.integrate.prepare import prepare as prepare
from pdefit.integrate.solve import solve as solve
from pdefit.integrate.solvers.imex import IMEX as IMEX
from pdefit.integrate.solvers.rk4 import RK4 as RK4
from pdefit.integrate.solvers.rkc import RKC as RKC
from pdefit.integrate.solvers.velocity_verlet import VelocityVerlet as VelocityVerlet
from pdefit.integrate.solvers.yoshida4 import Yoshida4 as Yoshida4
from pdefit.inverse.certify.certificate import Certificate as Certificate
from pdefit.inverse.certify.certificate import certify as certify
from pdefit.inverse.controls.declare import Control as Control
from pdefit.inverse.controls.guesses import AbstractGuess as AbstractGuess
from pdefit.inverse.controls.guesses import FromData as FromData
from pdefit.inverse.controls.guesses import Perturb as Perturb
from pdefit.inverse.controls.guesses import Value as Value
from pdefit.inverse.controls.priors import AbstractPrior as AbstractPrior
from pdefit.inverse.controls.priors import LogNormal as LogNormal
from pdefit.inverse.controls.priors import Normal as Normal
from pdefit.inverse.controls.regularizers import H1 as H1
from pdefit.inverse.controls.regularizers import L2 as L2
from pdefit.inverse.controls.regularizers import AbstractRegularizer as AbstractRegularizer
from pdefit.inverse.controls.transforms import AbstractTransform as AbstractTransform
from pdefit.inverse.controls.transforms import Identity as Identity
from pdefit.inverse.controls.transforms import Log as Log
from pdefit.inverse.controls.transforms import Log10 as Log10
from pdefit.inverse.controls.transforms import Logit as Logit
from pdefit.inverse.controls.transforms import Scale as Scale
from pdefit.inverse.controls.transforms import Softplus as Softplus
from pdefit.inverse.fit.choose import choose_solver as choose_solver
from pdefit.inverse.fit.choose import choose_stages as choose_stages
from pdefit.inverse.fit.drivers import AbstractDriver as AbstractDriver
from pdefit.inverse.fit.drivers import Hosted as Hosted
from pdefit.inverse.fit.drivers import Traced as Traced
from pdefit.inverse.fit.fit import Fit as Fit
from pdefit.inverse.fit.fit import fit as fit
from pdefit.inverse.fit.stages import Reweight as Reweight
from pdefit.inverse.fit.stages import Stage as Stage
from pdefit.inverse.objective.abstract import AbstractObjective as AbstractObjective
from pdefit.inverse.objective.functional import Functional as Functional
from pdefit.inverse.objective.recordings import Recordings as Recordings
from pdefit.inverse.optimizers.base import AbstractOptimizer as AbstractOptimizer
from pdefit.inverse.optimizers.gauss_newton_cg import GaussNewtonCG as GaussNewtonCG
from pdefit.inverse.optimizers.gradient_descent import Adam as Adam
from pdefit.inverse.optimizers.gradient_descent import Optax as Optax
from pdefit.inverse.optimizers.lbfgs import LBFGS as LBFGS
from pdefit.inverse.optimizers.levenberg_marquardt import LevenbergMarquardt as LevenbergMarquardt
from pdefit.inverse.problem.instrument import AbstractObservationOperator as AbstractObservationOperator
from pdefit.inverse.problem.instrument import Compose as Compose
from pdefit.inverse.problem.instrument import ObserveAll as ObserveAll
from pdefit.inverse.problem.instrument import Select as Select
from pdefit.inverse.problem.instrument import Subsample as Subsample
from pdefit.inverse.problem.problem import Problem as Problem
from pdefit.inverse.problem.simulate import simulate as simulate
from pdefit.inverse.problem.twin import Twin as Twin
from pdefit.inverse.problem.twin import add_noise as add_noise
from pdefit.inverse.shooting.formulation import AbstractFormulation as AbstractFormulation
from pdefit.inverse.shooting.formulation import Segments as Segments
from pdefit.inverse.shooting.formulation import Single as Single
from pdefit.inverse.uncertainty.intervals import Intervals as Intervals
from pdefit.inverse.uncertainty.intervals import intervals as intervals
from pdefit.systems.boundary import AbstractBoundary as AbstractBoundary
from pdefit.systems.boundary import Dirichlet as Dirichlet
from pdefit.systems.boundary import NoFlux as NoFlux
from pdefit.systems.boundary import Periodic as Periodic
from pdefit.systems.broadcast import broadcast_scalars as broadcast_scalars
from pdefit.systems.capabilities import AbstractBaseline as AbstractBaseline
from pdefit.systems.capabilities import AbstractConservative as AbstractConservative
from pdefit.systems.capabilities import AbstractConstrained as AbstractConstrained
from pdefit.systems.capabilities import AbstractDataGuess as AbstractDataGuess
from pdefit.systems.capabilities import AbstractDataState as AbstractDataState
from pdefit.systems.capabilities import AbstractDiagnosed as AbstractDiagnosed
from pdefit.systems.capabilities import AbstractExact as AbstractExact
from pdefit.systems.capabilities import AbstractGridded as AbstractGridded
from pdefit.systems.capabilities import AbstractMechanical as AbstractMechanical
from pdefit.systems.capabilities import AbstractRefinable as AbstractRefinable
from pdefit.systems.capabilities import AbstractSplit as AbstractSplit
from pdefit.systems.capabilities import AbstractStable as AbstractStable
from pdefit.systems.capabilities import AbstractSwitched as AbstractSwitched
from pdefit.systems.capabilities import AbstractVerifiable as AbstractVerifiable
from pdefit.systems.capabilities import Example as Example
from pdefit.systems.capabilities import FieldCoords as FieldCoords
from pdefit.systems.diffusion_solve import diffusion_solve as diffusion_solve
from pdefit.systems.fields import AbstractFieldSystem as AbstractFieldSystem
from pdefit.systems.fields import field as field
from pdefit.systems.grid import CartesianGrid as CartesianGrid
from pdefit.systems.operators import diffuse as diffuse
from pdefit.systems.operators import div as div
from pdefit.systems.operators import grad as grad
from pdefit.systems.operators import laplacian as laplacian
from pdefit.systems.preparation import AbstractPreparation as AbstractPreparation
from pdefit.systems.reaction_diffusion import ReactionDiffusion as ReactionDiffusion
from pdefit.systems.system import AbstractSystem as AbstractSystem
from pdefit.systems.system import constant as constant
from pdefit.systems.system import parameter as parameter
from pdefit.systems.system import parameters as parameters

__version__ = "0.2.0"
