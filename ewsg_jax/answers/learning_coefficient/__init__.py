"""The local learning coefficient of a model at its trained weights."""
