"""Hierarchies in both forms, exact draws of their posteriors, and what the library says of them."""
