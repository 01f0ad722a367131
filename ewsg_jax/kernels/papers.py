"""The papers that methods come from, by the short names that their records use."""

PAPERS = {
    "Roberts & Tweedie 1996": "G. O. Roberts and R. L. Tweedie, Exponential convergence of Langevin"
    " distributions and their discrete approximations, Bernoulli 2, 1996",
    "Cheng et al. 2018": "X. Cheng, N. S. Chatterji, P. L. Bartlett and M. I. Jordan, Underdamped "
    "Langevin MCMC: a non-asymptotic analysis, COLT 2018",
    "Welling & Teh 2011": "M. Welling and Y. W. Teh, Bayesian learning via stochastic gradient "
    "Langevin dynamics, ICML 2011",
    "Chen, Fox & Guestrin 2014": "T. Chen, E. B. Fox and C. Guestrin, Stochastic gradient "
    "Hamiltonian Monte Carlo, ICML 2014",
    "Ding et al. 2014": "N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven, Bayesian "
    "sampling using stochastic gradient thermostats, NIPS 2014",
    "Fu & Zhang 2017": "T. Fu and Z. Zhang, CPSG-MCMC: clustering-based preprocessing method for "
    "stochastic gradient MCMC, AISTATS 2017",
    "Dubey et al. 2016": "K. A. Dubey, S. J. Reddi, S. A. Williamson, B. Póczos, A. J. Smola and "
    "E. P. Xing, Variance reduction in stochastic gradient Langevin dynamics, NIPS 2016",
    "Li, Zhang, Cheng, Zhu & Li 2019": "Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic "
    "gradient Hamiltonian Monte Carlo with variance reduction for Bayesian inference, Machine "
    "Learning 108, 2019",
    "Chatterji et al. 2018": "N. S. Chatterji, N. Flammarion, Y.-A. Ma, P. L. Bartlett and M. I. "
    "Jordan, On the theory of variance reduction for stochastic gradient Monte Carlo, ICML 2018",
    "Li, Chen, Carlson & Carin 2016": "C. Li, C. Chen, D. Carlson and L. Carin, Preconditioned "
    "stochastic gradient Langevin dynamics for deep neural networks, AAAI 2016",
    "Patterson & Teh 2013": "S. Patterson and Y. W. Teh, Stochastic gradient Riemannian Langevin "
    "dynamics on the probability simplex, NIPS 2013",
    "Şimşekli et al. 2016": "U. Şimşekli, R. Badeau, A. T. Cemgil and G. Richard, Stochastic "
    "quasi-Newton Langevin Monte Carlo, ICML 2016",
    "Li, Wang, Zha & Tao": "R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of "
    "stochastic gradient MCMC methods via non-uniform subsampling of gradients, Foundations of "
    "Data Science",
    "Metropolis et al. 1953": "N. Metropolis, A. W. Rosenbluth, M. N. Rosenbluth, A. H. Teller and "
    "E. Teller, Equation of state calculations by fast computing machines, Journal of Chemical "
    "Physics 21, 1953",
    "Maclaurin & Adams 2015": "D. Maclaurin and R. P. Adams, Firefly Monte Carlo: exact MCMC with "
    "subsets of data, IJCAI 2015",
}
