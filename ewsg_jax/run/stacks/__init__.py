"""Several kernels, or several data sets, as one run."""
