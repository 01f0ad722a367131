"""What is sampled: V = V₀ + Σᵢ Vᵢ, its gradients, and what is asked of it before a run."""
