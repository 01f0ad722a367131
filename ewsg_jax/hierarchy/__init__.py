"""Hierarchical priors: effects whose prior width is another parameter, and their centring."""
