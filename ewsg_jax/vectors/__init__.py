"""Positions as vectors, sums over some rows, derivatives of the potential, factors of matrices."""
