"""The words that the docstrings of the named methods share: one text for each argument, one for each paper.

An argument that means something else in some methods has a variant, under the name of a method, of its record's
estimator, or of its record's dynamics (joined by ", "); the first of these that is there counts.
"""

from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.methods import Method
from ewsg_jax.rows.gathering import CHUNK_SIZE

NUMBER = "a number, a traced scalar or a schedule"
SCHEDULED = f"{NUMBER} (a function of the step's number)"
FIXED = "a number or a scalar array"
INVERSE_MASS = (
    "C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over the position "
    "raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the posterior every "
    "direction has width 1."
)
PROPOSAL = f"h, the standard deviation of a proposal in each coordinate; {SCHEDULED}."
BLOCKS = '`"blocks"`: b consecutive rows from a uniform start, quick to fetch, for data in random order'
NOISE = '`"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential weights)'
ALL_UNDERDAMPED = "semi_implicit, euler, splitting, exact, ABOBA, BAOAB"
EWSG = "exponentially_weighted(uniform)"
EWSG_VR = "exponentially_weighted(covariance_tracking)"

RETURNS = "The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`."
EXAMPLE = "The numbers are for about {n:,} rows of unit scale; with more rows steps must be shorter."

ARGUMENTS = {
    "posterior": "what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.",
    "step_size": f"h > 0, time per step; {SCHEDULED}.",
    "friction": f"γ > 0 per unit of time; {NUMBER}.",
    "temperature": f"T > 0; {NUMBER}. Default 1: the posterior itself.",
    "noise": f"{NOISE}.",
    "inverse_mass": f"{INVERSE_MASS} Default 1.",
    "integrator": (
        'the scheme of `ewsg_jax.dynamics`: `"semi_implicit"` (default); `"euler"`, the papers\'; '
        '`"splitting"`, of order h² with an exact gradient; `"ABOBA"` or `"BAOAB"` (`palindrome`), then '
        'without any on Gaussians; or `"exact"`, exact for a frozen one.'
    ),
    "chunk_size": f"rows that a sum over all data takes at once, which bounds its memory. Default {CHUNK_SIZE:,}.",
    "batch_size": "b, rows in a batch.",
    "replace": "draw rows with replacement (default), or (False) a uniform subset.",
    "rows": (
        f'`"random"` (default): independent rows, or the subset; {BLOCKS}; `"epochs"`: every row once in each '
        'n, in a new order each time; `"block_epochs"`: each of ⌊n/b⌋ such blocks once, in a new order each time; '
        '`"block_sweeps"`: each such order forward, then backwards; or what `ewsg_jax.rows.by_probability` or '
        "`leverage` returns. With all but the first `replace` must be True."
    ),
    "chain_length": (
        "M ≥ 0, proposals per step. Default 1. `math.inf` uses the exact weights of all batches instead "
        "(small n; all n rows for batch_size=1)."
    ),
    "frozen_noise": (
        "the x of the weight ½‖x + a‖², a the gradient in units of the noise (Fig. 1b of the paper): "
        '`"momentum"` (default), its most likely value (no change of momentum); `"zero"`; `"one"`, all ones; '
        '`"rest"`, the noise that brings the momentum to rest; or a tree shaped like the position.'
    ),
    "candidates": (
        '`"together"` (default) evaluates the M+1 estimates at once, `"one_by_one"` in a scan that keeps two '
        "of them in memory; the same draws, equal to rounding."
    ),
    "carry_index": (
        "begin each step's index chain with the batch that the last step accepted (section 4.4 of the paper), "
        "which each chain then keeps by its row numbers; default False: with a new one (Algorithm 1)."
    ),
    "refresh_every": (
        "K, steps from one anchor to the next: a whole number, or a function of n that returns one. Default: ⌈n/b⌉."
    ),
    "option": (
        'how the anchor moves: `"II"` (default), to the point where the gradient is wanted; `"I"`, to that of '
        "ℓ steps ago, ℓ uniform on 0 … K − 1, where the chain restarts."
    ),
    "memory_limit": (
        "bytes that the tables of all chains may take; a run that needs more is refused. Default "
        f"{MEMORY_LIMIT // 2**30} GiB."
    ),
    "center": (
        "c, a tree like the position. None (default): the position given to `init`, where the chain starts."
    ),
    "labels": (
        "the stratum of each row, whole numbers from 0 to `num_strata` − 1, shape (n,), such as "
        "`ewsg_jax.cluster` makes: the key of data that are a dictionary, or `labels(data)`."
    ),
    "num_strata": "how many strata there are; some may be empty.",
    "structure": (
        'of the covariance: `"dense"` (default), `"diagonal"`, or `"low_rank"`: within a basis that each '
        "reset turns towards the leading directions."
    ),
    "covariance": (
        'of the gradient between resets: `"tracked"` (default), it follows the batches; `"kept"`, it stays that of '
        "the last reset; or one for all steps and chains, such as `ewsg_jax.gradients.covariance_at` returns: a "
        "matrix (d, d) over the position raveled leaf after leaf, or its diagonal (d,)."
    ),
    "balance": (
        'what makes up for the minibatch\'s heat: `"friction"` (default), or `"noise"`: so much less noise is '
        "injected (Chen et al.'s B̂ is h Cov/2), and friction takes up the rest where h Cov > 2γT."
    ),
    "lagged": (
        "use the covariance as the paper's listing does: none in the first step (Γ₀ = γ), then that of the moments "
        "after the last step, so that a pass begins with the friction of the one before. Default False: each reset "
        "counts at once."
    ),
    "rank": "r, for a low rank; at most the numbers of a position are used. Default 10.",
    "decay": f"α, in [0, 1), {FIXED}: how much of the mean a step keeps. Default 0.99.",
    "damping": (
        f"λ > 0, {FIXED}, in units of (1/n) Σᵢ ∇Vᵢ. Default: 1e-5, as in the paper; to be given with the "
        "correction, of the size that this mean over a batch's b rows has near the mode: with S = Cov(∇Vᵢ) "
        "about √(tr S/(bd))."
    ),
    "correction": (
        "whether the law tends to exp(−V/T) as h → 0. It costs the derivative of a gradient along a ±1 vector "
        "and the memory of a position. Default False."
    ),
    "inverse_metric": (
        "`inverse_metric(position, data)` is G⁻¹, differentiable and positive definite: a tree like the "
        "position, for a diagonal metric; or an array (d, d), over the d numbers of the position leaf after "
        "leaf. It sees all data, and what it evaluates of them is not counted."
    ),
    "divergence": (
        "`divergence(position, data)` is Σⱼ ∂ⱼ(G⁻¹)ᵢⱼ, a tree like the position. By default automatic: d "
        "forward derivatives of `inverse_metric` at once, of d² numbers or, dense, of d³."
    ),
    "memory_size": "M ≥ 2: so many chains run interleaved, and M − 1 pairs make H. Default 5.",
    "trust_region": (
        "λ > 0, added to the curvature of every pair; a curvature of V (1/variance of the position), of the "
        "size of the posterior's. The default, 1, goes with parameters of unit scale."
    ),
    "initial_scale": (
        "γ_H > 0, an inverse curvature: H is γ_H I before there are pairs, and where they say nothing. Default 1."
    ),
    "curvature_threshold": (
        "ε > 0, the least cosine of the angle between the s and the y of a pair that is used. Default 1e-4."
    ),
    "blocks": (
        '`"whole"` (default): one matrix H for the position; or `"leaves"`: one for each leaf of its tree, from '
        "that leaf's part of every pair, as where blocks are moved in parallel."
    ),
    "capacity": (
        "how many data may be bright at once. Every step takes the time of so many; the error that `init` "
        "raises where they are too few says how many there are."
    ),
    "resample_probability": "q, with which a dark datum is selected to become bright, in (0, 1). Default 0.01.",
    "proposal_capacity": (
        "how many data may be selected in a step; a whole number or a function of n. Default: nq + 6√(nq) + "
        "8, which about one step in 10⁹ exceeds."
    ),
    "num_resampled": (
        "r: so many data, chosen uniformly, are drawn anew in each step, in the place of selecting each with "
        "probability q; a whole number or a function of n. Default None: by `resample_probability`."
    ),
    "target_acceptance": (
        "bring the step size to this share of accepted proposals, in (0, 1), while the chain burns in: `step_size` "
        "is then where it begins. Default None: `step_size` as it is."
    ),
    "adapt_steps": (
        "K ≥ 1, the steps that adapt, the first of a chain; burn in for at least as many. Default None, with "
        "`target_acceptance` alone."
    ),
    "bound": "of the likelihood; default `posterior.bound`.",
}

VARIANTS = {
    "step_size": {
        "langevin": f"h > 0, multiplies ∇V of the whole sum; {SCHEDULED}.",
        "preconditioned": f"h > 0, half of the paper's ε; {SCHEDULED}.",
        "riemannian": f"h > 0, half of the paper's ε; {SCHEDULED}.",
        "quasi_newton": (
            f"h > 0, multiplies H ∇V, ∇V of the whole sum; {SCHEDULED}, which is read at the first step of every M."
        ),
        "random_walk_metropolis": PROPOSAL,
        "flymc": PROPOSAL,
    },
    "friction": {
        "thermostat": (
            f"γ > 0 per unit of time; {NUMBER}: the thermostat's start, and its mean without gradient noise."
        ),
        "cv_uld": f"γ > 0 per unit of time; {NUMBER}. Default 2, as published.",
    },
    "noise": {ALL_UNDERDAMPED: f'{NOISE}; the second with `"semi_implicit"` and `"euler"` only.'},
    "inverse_mass": {
        "cv_uld": (
            "u > 0: a number, or what it is in `ewsg_jax.dynamics.exact`. Default 1; published is 1/L, L the "
            "largest curvature of V."
        ),
        "nc_sghmc": f'{INVERSE_MASS} With `balance="friction"` only. Default 1.',
    },
    "integrator": {
        "noise_corrected": (
            'what the friction is added to: `"semi_implicit"` (default), or `"euler"`, the paper\'s.'
        ),
    },
    "batch_size": {"stratified": "b, rows in a batch, at least `num_strata`."},
    "rows": {
        EWSG: (
            f'`"random"` (default): independent rows, or the subset; {BLOCKS}; or what '
            "`ewsg_jax.rows.by_probability` or `leverage` returns. With all but the first `replace` must be True. "
            'Not `"epochs"` nor those of blocks: the batches of a step must be exchangeable.'
        ),
    },
    "chain_length": {EWSG_VR: "M ≥ 0, proposals per step. Default 1."},
    "frozen_noise": {
        "langevin": (
            'the x of the weight ½‖x + a‖², a the gradient in units of the noise: `"momentum"` (default) and '
            '`"zero"`, which are one where there is no momentum; `"one"`, all ones; or a tree shaped like the '
            "position."
        ),
        ALL_UNDERDAMPED: (
            "the x of the weight ½‖x + a‖², a the gradient in units of the noise (Fig. 1b of the paper): "
            '`"momentum"` (default), its most likely value (no change of momentum); `"zero"`; `"one"`, all '
            'ones; `"rest"`, the noise that brings the momentum to rest (not with `integrator="exact"`); or a '
            "tree shaped like the position."
        ),
    },
    "refresh_every": {
        "covariance_tracking": (
            "K, steps from one reset of the covariance to the next: a whole number, or a function of n that "
            "returns one. Default: ⌈n/b⌉."
        ),
        EWSG_VR: (
            "K, steps from one reset of the covariance to the next: a whole number, or a function of n that "
            "returns one. Default: ⌈n/(b(M+1))⌉."
        ),
    },
    "center": {
        "flymc": (
            "where the bound is tight, a tree like the position. None (default): the position given to "
            "`init`, which costs a centre and its sums for each chain where each has a start of its own."
        ),
    },
}

REFERENCES = {
    "metropolis1953": (
        "N. Metropolis, A. W. Rosenbluth, M. N. Rosenbluth, A. H. Teller and E. Teller, Equation of state "
        "calculations by fast computing machines, Journal of Chemical Physics 21, 1953."
    ),
    "roberts1996": (
        "G. O. Roberts and R. L. Tweedie, Exponential convergence of Langevin distributions and their "
        "discrete approximations, Bernoulli 2, 1996."
    ),
    "welling2011": (
        "M. Welling and Y. W. Teh, Bayesian learning via stochastic gradient Langevin dynamics, ICML 2011."
    ),
    "patterson2013": (
        "S. Patterson and Y. W. Teh, Stochastic gradient Riemannian Langevin dynamics on the probability "
        "simplex, NIPS 2013."
    ),
    "chen2014": "T. Chen, E. B. Fox and C. Guestrin, Stochastic gradient Hamiltonian Monte Carlo, ICML 2014.",
    "ding2014": (
        "N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven, Bayesian sampling using stochastic "
        "gradient thermostats, NIPS 2014."
    ),
    "maclaurin2015": (
        "D. Maclaurin and R. P. Adams, Firefly Monte Carlo: exact MCMC with subsets of data, IJCAI 2015."
    ),
    "dubey2016": (
        "K. A. Dubey, S. J. Reddi, S. A. Williamson, B. Póczos, A. J. Smola and E. P. Xing, Variance "
        "reduction in stochastic gradient Langevin dynamics, NIPS 2016."
    ),
    "li2016": (
        "C. Li, C. Chen, D. Carlson and L. Carin, Preconditioned stochastic gradient Langevin dynamics for "
        "deep neural networks, AAAI 2016."
    ),
    "simsekli2016": (
        "U. Şimşekli, R. Badeau, A. T. Cemgil and G. Richard, Stochastic quasi-Newton Langevin Monte Carlo, "
        "ICML 2016."
    ),
    "fu2017": (
        "T. Fu and Z. Zhang, CPSG-MCMC: clustering-based preprocessing method for stochastic gradient MCMC, "
        "AISTATS 2017."
    ),
    "chatterji2018": (
        "N. S. Chatterji, N. Flammarion, Y.-A. Ma, P. L. Bartlett and M. I. Jordan, On the theory of variance "
        "reduction for stochastic gradient Monte Carlo, ICML 2018."
    ),
    "cheng2018": (
        "X. Cheng, N. S. Chatterji, P. L. Bartlett and M. I. Jordan, Underdamped Langevin MCMC: a "
        "non-asymptotic analysis, COLT 2018."
    ),
    "li2019": (
        "Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo with "
        "variance reduction for Bayesian inference, Machine Learning 108, 2019."
    ),
    "ewsg": (
        "R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of stochastic gradient MCMC methods "
        "via non-uniform subsampling of gradients, Foundations of Data Science."
    ),
}


def text_of(argument: str, method: Method) -> str:
    """What the docstring of a method says of an argument."""
    variants = VARIANTS.get(argument, {})
    for key in (method.name, method.estimator, ", ".join(method.dynamics)):
        if key in variants:
            return variants[key]
    return ARGUMENTS[argument]
