"""Ready posteriors of the models that the papers use most.

gaussian_location: the mean of Gaussian data.
normal: the mean and the scale of normal data.
linear_regression: with known noise.
logistic_regression: two classes.
softmax_regression: several classes.
"""

from ewsg_jax.models._gaussian_location import gaussian_location as gaussian_location
from ewsg_jax.models._linear_regression import linear_regression as linear_regression
from ewsg_jax.models._logistic_regression import logistic_regression as logistic_regression
from ewsg_jax.models._normal import normal as normal
from ewsg_jax.models._softmax_regression import softmax_regression as softmax_regression
