"""The mode, its curvature, and starts for chains."""
