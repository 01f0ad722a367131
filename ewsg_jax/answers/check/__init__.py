"""How wrong draws are, by Stein's identities: what stands behind `ewsg_jax.check`."""
