"""What a run is worth: convergence, effective sample size, prediction, calibration, distance to a
reference.

summary: mean, standard deviation, R-hat, effective sample size and Monte Carlo error of each
    coordinate.
distance: a run against a reference.
kernel_stein_discrepancy: how far draws are from the target, by the model's gradients at them.
stein_thinning: few draws that stand for all.
control_variates: means with less variance.
gradient_noise: what the noise of batches adds to the temperature of a run.
energy_step_size: the step size of microcanonical dynamics, by the energy errors of steps.
inverse_mass: for the next run, from a pilot's draws and the curvature at the mode.
predictive: held-out accuracy and log likelihood of the mean prediction.
log_predictive_density: log density of each held-out row.
trajectory: held-out accuracy and log likelihood, draw by draw.
calibration: predicted against observed frequencies.
Summary, Distance, Discrepancy, Thinned, ControlVariates, GradientNoise, EnergyStepSize, Predictive,
    Trajectory, Calibration: what these return.
"""

from ewsg_jax.diagnostics._control_variates import ControlVariates as ControlVariates
from ewsg_jax.diagnostics._control_variates import control_variates as control_variates
from ewsg_jax.diagnostics._energy import EnergyStepSize as EnergyStepSize
from ewsg_jax.diagnostics._energy import energy_step_size as energy_step_size
from ewsg_jax.diagnostics._gradient_noise import GradientNoise as GradientNoise
from ewsg_jax.diagnostics._gradient_noise import gradient_noise as gradient_noise
from ewsg_jax.diagnostics._inverse_mass import inverse_mass as inverse_mass
from ewsg_jax.diagnostics._kernel_stein import Discrepancy as Discrepancy
from ewsg_jax.diagnostics._kernel_stein import Thinned as Thinned
from ewsg_jax.diagnostics._kernel_stein import kernel_stein_discrepancy as kernel_stein_discrepancy
from ewsg_jax.diagnostics._kernel_stein import stein_thinning as stein_thinning
from ewsg_jax.diagnostics._predictive import Calibration as Calibration
from ewsg_jax.diagnostics._predictive import Predictive as Predictive
from ewsg_jax.diagnostics._predictive import Trajectory as Trajectory
from ewsg_jax.diagnostics._predictive import calibration as calibration
from ewsg_jax.diagnostics._predictive import log_predictive_density as log_predictive_density
from ewsg_jax.diagnostics._predictive import predictive as predictive
from ewsg_jax.diagnostics._predictive import trajectory as trajectory
from ewsg_jax.diagnostics._summary import Distance as Distance
from ewsg_jax.diagnostics._summary import Summary as Summary
from ewsg_jax.diagnostics._summary import distance as distance
from ewsg_jax.diagnostics._summary import summary as summary
