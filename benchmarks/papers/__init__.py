"""The papers' experiments, made again: `python -m ewsg_jax reproduce gaussian-kl`.

claim: what a paper claims, and the rule that judges it.
experiment, registry: an experiment, and all of them.
settings, running: its configuration, and its run, part after part.
predicting, problem, metrics, judging, tuning: methods that are judged by what they predict, and one tuner for all.
gaussian, gaussian_claims, gaussian_mse, convergence: section 5.1 and Theorem H.1 of Li, Wang, Zha & Tao.
covertype, blr_vr, misspecified, each with its claims: Table 1 and Figures 2, 5 and 6.
weights, theorems, theorems_claims: Theorems 4.1 and 4.2.
linear_gaussian (its settings, its claims), curved: Table 1 and Theorem 5 of the supplement of Şimşekli et al.
matrix_factorisation, factorising, stable: Tables 2 and 3 there.
mnist, mnist_chains, digits: section 5.3 and Table 3 of Li, Wang, Zha & Tao.
bnn, bnn_data: the networks of Li et al.
networks: networks of flax as posteriors.
compared: methods by the scores with which they end.
decreasing: steps that fall as a power of the iteration.
"""
