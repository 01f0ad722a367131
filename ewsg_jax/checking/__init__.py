"""How wrong draws are, and what is right: Stein's identities on draws from any sampler."""

from ewsg_jax.checking._check import check as check
from ewsg_jax.checking.kinetic import Kinetic as Kinetic
from ewsg_jax.checking.report import Corrected as Corrected
from ewsg_jax.checking.report import Report as Report
from ewsg_jax.checking.stein import Score as Score
