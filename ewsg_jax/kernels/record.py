"""The record of a named method, written at its definition, and the table of all records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ewsg_jax.kernels.docstrings import completed
from ewsg_jax.kernels.protocol import Kernel

Build = TypeVar("Build", bound=Callable[..., Kernel])


@dataclass(frozen=True, kw_only=True)
class Method:
    """What the documentation and the tests know of a method.

    Attributes:
        name: the name of its function.
        build: `build(posterior, step_size, **options) -> Kernel`.
        title: what the method is called.
        dynamics: names of its dynamics; empty for the exact methods, which are kernels themselves.
        estimator: name of its estimator, or "none".
        bias: order in the step size of its distance to the target.
        evaluations: number of evaluations of ∇Vᵢ in a step.
        memory: numbers that the estimator keeps.
        source: the publication.
        hazard: what can go wrong, in a few words.
        integrators: values of its option `integrator`; empty if it has none.
        example: small options that make a kernel for a few rows with labels "y", in addition to
            the posterior and the step size.
    """

    name: str
    build: Callable[..., Kernel]
    title: str
    dynamics: tuple[str, ...]
    estimator: str
    bias: str
    evaluations: str
    memory: str
    source: str
    hazard: str
    integrators: tuple[str, ...] = ()
    example: Mapping[str, Any] = field(default_factory=dict, hash=False)


METHODS: dict[str, Method] = {}
"""Every named method, in the order that `ewsg_jax/methods/__init__.py` gives; your own follow."""


def method(
    *,
    title: str,
    dynamics: tuple[str, ...],
    estimator: str,
    bias: str,
    evaluations: str,
    memory: str,
    source: str,
    hazard: str,
    integrators: tuple[str, ...] = (),
    example: Mapping[str, Any] | None = None,
    like: tuple[Callable[..., Kernel], ...] | None = None,
) -> Callable[[Build], Build]:
    """Write the record of the function below into `METHODS`.

    Args:
        title: what the method is called; this and the next are fields of `Method`.
        dynamics: names of its dynamics.
        estimator: name of its estimator.
        bias: order in the step size of its distance to the target.
        evaluations: number of evaluations of ∇Vᵢ in a step.
        memory: numbers that the estimator keeps.
        source: the publication.
        hazard: what can go wrong.
        integrators: values of its option `integrator`. Default: it has none.
        example: small options that make a kernel. Default: no options.
        like: complete the docstring: arguments that it leaves out are documented as in these
            methods, the first that has them; bias, cost, hazard and source come from the record.
            Default None: leave the docstring as it is.

    Raises:
        ValueError: there is a method of that name, or `like` is given and an argument is documented
            nowhere.

    Example:
        >>> import ewsg_jax as ewsg
        >>> @ewsg.method(
        ...     title="Langevin dynamics with the gradient of one row",
        ...     dynamics=("langevin",),
        ...     estimator="uniform",
        ...     bias="h",
        ...     evaluations="1",
        ...     memory="none",
        ...     source="this page",
        ...     hazard="as `sgld`",
        ... )
        ... def one_row_ld(posterior, step_size):
        ...     return ewsg.sgld(posterior, step_size, batch_size=1)
        >>> ewsg.METHODS.pop("one_row_ld").evaluations
        '1'
    """

    def register(build: Build) -> Build:
        name = build.__name__
        if name in METHODS:
            raise ValueError(
                f"two methods are called {name!r}: in {METHODS[name].build.__module__} and "
                f"{build.__module__}"
            )
        METHODS[name] = record = Method(
            name=name,
            build=build,
            title=title,
            dynamics=dynamics,
            estimator=estimator,
            bias=bias,
            evaluations=evaluations,
            memory=memory,
            source=source,
            hazard=hazard,
            integrators=integrators,
            example=example or {},
        )
        if like is not None:
            build.__doc__ = completed(build, vars(record), like)
        return build

    return register
