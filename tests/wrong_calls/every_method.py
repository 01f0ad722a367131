"""A wrong call of every named method, made from its record; those of its other arguments stand
elsewhere.
"""

import ewsg_jax as ewsg
from tests.wrong_calls.table import INF, LOGISTIC, POSITIVE, V, of


def with_infinite_steps(method):
    """Return a call of the method that nothing else is wrong with."""
    return lambda: method.build(LOGISTIC, INF, **method.example)


for name, method in ewsg.METHODS.items():
    call = with_infinite_steps(method)
    of(name, ("infinite step size", V, "step_size", "inf (float)", POSITIVE, call))
