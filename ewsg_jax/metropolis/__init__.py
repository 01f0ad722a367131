"""Kernels with a Metropolis correction: FlyMC, NUTS, random-walk Metropolis."""
