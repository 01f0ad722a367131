"""Dynamics: what a gradient and a noise do to the state, and the log weight of a gradient."""

from ewsg_jax.dynamics._euler import euler as euler
from ewsg_jax.dynamics._exact import exact as exact
from ewsg_jax.dynamics._langevin import LangevinState as LangevinState
from ewsg_jax.dynamics._langevin import langevin as langevin
from ewsg_jax.dynamics._noise_corrected import noise_corrected as noise_corrected
from ewsg_jax.dynamics._protocol import Dynamics as Dynamics
from ewsg_jax.dynamics._protocol import Probe as Probe
from ewsg_jax.dynamics._semi_implicit import semi_implicit as semi_implicit
from ewsg_jax.dynamics._splitting import splitting as splitting
from ewsg_jax.dynamics._underdamped import UnderdampedState as UnderdampedState
