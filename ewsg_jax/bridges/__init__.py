"""Models that other packages describe.

BridgedModel: what a bridge returns: a posterior, a start, data, and draws in the model's own names.
"""

from ewsg_jax.bridges._model import BridgedModel as BridgedModel
