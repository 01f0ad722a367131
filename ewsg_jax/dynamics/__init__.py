"""Dynamics: what a gradient and a noise do to the state, and the log weight of a gradient.

langevin: no momentum.
semi_implicit, euler, splitting, exact: underdamped, by four schemes.
splitting_scheme: underdamped, by the letters of a splitting: ABOBA, BAOAB and the like.
noise_corrected: underdamped, with a friction against the gradient's noise.
noise_reduced: underdamped, injecting less noise the more the gradient has.
thermostat: underdamped, with a friction that adapts.
microcanonical: at unit speed, in a direction that the gradient turns.
preconditioned: each coordinate by the size of its gradients.
riemannian: in your own metric.
quasi_newton: with a matrix from the steps of other chains.
cyclical: step sizes that fall and start again, with the temperature and the draws that go with it.
LowRank: an inverse mass, for any of them that takes one.
in_metric: a dynamics in the coordinates of an inverse mass.
adaptive_mass: a dynamics in a diagonal mass that the burn-in learns and that is then frozen.
Cyclical: the schedule of cyclical.
Dynamics: the base class, for one of your own.
QuasiNewton: the class of quasi_newton, a base class for another matrix.
GradientAt: the function by which a dynamics evaluates the gradient at another point.
LangevinState, UnderdampedState, ThermostatState, MicrocanonicalState, PreconditionedState,
    RiemannianState, QuasiNewtonState, AdaptiveMassState: their states.
palindrome: the older name of splitting_scheme.
"""

from ewsg_jax.base.factors import LowRank as LowRank
from ewsg_jax.dynamics._adaptive_mass import AdaptiveMassState as AdaptiveMassState
from ewsg_jax.dynamics._adaptive_mass import adaptive_mass as adaptive_mass
from ewsg_jax.dynamics._cyclical import Cyclical as Cyclical
from ewsg_jax.dynamics._cyclical import cyclical as cyclical
from ewsg_jax.dynamics._exact import exact as exact
from ewsg_jax.dynamics._explicit import euler as euler
from ewsg_jax.dynamics._explicit import semi_implicit as semi_implicit
from ewsg_jax.dynamics._langevin import LangevinState as LangevinState
from ewsg_jax.dynamics._langevin import langevin as langevin
from ewsg_jax.dynamics._mass import in_metric as in_metric
from ewsg_jax.dynamics._microcanonical import MicrocanonicalState as MicrocanonicalState
from ewsg_jax.dynamics._microcanonical import microcanonical as microcanonical
from ewsg_jax.dynamics._noise_corrected import noise_corrected as noise_corrected
from ewsg_jax.dynamics._noise_reduced import noise_reduced as noise_reduced
from ewsg_jax.dynamics._palindrome import splitting_scheme as splitting_scheme
from ewsg_jax.dynamics._preconditioned import PreconditionedState as PreconditionedState
from ewsg_jax.dynamics._preconditioned import preconditioned as preconditioned
from ewsg_jax.dynamics._protocol import Dynamics as Dynamics
from ewsg_jax.dynamics._protocol import GradientAt as GradientAt
from ewsg_jax.dynamics._quasi_newton import QuasiNewton as QuasiNewton
from ewsg_jax.dynamics._quasi_newton import QuasiNewtonState as QuasiNewtonState
from ewsg_jax.dynamics._quasi_newton import quasi_newton as quasi_newton
from ewsg_jax.dynamics._riemannian import RiemannianState as RiemannianState
from ewsg_jax.dynamics._riemannian import riemannian as riemannian
from ewsg_jax.dynamics._splitting import splitting as splitting
from ewsg_jax.dynamics._thermostat import ThermostatState as ThermostatState
from ewsg_jax.dynamics._thermostat import thermostat as thermostat
from ewsg_jax.dynamics._underdamped import UnderdampedState as UnderdampedState

palindrome = splitting_scheme
