"""What is sampled: V = V₀ + Σᵢ Vᵢ, its gradients, and what is asked of it before a run."""

from ewsg_jax.posterior.posterior import Posterior as Posterior
from ewsg_jax.posterior.posterior import check_posterior as check_posterior
