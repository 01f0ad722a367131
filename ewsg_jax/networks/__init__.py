"""Bayesian neural networks: a network's weights as the position of a chain.

fit: from a network and rows to predictions with intervals.
posterior: the target, from a network, its parameters and a likelihood.
warm_start: starts of chains at trained networks.
as_gradient_transformation: a dynamics in a training loop of optax.
from_nnx, from_equinox: a module as a function of its parameters.
running_predictive, predictive_of: predictions averaged along a run that stores no draw.
observe: potential, gradient norm and temperatures of chains along a run.
carry: leaves that are not sampled as arguments of a run's programs.
normal, Likelihood: what an output says of an observation.
fan_in: the standard deviations of weights by the number of inputs.
ensemble, swag, laplace: draws to compare with, of trained networks, of an optimiser's path and of
    the curvature at trained weights.
predictions: means, intervals and scores by draws of any of these, or of a run.
NetworkPredictions, FittedNetwork, FitReport, NewObservations, NetworkModel, NetworkPrediction,
    Observed, OptaxState, WithRawSD, NormalApproximation, Ensemble, WarmStart: what functions
    return.
"""

from ewsg_jax.draws.ensemble import Ensemble as Ensemble
from ewsg_jax.networks._carried import carry as carry
from ewsg_jax.networks._ensemble import ensemble as ensemble
from ewsg_jax.networks._fit import fit as fit
from ewsg_jax.networks._laplace import laplace as laplace
from ewsg_jax.networks._likelihoods import Likelihood as Likelihood
from ewsg_jax.networks._likelihoods import normal as normal
from ewsg_jax.networks._model import NetworkModel as NetworkModel
from ewsg_jax.networks._model import NetworkPrediction as NetworkPrediction
from ewsg_jax.networks._model import WithRawSD as WithRawSD
from ewsg_jax.networks._modules import from_equinox as from_equinox
from ewsg_jax.networks._modules import from_nnx as from_nnx
from ewsg_jax.networks._normal_approximation import NormalApproximation as NormalApproximation
from ewsg_jax.networks._observe import Observed as Observed
from ewsg_jax.networks._observe import observe as observe
from ewsg_jax.networks._optax import OptaxState as OptaxState
from ewsg_jax.networks._optax import as_gradient_transformation as as_gradient_transformation
from ewsg_jax.networks._posterior import posterior as posterior
from ewsg_jax.networks._predictions import NetworkPredictions as NetworkPredictions
from ewsg_jax.networks._predictions import NewObservations as NewObservations
from ewsg_jax.networks._predictions import predictions as predictions
from ewsg_jax.networks._priors import fan_in as fan_in
from ewsg_jax.networks._result import FitReport as FitReport
from ewsg_jax.networks._result import FittedNetwork as FittedNetwork
from ewsg_jax.networks._running import predictive_of as predictive_of
from ewsg_jax.networks._running import running_predictive as running_predictive
from ewsg_jax.networks._swag import swag as swag
from ewsg_jax.networks._warm_start import WarmStart as WarmStart
from ewsg_jax.networks._warm_start import warm_start as warm_start
