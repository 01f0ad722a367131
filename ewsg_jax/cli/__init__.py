"""The command line: `python -m ewsg_jax`."""
