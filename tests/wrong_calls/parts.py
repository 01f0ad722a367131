"""Wrong calls of what parts of one's own are made with."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import jax.numpy as jnp

import ewsg_jax as ewsg
from ewsg_jax.rows._blocks import Blocks
from tests.wrong_calls.standard import every
from tests.wrong_calls.table import MODEL, WRONG


class Twice:
    """No named tuple."""


def sgld(posterior, step_size):
    """Not the library's own."""


RECORD = dict.fromkeys(
    ("title", "estimator", "bias", "evaluations", "memory", "source", "hazard"), "none"
)
POSITIVE = "must be a positive number, a scalar array or a schedule (a function of the step)"

WRONG["hyperparameters"] |= {
    f"V friction | -1.0 (float) | {POSITIVE}": lambda: ewsg.hyperparameters(friction=-1.0),
    f"T friction | '1' (str) | {POSITIVE}": lambda: ewsg.hyperparameters(friction="1"),
    f"V step_size | (2,) | {POSITIVE}": lambda: ewsg.hyperparameters(step_size=jnp.ones(2)),
}
WRONG["module"] |= {
    "T module | 3 (int) | must decorate a class": lambda: ewsg.module(3),
}
WRONG["method"] |= {
    "V sgld | tests.wrong_calls.parts | two methods are called": lambda: ewsg.method(
        dynamics=(), **RECORD
    )(sgld),
}
every(
    "rows.sampling_scheme",
    lambda batch_size=2: ewsg.rows.sampling_scheme(batch_size, True, "random"),
)
WRONG["rows.sampling_scheme"] |= {
    "V rows | 'shuffled' (str) | must be one of 'random', 'blocks', 'epochs'": lambda: (
        ewsg.rows.sampling_scheme(2, True, "shuffled")
    ),
    "V batch_size | 2 | must be that of rows, 3": lambda: ewsg.gradients.uniform(
        MODEL, batch_size=2, rows=Blocks(batch_size=3)
    ),
    "V replace | False | must be True for rows=blocks(batch_size=3)": lambda: (
        ewsg.gradients.uniform(MODEL, batch_size=3, replace=False, rows=Blocks(batch_size=3))
    ),
}
