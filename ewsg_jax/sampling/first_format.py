"""The first format of saved samples named classes by the modules they stood in: what their tags are now."""

FIRST_FORMAT = "ewsg_jax samples 1"

TAGS = {
    "ewsg_jax._kernel.KernelState": "kernel_state",
    "ewsg_jax.dynamics._langevin.LangevinState": "langevin_state",
    "ewsg_jax.dynamics._preconditioned.PreconditionedState": "preconditioned_state",
    "ewsg_jax.dynamics._quasi_newton.QuasiNewtonState": "quasi_newton_state",
    "ewsg_jax.dynamics._riemannian.RiemannianState": "riemannian_state",
    "ewsg_jax.dynamics._thermostat.ThermostatState": "thermostat_state",
    "ewsg_jax.dynamics._underdamped.UnderdampedState": "underdamped_state",
    "ewsg_jax.gradients._control_variate.ControlVariateMemory": "control_variate_memory",
    "ewsg_jax.gradients._covariance_tracking.Moments": "gradient_moments",
    "ewsg_jax.gradients._covariance_tracking.TrackingMemory": "tracking_memory",
    "ewsg_jax.gradients._row_laws.Epoch": "epoch",
    "ewsg_jax.gradients._saga.SAGAMemory": "saga_memory",
    "ewsg_jax.gradients._stratified.Strata": "strata",
    "ewsg_jax.gradients._svrg.SVRGMemory": "svrg_memory",
    "ewsg_jax.methods._bright_set.BrightSet": "bright_set",
    "ewsg_jax.methods._flymc.FireflyMemory": "firefly_memory",
    "ewsg_jax.methods._flymc.FireflyState": "firefly_state",
    "ewsg_jax.methods._metropolis.RandomWalkState": "random_walk_state",
    "ewsg_jax.sampling._moments.Moments": "moments",
    "ewsg_jax.sampling.samples.Samples": "samples",
}
