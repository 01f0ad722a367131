"""Runs at a step size and half of it, with the same noise."""
