"""Which kernel, which step size, how long: the search behind `ewsg_jax.plan`."""
