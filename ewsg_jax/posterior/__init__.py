"""The target V = V₀ + Σᵢ Vᵢ, its gradients, and the checks of its functions before a run."""
