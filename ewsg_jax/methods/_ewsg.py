"""Underdamped Langevin dynamics with exponentially weighted minibatches."""

from typing import Literal

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P, PyTree
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.methods.underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Exponentially weighted stochastic gradients",
    dynamics=INTEGRATORS,
    estimator="exponentially_weighted(uniform)",
    bias="h",
    evaluations="(M+1) b",
    memory="none",
    source="Li, Wang, Zha & Tao, Algorithm 1",
    hazard="skewed gradients move the mean, by order h",
    integrators=INTEGRATORS,
    example={"friction": 2.0, "batch_size": 2, "chain_length": 2},
)
def ewsg(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    chain_length: int | float = 1,
    frozen_noise: str | PyTree = "momentum",
    candidates: Literal["together", "one_by_one"] = "together",
    carry_index: bool = False,
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Exponentially weighted stochastic gradients (Li, Wang, Zha & Tao), Algorithm 1: `sghmc` with chosen batches.

    A step draws a batch I; M times it draws another, J, and takes it in the place of I with probability min(1,
    exp(w(J) − w(I))). w is the exponent ½‖x + a‖² of the step's noise, a the batch's gradient in units of the
    noise, x the noise frozen. Then it moves as `sghmc` does.

    The paper integrates with `integrator="euler"`. Targets exp(−V/T) with a bias of order h: the weights damp the
    minibatch's heat and tilt its force, which for small h leaves θ as much too cold as `sghmc` leaves it too hot
    (docs/bias.md); skewed gradients move its mean. (M+1) b evaluations a step, M the chain length.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        chain_length: M ≥ 0, proposals per step. Default 1. `math.inf` uses the exact weights of all batches instead
            (small n; all n rows for batch_size=1).
        frozen_noise: the x of the weight ½‖x + a‖², a the gradient in units of the noise (Fig. 1b of the paper):
            `"momentum"` (default), its most likely value (no change of momentum); `"zero"`; `"one"`, all ones;
            `"rest"`, the noise that brings the momentum to rest (not with `integrator="exact"`); or a tree shaped
            like the position.
        candidates: `"together"` (default) evaluates the M+1 estimates at once, `"one_by_one"` in a scan that keeps
            two of them in memory; the same draws, equal to rounding.
        carry_index: begin each step's index chain with the batch that the last step accepted (section 4.4 of the
            paper), which each chain then keeps by its row numbers; default False: with a new one (Algorithm 1).
        integrator: the scheme of `ewsg_jax.dynamics`: `"semi_implicit"` (default); `"euler"`, the papers';
            `"splitting"`, of order h² with an exact gradient; `"ABOBA"` or `"BAOAB"` (`palindrome`), then
            without any on Gaussians; or `"exact"`, exact for a frozen one.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default): independent rows, or the subset; `"blocks"`: b consecutive rows from a uniform
            start, quick to fetch, for data in random order; or what `ewsg_jax.rows.by_probability` or `leverage`
            returns. With all but the first `replace` must be True. Not `"epochs"` nor those of blocks: the batches
            of a step must be exchangeable.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights); the second with `"semi_implicit"` and `"euler"` only.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or one that the integrator does not have; a
            `frozen_noise` that the dynamics does not have; at `init`, a batch larger than n where no row comes
            twice.

    References:
        R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of stochastic gradient MCMC methods via
            non-uniform subsampling of gradients, Foundations of Data Science.

    Example:
        The numbers are for about 10 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg(ewsg.models.gaussian_location(), 5e-2, friction=10.0, batch_size=1)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.exponentially_weighted(
            gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            candidates=candidates,
            carry_index=carry_index,
        ),
    )
