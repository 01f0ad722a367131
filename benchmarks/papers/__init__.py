"""The papers' experiments, made again: `python -m ewsg_jax reproduce gaussian-kl`.

They use the library by its public names alone, which a test holds.

experiment: what an experiment is, and the rule that judges what a paper claims.
running: its configuration, and its run, part after part.
command: all experiments by their names, and the command line.
predicting, metrics: methods that are judged by what they predict, one tuner for all, and their
    comparison.
decreasing: steps that fall as a power of the iteration.
networks: networks of flax as posteriors.
annotations: names for annotations.

gaussian, gaussian_mse, convergence: section 5.1 and Theorem H.1 of Li, Wang, Zha & Tao.
covertype, blr_vr, misspecified: Table 1 and Figures 2, 5 and 6 there.
theorems: Theorems 4.1 and 4.2 there.
mnist, mnist_chains: section 5.3 and Table 3 there.
linear_gaussian, curved: Table 1 and Theorem 5 of the supplement of Şimşekli et al.
matrix_factorisation: Tables 2 and 3 there.
lognormal, rates, quadratic_laws, regimes: Figure 3, Table 1 and Figure 2 of Chatterji et al.
hmc, bnn: the regressions and the networks of Li et al.
"""
